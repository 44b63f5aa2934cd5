"""The types that Kubernetes adds to CEL: quantities, semantic versions, IP addresses, CIDRs, and the clock.

Source of the rules: k8s.io/apiserver v0.37.2, pkg/cel/library/{quantity,semverlib,ip,cidr}.go, with the parsers they
call (k8s.io/apimachinery resource.Quantity, github.com/blang/semver/v4, Go's net/netip); the accessors of timestamps
and durations: cel-go v0.29.2, common/stdlib/standard.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import semver

from driver.api.quantity import Quantity
from driver.cel.meter import LimitReachedError, Meter
from driver.cel.operators import Implementation, compare
from driver.cel.values import IntType, NetworkPrefix, Sum, Timestamp, Value, fail, integer

__all__ = ["KUBERNETES", "parse_version"]

_Read = TypeVar("_Read")

_LONGEST_TEXT: Final = 10 * 1024  # as long as an expression; a longer one is only made by one
_STEPS_TO_READ: Final = 16
_READ_PER_STEP: Final = 16
_STEPS_FOR_UTC: Final = 8
_STEPS_FOR_ZONE: Final = 1000  # it is a file

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_version(text: str) -> semver.Version:
    """Parse a version as github.com/blang/semver/v4 does: x.y.z without leading zeros, each below 2^64.

    Raises:
        ValueError: The text is no version.
    """
    if not text.isascii():
        raise ValueError(f"{text[:60]!r} is not a semantic version: not ASCII")
    version = semver.Version.parse(text)
    if max(version.major, version.minor, version.patch) >= 2**64:
        raise ValueError(f"{text[:60]!r} is not a semantic version: a number is too large")
    return version


def _normalized(text: str) -> semver.Version:
    """Return the version that ``semver(text, true)`` means: without a v, with all parts, no leading zeros."""
    parts = [_trimmed(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parse_version(".".join(parts))


def _trimmed(part: str) -> str:
    if len(part) <= 1:
        return part
    trimmed = part.lstrip("0")
    return trimmed if trimmed[:1] in tuple("0123456789") else "0" + trimmed


def _version(text: str, normalize: bool = False) -> semver.Version:  # noqa: FBT001, FBT002 - an argument of CEL
    return _normalized(text) if normalize else parse_version(text)


def _number(value: int) -> Value:
    # Go turns the unsigned number into a signed one by its bits.
    return integer(value - 2**64 if value >= 2**63 else value)


def _read(parse: Callable[..., _Read]) -> Callable[..., _Read]:
    """Wrap a parser of a text; the flag of semver is passed on."""

    def read(meter: Meter, text: str, *flags: bool) -> _Read:
        if len(text) > _LONGEST_TEXT:
            raise LimitReachedError(f"reads a text of more than {_LONGEST_TEXT} characters")
        meter.work(_STEPS_TO_READ + len(text) // _READ_PER_STEP)
        return parse(text, *flags)

    return read


def _is(parse: Callable[..., Value]) -> Implementation:
    read = _read(parse)

    def is_valid(meter: Meter, text: str, *flags: bool) -> Value:
        try:
            read(meter, text, *flags)
        except ValueError:
            return False
        return True

    return is_valid


def _whole(quantity: Quantity) -> int | None:
    """Return Go's AsInt64: the quantity if it is a whole number of 64 bits."""
    if not quantity.is_whole() or not -(2**63) <= quantity.ceil() < 2**63:
        return None
    return quantity.ceil()


def _as_integer(_meter: Meter, quantity: Quantity) -> Value:
    whole = _whole(quantity)
    if whole is None:
        raise fail("cannot convert value to integer")
    return integer(whole)


def _sum(first: Quantity, second: Quantity | IntType, sign: int) -> Value:
    other = second.nano if isinstance(second, Quantity) else int(second) * 10**9
    return Sum.from_nano(first.nano + sign * other, first.format)


def _address(text: str) -> _Address:
    if "%" in text:
        raise ValueError(f"IP address {text[:60]!r} with zone value is not allowed")
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise ValueError(f"IPv4-mapped IPv6 address {text[:60]!r} is not allowed")
    return address


def _prefix(text: str) -> NetworkPrefix:
    host, slash, bits = text.rpartition("/")
    address = _address(host)
    if not slash or not bits.isascii() or not bits.isdigit() or (len(bits) > 1 and bits[0] == "0"):
        raise ValueError(f"{text[:60]!r} is not a CIDR")
    if len(bits) > 3 or int(bits) > address.max_prefixlen:
        raise ValueError(f"{text[:60]!r} is not a CIDR: too many bits")
    return NetworkPrefix(address, int(bits))


def _masked(prefix: NetworkPrefix) -> NetworkPrefix:
    host_bits = prefix.address.max_prefixlen - prefix.bits
    return NetworkPrefix(type(prefix.address)(int(prefix.address) >> host_bits << host_bits), prefix.bits)


def _holds(prefix: NetworkPrefix, address: _Address, bits: int) -> bool:
    same_family = prefix.address.version == address.version
    return same_family and bits >= prefix.bits and _masked(prefix) == _masked(NetworkPrefix(address, prefix.bits))


def _holds_prefix(prefix: NetworkPrefix, other: NetworkPrefix) -> bool:
    return _holds(prefix, other.address, other.bits)


def _is_global_unicast(address: _Address) -> bool:
    # Go's netip.Addr.IsGlobalUnicast: private addresses count.
    broadcast = address.version == 4 and int(address) == 2**32 - 1
    excluded = address.is_unspecified or address.is_loopback or address.is_multicast or _is_link_local_unicast(address)
    return not (broadcast or excluded)


