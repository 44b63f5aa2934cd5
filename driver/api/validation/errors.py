"""Validation errors, and the rules for lists that every part of the API shares."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["FieldError", "each", "joined_errors", "shown", "shown_value"]

_Item = TypeVar("_Item")
_SHOWN_LENGTH = 64
_ERRORS_SHOWN = 20


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
