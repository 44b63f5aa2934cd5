"""Type conversions, such as ``int(x)`` and ``string(x)``.

Source of the rules: cel-go v0.29.2, common/types (ConvertToType of each type), and Go's strconv.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from driver.cel.meter import Meter
from driver.cel.operators import Implementation
from driver.cel.values import (
    Duration,
    IntType,
    NetworkPrefix,
    Timestamp,
    TypeName,
    UintType,
    Value,
    fail,
    integer,
    type_name,
)

__all__ = ["CONVERSIONS", "format_double"]

_SIGNED: Final = re.compile(r"[+-]?[0-9]+")
_UNSIGNED: Final = re.compile(r"[0-9]+")
_DIGITS: Final = r"[0-9]+(?:_[0-9]+)*"
_DOUBLE: Final = re.compile(
    rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE
)
_HEX_DOUBLE: Final = re.compile(r"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]{1,5}", re.IGNORECASE)
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_LONGEST_NUMBER: Final = 400


def format_double(value: float) -> str:
    """Format as Go's ``strconv.FormatFloat(value, 'g', -1, 64)``: shortest digits, exponents as there."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is a number
    point = len(digits) + exponent - 1
    text = "".join(map(str, digits))
    prefix = "-" if sign else ""
    if value != 0 and (point < -4 or point >= 6):
        mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
        return f"{prefix}{mantissa}e{'-' if point < 0 else '+'}{abs(point):02d}"
    return prefix + format(abs(Decimal(repr(value))).normalize(), "f")


def _int_of_string(text: str) -> Value:
    if not _SIGNED.fullmatch(text) or len(text) > _LONGEST_NUMBER:
        raise fail("type conversion error from 'string' to 'int'")
    return _int(int(text))


def _int(value: int) -> Value:
    if not -(2**63) <= value < 2**63:
        raise fail("integer overflow")
    return integer(value)


def _int_of_double(value: float) -> Value:
    # cel-go, overflow.go: both ends are excluded, because doubles near them are not exact.
    if not -(2.0**63) < value < 2.0**63:
        raise fail("integer overflow")
    return IntType(int(value))


def _uint_of_string(text: str) -> Value:
    if not _UNSIGNED.fullmatch(text) or len(text) > _LONGEST_NUMBER:
        raise fail("type conversion error from 'string' to 'uint'")
    return _uint(int(text))


def _uint(value: int) -> Value:
    if not 0 <= value < 2**64:
        raise fail("unsigned integer overflow")
    return UintType(value)


def _uint_of_double(value: float) -> Value:
    if not 0 <= value < 2.0**64:
        raise fail("unsigned integer overflow")
    return UintType(int(value))


def _double_of_string(text: str) -> Value:
    if len(text) <= _LONGEST_NUMBER and _HEX_DOUBLE.fullmatch(text):
        return float.fromhex(text)
    if not _DOUBLE.fullmatch(text) or len(text) > _LONGEST_NUMBER:
        raise fail("type conversion error from 'string' to 'double'")
    value = float(text)
    if math.isinf(value) and "inf" not in text.lower():
        raise fail("type conversion error from 'string' to 'double'")
    return value


def _bool_of_string(text: str) -> Value:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise fail("type conversion error from 'string' to 'bool'")


def _bytes_of_string(meter: Meter, text: str) -> Value:
    meter.text(len(text), text)
    return text.encode()


def _string_of_bytes(meter: Meter, value: bytes) -> Value:
    meter.text(len(value) if value.isascii() else 4 * len(value))
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise fail("invalid UTF-8 in bytes, cannot convert to string") from None


def _prefix(value: NetworkPrefix) -> Value:
    return f"{value.address}/{value.bits}"


CONVERSIONS: Final[dict[str, Implementation]] = {
    **{
        f"{name}_to_{name}": lambda _meter, value: value
        for name in ("bool", "bytes", "double", "duration", "int64", "string", "timestamp", "uint64")
    },
    "to_dyn": lambda _meter, value: value,
    "type": lambda _meter, value: TypeName(type_name(value)),
    "string_to_bool": lambda _meter, text: _bool_of_string(text),
    "string_to_bytes": _bytes_of_string,
    "int64_to_double": lambda _meter, value: float(value),
    "uint64_to_double": lambda _meter, value: float(value),
    "string_to_double": lambda _meter, text: _double_of_string(text),
    "string_to_duration": lambda _meter, text: Duration.parse(text),
    "double_to_int64": lambda _meter, value: _int_of_double(value),
    "duration_to_int64": lambda _meter, value: _int(value.nanos),
    "string_to_int64": lambda _meter, text: _int_of_string(text),
    "timestamp_to_int64": lambda _meter, value: _int(value.nanos // 10**9),
    "uint64_to_int64": lambda _meter, value: _int(int(value)),
    "bool_to_string": lambda _meter, value: "true" if value else "false",
    "bytes_to_string": _string_of_bytes,
    "double_to_string": lambda _meter, value: format_double(value),
    "duration_to_string": lambda _meter, value: str(value),
    "int64_to_string": lambda _meter, value: str(int(value)),
    "timestamp_to_string": lambda _meter, value: str(value),
    "uint64_to_string": lambda _meter, value: str(int(value)),
    "ip_to_string": lambda _meter, value: str(value),
    "cidr_to_string": lambda _meter, value: _prefix(value),
    "int64_to_timestamp": lambda _meter, value: Timestamp(int(value) * 10**9),
    "string_to_timestamp": lambda _meter, text: Timestamp.parse(text),
    "double_to_uint64": lambda _meter, value: _uint_of_double(value),
    "int64_to_uint64": lambda _meter, value: _uint(int(value)),
    "string_to_uint64": lambda _meter, text: _uint_of_string(text),
}
"""The implementation of each overload of a conversion; a ValueError is an error of the expression."""