def _is_link_local_unicast(address: _Address) -> bool:
    if address.version == 4:
        return int(address) >> 16 == 0xA9FE
    return int(address) >> 118 == 0xFE80 >> 6


def _is_link_local_multicast(address: _Address) -> bool:
    if address.version == 4:
        return int(address) >> 8 == 0xE00000
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _part(of: Callable[[Timestamp, str], int]) -> Implementation:
    def part(meter: Meter, timestamp: Timestamp, zone: str = "UTC") -> Value:
        meter.work(_STEPS_FOR_UTC if zone == "UTC" else _STEPS_FOR_ZONE)
        return integer(of(timestamp, zone))

    return part


def _whole_units(unit: str) -> Implementation:
    return lambda _meter, duration: integer(duration.whole(unit))


_ADDRESS: Final = _read(_address)
_PREFIX: Final = _read(_prefix)
_PARTS: Final[dict[str, Callable[[Timestamp, str], int]]] = {
    "year": lambda timestamp, zone: timestamp.at(zone).year,
    "month": lambda timestamp, zone: timestamp.at(zone).month - 1,
    "day_of_year": lambda timestamp, zone: timestamp.at(zone).timetuple().tm_yday - 1,
    "day_of_month": lambda timestamp, zone: timestamp.at(zone).day - 1,
    "day_of_month_1_based": lambda timestamp, zone: timestamp.at(zone).day,
    "day_of_week": lambda timestamp, zone: timestamp.at(zone).isoweekday() % 7,
    "hours": lambda timestamp, zone: timestamp.at(zone).hour,
    "minutes": lambda timestamp, zone: timestamp.at(zone).minute,
    "seconds": lambda timestamp, zone: timestamp.at(zone).second,
    "milliseconds": lambda timestamp, _zone: timestamp.fraction // 10**6,
}

KUBERNETES: Final[dict[str, Implementation]] = {
    "string_to_quantity": _read(Quantity),
    "is_quantity_string": _is(Quantity),
    "quantity_sign": lambda _meter, quantity: integer((quantity.nano > 0) - (quantity.nano < 0)),
    "quantity_is_integer": lambda _meter, quantity: _whole(quantity) is not None,
    "quantity_get_int": _as_integer,
    "quantity_get_float": lambda _meter, quantity: quantity.nano / 10**9,
    "quantity_add": lambda _meter, first, second: _sum(first, second, 1),
    "quantity_add_int": lambda _meter, first, second: _sum(first, second, 1),
    "quantity_sub": lambda _meter, first, second: _sum(first, second, -1),
    "quantity_sub_int": lambda _meter, first, second: _sum(first, second, -1),
    "string_to_semver": _read(_version),
    "string_bool_to_semver": _read(_version),
    "is_semver_string": _is(_version),
    "is_semver_string_bool": _is(_version),
    "semver_major": lambda _meter, version: _number(version.major),
    "semver_minor": lambda _meter, version: _number(version.minor),
    "semver_patch": lambda _meter, version: _number(version.patch),
    **{
        f"{type_}_{name}": implementation
        for type_ in ("quantity", "semver")
        for name, implementation in {
            "is_greater_than": lambda _meter, first, second: compare(first, second) == 1,
            "is_less_than": lambda _meter, first, second: compare(first, second) == -1,
            "compare_to": lambda _meter, first, second: integer(compare(first, second)),
        }.items()
    },
    "string_to_ip": _read(_address),
    "is_ip": _is(_address),
    "ip_is_canonical": _read(lambda text: str(_address(text)) == text),
    "ip_family": lambda _meter, address: integer(address.version),
    "ip_is_unspecified": lambda _meter, address: address.is_unspecified,
    "ip_is_loopback": lambda _meter, address: address.is_loopback,
    "ip_is_global_unicast": lambda _meter, address: _is_global_unicast(address),
    "ip_is_link_local_unicast": lambda _meter, address: _is_link_local_unicast(address),
    "ip_is_link_local_multicast": lambda _meter, address: _is_link_local_multicast(address),
    "string_to_cidr": _read(_prefix),
    "is_cidr": _is(_prefix),
    "cidr_ip": lambda _meter, prefix: prefix.address,
    "cidr_masked": lambda _meter, prefix: _masked(prefix),
    "cidr_prefix_length": lambda _meter, prefix: integer(prefix.bits),
    "cidr_contains_ip_ip": lambda _meter, prefix, address: _holds(prefix, address, address.max_prefixlen),
    "cidr_contains_ip_string": lambda meter, prefix, text: _holds(prefix, _ADDRESS(meter, text), 128),
    "cidr_contains_cidr": lambda _meter, prefix, other: _holds_prefix(prefix, other),
    "cidr_contains_cidr_string": lambda meter, prefix, text: _holds_prefix(prefix, _PREFIX(meter, text)),
    **{f"timestamp_to_{name}": _part(of) for name, of in _PARTS.items()},
    **{f"timestamp_to_{name}_with_tz": _part(of) for name, of in _PARTS.items() if name != "seconds"},
    "timestamp_to_seconds_tz": _part(_PARTS["seconds"]),
    **{
        f"duration_to_{name}": _whole_units(unit)
        for name, unit in {"hours": "h", "minutes": "m", "seconds": "s", "milliseconds": "ms"}.items()
    },
}
"""The implementation of each overload of these functions; a ValueError is an error of the expression."""
