"""Validation errors, their words, and the rules for lists that every part of the API shares."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from driver.spelling import nearest_name

__all__ = ["FieldError", "each", "joined_errors", "path_step", "shown", "shown_value", "unknown_field", "unknown_value"]

_Item = TypeVar("_Item")
_SHOWN_LENGTH = 64
_ERRORS_SHOWN = 20
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that the API server would refuse.

    Attributes:
        path: The field as Kubernetes writes it, for example ``spec.devices.requests[0].exactly.count``.
        message: What is wrong with it, without the path.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def joined_errors(errors: Sequence[FieldError]) -> str:
    """Return all errors in one line; of a flood, the first 20 and how many more there are."""
    more = len(errors) - _ERRORS_SHOWN
    return "; ".join(map(str, errors[:_ERRORS_SHOWN])) + (f"; and {more} more" if more > 0 else "")


def shown(value: str) -> str:
    """Return a user's value, quoted for a message and cut where it is long."""
    return repr(value if len(value) <= _SHOWN_LENGTH else value[: _SHOWN_LENGTH - 3] + "...")


def shown_value(value: object) -> str:
    """Return a user's JSON value for a message: quoted where it is a string, else as JSON; cut where it is long."""
    if isinstance(value, str):
        return shown(value)
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[: _SHOWN_LENGTH - 3]}..."


def path_step(name: object) -> str:
    """Return a step of a path; what is no field's name is quoted and cut, since anybody may have written it."""
    return f".{name}" if _PLAIN_NAME.fullmatch(str(name)) else f"[{shown_value(name)}]"


def unknown_field(name: object, known: Sequence[str]) -> str:
    """Return the message for a field that is not among the ``known`` ones of its object, which may be none."""
    meant = nearest_name(str(name), known)
    if meant:
        return f"unknown field; did you mean {meant}?"
    return f"unknown field; known are {', '.join(known)}" if known else "unknown field"


def unknown_value(value: object, known: Sequence[str], expected: str, *, may_guess: bool = True) -> str:
    """Return the message for a value that is none of the known ones.

    Args:
        value: The value.
        known: The known ones.
        expected: These in words.
        may_guess: Whether to say which one may have been meant.
    """
    # Of a single one it is sure what is expected, not what was meant.
    meant = nearest_name(str(value), known) if may_guess and len(known) > 1 else None
    wanted = f"did you mean {meant}?" if meant else f"expected {expected}"
    return f"{shown_value(value)} is not known: {wanted}"


def each(
    path: str,
    items: Sequence[_Item],
    check: Callable[[str, _Item], Iterable[FieldError]],
    *,
    limit: int | None = None,
    key: Callable[[_Item], Hashable] | None = None,
) -> Iterator[FieldError]:
    """Check a list: its length, then each item, then that no two items have the same key.

    A list that is too long gives that one error and its items are not looked at, so that a hostile list costs nothing
    (upstream does the same: validateSlice and validateSet in pkg/apis/resource/validation).
    """
    if limit is not None and len(items) > limit:
        yield FieldError(path, f"has {len(items)} items, at most {limit} are allowed")
        return
    for index, item in enumerate(items):
        yield from check(f"{path}[{index}]", item)
    if key is None:
        return
    first: dict[Hashable, int] = {}
    for index, item in enumerate(items):
        earlier = first.setdefault(key(item), index)
        if earlier != index:
            yield FieldError(f"{path}[{index}]", f"{shown(str(key(item)))} is a duplicate of item {earlier}")
