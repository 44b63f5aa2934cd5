"""Reads JSON into frozen dataclasses, strictly, and writes them: without pydantic, for the process on every node.

A field has the type that its class names, with nothing converted; what the class does not name is refused; and all
mistakes come at once, each with its field. A class may have ``str``, ``int``, ``bool``, ``datetime``, quantities, enums
and ``Literal`` of strings or numbers, tuples, mappings by strings, other dataclasses, any of them or None, and a union
of dataclasses that differ in the ``Literal`` of their field ``kind``. :func:`rule` gives a field's name and bounds. A
class with the class variable ``WIRE`` is read and written as Kubernetes does it: names in camelCase, null means absent,
and defaults are left out. A class method ``refused`` with a field's name and the fields read before it returns why the
field cannot be there at all.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import field as dataclass_field
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from driver.api.quantity import Quantity
from driver.api.validation.errors import FieldError, path_step, shown_value, unknown_field, unknown_value
from driver.spelling import camel_case

__all__ = ["StrictError", "read", "rule", "wire_names", "write"]

_T = TypeVar("_T")
_RULE: Final = "rule"
_KIND: Final = "kind"


class StrictError(ValueError):
    """The JSON is not what the class wants.

    Attributes:
        errors: All mistakes, at least one.
    """

    def __init__(self, errors: Sequence[FieldError]) -> None:
        first = errors[0]
        super().__init__(f"{first.path}: {first.message}" if first.path else first.message)
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    name: str | None
    least: float | datetime | None
    most: float | datetime | None
    longest: int | None
    pattern: re.Pattern[str] | None
    check: Callable[[Any, Mapping[str, Any]], Any] | None


def rule(
    *,
    default: Any = MISSING,
    factory: Any = MISSING,
    name: str | None = None,
    least: float | datetime | None = None,
    most: float | datetime | None = None,
    longest: int | None = None,
    pattern: str | None = None,
    check: Callable[[Any, Mapping[str, Any]], Any] | None = None,
) -> Any:
    """Return a dataclass's field whose values have bounds; None, where the field allows it, always passes.

    Args:
        default: The field's default; none if it is left out.
        factory: Makes the default, where that is a mapping.
        name: Its name in JSON, where that does not follow from the class.
        least: The least number.
        most: The largest number.
        longest: The most characters of a text, or items of a list.
        pattern: What the whole text must match.
        check: Called with the value and with the fields read before it, by their names in the class; returns the value
            to keep, or raises a ValueError that says all.
    """
    made = _Rule(
        name=name,
        least=least,
        most=most,
        longest=longest,
        pattern=None if pattern is None else re.compile(pattern, re.ASCII),
        check=check,
    )
    if factory is not MISSING:
        return dataclass_field(default_factory=factory, metadata={_RULE: made})
    return dataclass_field(default=default, metadata={_RULE: made})


def read(
    cls: type[_T],
    value: object,
    *,
    path: str = "",
    ignore_unknown: bool = False,
    is_complete: bool = False,
    for_people: bool = False,
) -> _T:
    """Return the dataclass that a JSON value describes.

    Args:
        cls: The class.
        value: JSON as Python data.
        path: Where the value stands in a larger one, for the errors.
        ignore_unknown: Whether unknown fields are left out instead of refused.
        is_complete: Whether fields with a default must be there as well.
        for_people: Whether the errors show values, and what may have been meant by a wrong name.

    Raises:
        StrictError: All that is wrong.
    """
    reading = _Reading(ignore_unknown=ignore_unknown, is_complete=is_complete, for_people=for_people)
    wanted: Any = cls
    made = _reader(wanted)(value, path, reading)
    if reading.errors:
        raise StrictError(reading.errors)
    return made  # type: ignore[no-any-return]


def write(value: object) -> Any:
    """Return a dataclass, or what one holds, as JSON types; :func:`read` returns an equal one."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return [write(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): write(item) for key, item in value.items()}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if is_dataclass(value):
        kind: Any = type(value)
        items = {attribute: getattr(value, attribute) for attribute in wire_names(kind)}
        if getattr(kind, "WIRE", False):
            items = {attribute: item for attribute, item in items.items() if not _is_default(kind, attribute, item)}
        return {wire_names(kind)[attribute]: write(item) for attribute, item in items.items()}
    return str(value)


class _Bad:
    """Stands for what could not be read: its error is known."""


