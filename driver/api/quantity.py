"""Kubernetes quantities (``500m``, ``80Gi``, ``1e3``), exact.

Source of the rules: k8s.io/apimachinery v0.36.3, pkg/api/resource/quantity.go and suffix.go. Values are kept as whole
nano-units, because Kubernetes rounds up to nano (``Quantity`` "No fraction is allowed to be smaller than 1n") and
because whole numbers compare and add without error, whatever the size.
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal
from functools import total_ordering
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # the kubelet plugin does without pydantic
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["Quantity", "binary_spelling"]

_NANO: Final = 10**9
# Kubernetes caps what it parses with a binary suffix at the int64 range (quantity.go, maxAllowed); it does not refuse.
_MAX_BINARY: Final = 2**63 - 1

_FORM: Final = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?", re.ASCII
)
# What people write for bytes: 40GB, 40 GiB, 40gb.
_BYTES: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([kmgtpe])(i?)b?", re.ASCII | re.IGNORECASE)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# Longer than any quantity that means something. This and the three digits of an exponent keep a hostile string from
# becoming a number that Python would not print.
_MAX_LENGTH: Final = 128


@total_ordering
class Quantity:
    """An exact, immutable amount. ``str()`` gives the canonical form, which the API server writes after any arithmetic.

    Args:
        text: The quantity as Kubernetes writes it, for example ``"80Gi"``.

    Raises:
        ValueError: ``text`` is not a quantity.
    """

    __slots__ = ("_format", "_nano")
    _nano: int
    _format: str

    def __init__(self, text: str) -> None:
        match = _FORM.fullmatch(text) if len(text) <= _MAX_LENGTH else None
        if match is None:
            shown = text if len(text) <= 40 else text[:37] + "..."
            raise ValueError(f"{shown!r} is not a quantity: {_instead(text)}")
        sign, digits, suffix = match[1], match[2], match[3] or ""
        # A precision that no allowed input exceeds, so that only the final rounding to nano rounds.
        exact = Context(prec=_MAX_LENGTH + 64, Emax=10**6, Emin=-(10**6))
        if suffix in _BINARY:
            value = min(exact.multiply(Decimal(digits), Decimal(2 ** _BINARY[suffix])), Decimal(_MAX_BINARY))
            # A fraction cannot be written with a binary suffix.
            self._format = "DecimalSI" if 0 < value < 1 else "BinarySI"
        elif suffix in _DECIMAL:
            value = exact.scaleb(Decimal(digits), _DECIMAL[suffix])
            self._format = "DecimalSI"
        else:
            value = exact.scaleb(Decimal(digits), int(suffix[1:]))
            self._format = "DecimalExponent"
        nano = int(exact.scaleb(value, 9).to_integral_value(ROUND_UP, exact))
        self._nano = -nano if sign == "-" else nano

    @classmethod
    def of(cls, value: int, *, binary: bool = False) -> Quantity:
        """Return the quantity of a whole number; ``binary`` chooses the suffixes Ki, Mi, Gi … for its text."""
        return cls.from_nano(value * _NANO, "BinarySI" if binary else "DecimalSI")

    @classmethod
    def from_nano(cls, nano: int, format_: str = "DecimalSI") -> Quantity:
        """Return the quantity of ``nano`` billionths; ``format_`` is BinarySI, DecimalSI or DecimalExponent."""
        made = cls.__new__(cls)
        made._nano = nano  # noqa: SLF001 - an alternative constructor
        made._format = format_  # noqa: SLF001 - as above
        return made

    @property
    def nano(self) -> int:
        """The amount in whole nano-units."""
        return self._nano

    @property
    def format(self) -> str:
        """How the text is written: BinarySI, DecimalSI or DecimalExponent."""
        return self._format

    def is_whole(self) -> bool:
        """Whether the amount has no fraction."""
        return self._nano % _NANO == 0

    def ceil(self) -> int:
        """Return the amount, rounded away from zero to a whole number as by Go's ``Quantity.Value``."""
        amount = -(-abs(self._nano) // _NANO)
        return -amount if self._nano < 0 else amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self._nano == other._nano

    def __lt__(self, other: Quantity) -> bool:
        return self._nano < other._nano

    def __hash__(self) -> int:
        return hash(self._nano)

    def __add__(self, other: Quantity) -> Quantity:
        # Go's Add keeps the left format unless the left value is zero.
        return Quantity.from_nano(self._nano + other._nano, self._format if self._nano else other._format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity.from_nano(self._nano - other._nano, self._format if self._nano else other._format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        # CanonicalizeBytes: binary only for whole amounts of at least 1024, else decimal; no fraction digits; the
        # largest suffix that keeps the number whole.
        if self._nano == 0:
            return "0"
        sign, amount = ("-" if self._nano < 0 else ""), abs(self._nano)
        if self._format == "BinarySI" and amount >= 1024 * _NANO and amount % _NANO == 0:
            whole = amount // _NANO
            for suffix, shift in reversed(_BINARY.items()):
                if whole % (1 << shift) == 0:
                    return f"{sign}{whole >> shift}{suffix}"
            return f"{sign}{whole}"
        # Suffixes end at E, exponents do not.
        exponent = 18 if self._format != "DecimalExponent" else max(len(str(amount)) // 3 * 3, 18)
        while amount % 10 ** (exponent + 9):
            exponent -= 3
        number = amount // 10 ** (exponent + 9)
        if self._format == "DecimalExponent":
            return f"{sign}{number}e{exponent}" if exponent else f"{sign}{number}"
        return f"{sign}{number}{next(suffix for suffix, power in _DECIMAL.items() if power == exponent)}"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Take a string, or a plain JSON number as Kubernetes does; write a string."""
        from pydantic_core import core_schema  # noqa: PLC0415 - see above

        def read(value: Any) -> Quantity:
            if isinstance(value, cls):
                return value
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError("expected a quantity, such as 80Gi or 500m")  # noqa: TRY004 - pydantic reports ValueErrors
            return cls(str(value))

        return core_schema.no_info_plain_validator_function(
            read,
            json_schema_input_schema=core_schema.str_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema()),
        )


def binary_spelling(text: str) -> str | None:
    """Return the quantity meant by an amount of bytes in another notation: ``40Gi`` for ``40GB``; None for others."""
    match = _BYTES.fullmatch(text)
    return None if match is None else f"{match[1]}{match[2].upper()}i"


def _instead(text: str) -> str:
    """Return what to write instead of something that is not a quantity."""
    match = _BYTES.fullmatch(text)
    if match is None:
        return "expected a number with an optional suffix such as 500m, 80Gi or 1e3"
    number, unit, is_binary = match[1], match[2].upper(), bool(match[3])
    return f"write {number}{unit}i" if is_binary else f"write {number}{'k' if unit == 'K' else unit} or {number}{unit}i"