_BAD: Final = _Bad()


@dataclass(slots=True, kw_only=True)
class _Reading:
    ignore_unknown: bool
    is_complete: bool
    for_people: bool
    errors: list[FieldError] = dataclass_field(default_factory=list)

    def refuse(self, path: str, message: str) -> _Bad:
        self.errors.append(FieldError(path.removeprefix("."), message))
        return _BAD

    def wants(self, path: str, wanted: str, value: object) -> _Bad:
        is_shown = self.for_people and isinstance(value, str | int | float)
        return self.refuse(path, f"{wanted}, not {shown_value(value)}" if is_shown else wanted)


_Reader: TypeAlias = Callable[[Any, str, _Reading], Any]


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    name: str
    read: _Reader
    is_required: bool
    rule: _Rule | None


@cache
def wire_names(cls: type) -> dict[str, str]:
    """Return the fields' names in JSON, by their names in the class."""
    is_camel = getattr(cls, "WIRE", False)
    found = {}
    for item in fields(cls):
        bounds: _Rule | None = item.metadata.get(_RULE)
        own = bounds.name if bounds else None
        found[item.name] = own or (camel_case(item.name) if is_camel else item.name)
    return found


@cache
def _fields(cls: type) -> tuple[_Field, ...]:
    hints, names = get_type_hints(cls), wire_names(cls)
    return tuple(
        _Field(
            attribute=item.name,
            name=names[item.name],
            read=_reader(hints[item.name]),
            is_required=item.default is MISSING and item.default_factory is MISSING,
            rule=item.metadata.get(_RULE),
        )
        for item in fields(cls)
    )


def _class(cls: Any, value: Any, path: str, reading: _Reading) -> Any:
    if not isinstance(value, dict):
        return reading.refuse(path, "expected an object")
    known = _fields(cls)
    refused = getattr(cls, "refused", None)
    if getattr(cls, "WIRE", False):
        value = {name: item for name, item in value.items() if item is not None}
    found: dict[str, Any] = {}
    before = len(reading.errors)
    for item in known:
        if item.name not in value:
            if item.is_required or reading.is_complete:
                reading.refuse(f"{path}.{item.name}", "is required")
            else:
                found[item.attribute] = _default(cls, item.attribute)
            continue
        where = f"{path}.{item.name}"
        problem = None if refused is None else refused(item.attribute, found)
        got = item.read(value[item.name], where, reading) if problem is None else reading.refuse(where, problem)
        if item.rule is not None and got is not _BAD and got is not None:
            got = _bounded(got, item.rule, where, reading, found)
        if got is not _BAD:
            found[item.attribute] = got
    if not reading.ignore_unknown:
        names = [item.name for item in known]
        for name in value.keys() - set(names):
            text = unknown_field(name, names) if reading.for_people else "unknown field"
            reading.refuse(f"{path}{path_step(name)}", text)
    if len(reading.errors) > before:
        return _BAD
    return cls(**found)


def _is_default(cls: Any, attribute: str, value: Any) -> bool:
    item = cls.__dataclass_fields__[attribute]
    has_one = item.default is not MISSING or item.default_factory is not MISSING
    return has_one and value == _default(cls, attribute)


def _default(cls: Any, attribute: str) -> Any:
    item = cls.__dataclass_fields__[attribute]
    return item.default if item.default is not MISSING else item.default_factory()


def _bounded(value: Any, bounds: _Rule, path: str, reading: _Reading, found: Mapping[str, Any]) -> Any:
    if bounds.least is not None and value < bounds.least:
        return reading.wants(path, f"must be at least {bounds.least}", value)
    if bounds.most is not None and value > bounds.most:
        return reading.wants(path, f"must be at most {bounds.most}", value)
    if bounds.longest is not None and len(value) > bounds.longest:
        what = "characters" if isinstance(value, str) else "items"
        return reading.refuse(path, f"must have at most {bounds.longest} {what}")
    if bounds.pattern is not None and bounds.pattern.fullmatch(value) is None:
        return reading.wants(path, f"must match {bounds.pattern.pattern}", value)
    if bounds.check is None:
        return value
    try:
        return bounds.check(value, found)
    except ValueError as error:
        return reading.refuse(path, str(error))


@cache
def _reader(wanted: Any) -> _Reader:
    """Return what reads a value of a type."""
    if hasattr(wanted, "__supertype__"):  # NewType
        return _reader(wanted.__supertype__)
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        return _one_of(dict(zip(arguments, arguments, strict=True)))
    if origin in (Union, types.UnionType):
        others = tuple(each for each in arguments if each is not types.NoneType)
        inner = _reader(others[0]) if len(others) == 1 else _by_kind(others)
        if len(others) == len(arguments):
            return inner
        return lambda value, path, reading: None if value is None else inner(value, path, reading)
    if origin is tuple and arguments[-1] is Ellipsis:
        return _items(_reader(arguments[0]))
    if origin is tuple:
        return _of_length(tuple(map(_reader, arguments)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_reader(arguments[1]))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _one_of({each.value: each for each in wanted})
    if is_dataclass(wanted):
        return lambda value, path, reading: _class(wanted, value, path, reading)
    if wanted is Any:
        return lambda value, _path, _reading: value
    simple = _SIMPLE.get(wanted)
    if simple is None:
        raise TypeError(f"{wanted} cannot be read strictly")
    return simple


def _of_type(kind: type, text: str) -> _Reader:
    # Not isinstance(): true is no number.
    return lambda value, path, reading: value if type(value) is kind else reading.wants(path, text, value)


def _moment(value: Any, path: str, reading: _Reading) -> Any:
    wanted = "expected a time, such as 2026-01-31T12:00:00Z"
    if not isinstance(value, str):
        return reading.wants(path, wanted, value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return reading.wants(path, wanted, value)
    return moment if moment.tzinfo is not None else reading.wants(path, wanted, value)


def _quantity(value: Any, path: str, reading: _Reading) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return reading.refuse(path, "expected a quantity, such as 80Gi or 500m")
    try:
        return Quantity(str(value))
    except ValueError as error:
        return reading.refuse(path, str(error))


_SIMPLE: Final[Mapping[Any, _Reader]] = {
    str: _of_type(str, "expected a string"),
    int: _of_type(int, "expected a whole number"),
    bool: _of_type(bool, "expected true or false"),
    datetime: _moment,
    Quantity: _quantity,
}


def _one_of(known: Mapping[Any, Any]) -> _Reader:
    names = [f"'{each}'" if isinstance(each, str) else str(each) for each in known]
    expected = " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)

    def reads(value: Any, path: str, reading: _Reading) -> Any:
        # Of equal type as well: 1 is no True.
        if isinstance(value, str | int) and value in known and type(value) is type(next(iter(known))):
            return known[value]
        if not (reading.for_people and isinstance(value, str | int | float)):
            return reading.refuse(path, f"expected {expected}")
        return reading.refuse(path, unknown_value(value, [str(each) for each in known], expected))

    return reads


def _by_kind(classes: Sequence[Any]) -> _Reader:
    by_kind = {cls.__dataclass_fields__[_KIND].default: cls for cls in classes}
    kinds = _one_of(dict(zip(by_kind, by_kind, strict=True)))

    def reads(value: Any, path: str, reading: _Reading) -> Any:
        if not isinstance(value, dict):
            return reading.refuse(path, "expected an object")
        kind = kinds(value.get(_KIND), f"{path}.{_KIND}", reading)
        return _BAD if kind is _BAD else _class(by_kind[kind], value, path, reading)

    return reads


def _items(read_item: _Reader) -> _Reader:
    def reads(value: Any, path: str, reading: _Reading) -> Any:
        if not isinstance(value, list):
            return reading.refuse(path, "expected a list")
        found = tuple(read_item(item, f"{path}[{index}]", reading) for index, item in enumerate(value))
        return _BAD if _BAD in found else found

    return reads


def _of_length(readers: Sequence[_Reader]) -> _Reader:
    def reads(value: Any, path: str, reading: _Reading) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            return reading.refuse(path, f"expected a list of {len(readers)}")
        pairs = enumerate(zip(readers, value, strict=True))
        found = tuple(each(item, f"{path}[{index}]", reading) for index, (each, item) in pairs)
        return _BAD if _BAD in found else found

    return reads


def _mapping(read_item: _Reader) -> _Reader:
    def reads(value: Any, path: str, reading: _Reading) -> Any:
        if not isinstance(value, dict):
            return reading.refuse(path, "expected an object")
        found = {key: read_item(item, f"{path}{path_step(key)}", reading) for key, item in value.items()}
        return _BAD if any(item is _BAD for item in found.values()) else found

    return reads
