"""Finds the name that is meant by one that is nearly right, and writes names as JSON has them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

__all__ = [
    "alike",
    "camel_case",
    "close_matches",
    "is_one_domain",
    "is_part",
    "nearest",
    "nearest_name",
    "plain",
    "unlikeness",
]

_SEPARATORS: Final = re.compile(r"[^0-9a-z]+")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_NEAR: Final = 0.7
_SAME_DOMAIN: Final = 0.75
_AS_NEAR: Final = 16
_SHORTEST_PART: Final = 3
_LONGEST: Final = 80  # characters of a text that are compared


def camel_case(name: str) -> str:
    """Return a field's name of Python as Kubernetes' API writes it: ``plugin_version`` as ``pluginVersion``."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def plain(text: str) -> str:
    """Return a name without case and separators."""
    return _SEPARATORS.sub("", text.lower())


def alike(text: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs in case and separators alone, or None."""
    wanted = plain(text)
    return next((item for item in known if wanted and plain(item) == wanted), None)


def is_one_domain(name: str, other: str) -> bool:
    """Whether the names of two classes have the same domain but for a misspelling, or one has none.

    A class of another domain is another driver's: it may be missing, and is not a misspelling.
    """
    domain, of_other = name.lower().partition(".")[2], other.lower().partition(".")[2]
    if not domain or not of_other:
        return True
    return difflib.SequenceMatcher(None, domain, of_other).ratio() >= _SAME_DOMAIN


def is_part(part: str, whole: str) -> bool:
    """Whether a plain name begins or ends with another one of some length."""
    return len(part) >= _SHORTEST_PART and (whole.startswith(part) or whole.endswith(part))


def close_matches(
    text: str, known: Collection[str], *, count: int = 1, cutoff: float = 0.6, longest: int = _LONGEST
) -> list[str]:
    """Return the known names that are spelled most like the text, the nearest first.

    Args:
        text: The text.
        known: The names.
        count: The most names to return.
        cutoff: How alike they must be, from 0 to 1 (difflib's ratio).
        longest: So many characters of the text are compared.
    """
    return difflib.get_close_matches(text[:longest], list(known), n=count, cutoff=cutoff)


def nearest(text: str, known: Iterable[str]) -> str | None:
    """Return the known name that is spelled nearly the same, or None."""
    wanted = plain(text)
    by_plain = {plain(item): item for item in reversed(list(known))}
    near = difflib.get_close_matches(wanted, by_plain, n=_AS_NEAR, cutoff=_NEAR)
    return by_plain[min(near, key=lambda item: unlikeness(wanted, item))] if near else None


def unlikeness(text: str, other: str) -> tuple[float, list[int]]:
    """Return a sort key: what is spelled most like ``text`` first; of equals, what has the nearest numbers.

    So ``1g.10gb`` is more like ``1g.5gb`` than ``1g.20gb`` is.
    """
    numbers = [[int(number) for number in _NUMBER.findall(each)] for each in (text, other)]
    apart = [abs(one - two) for one, two in zip(*numbers, strict=False)]
    return -difflib.SequenceMatcher(None, other, text).ratio(), apart


def nearest_name(text: str, known: Sequence[str]) -> str | None:
    """Return the name that was meant: by case and separators, as a part of what was written, by spelling, in short."""
    short = text[:_LONGEST]
    same = alike(short, known)
    if same is not None:
        return same
    # "mpsConfig" is mps; the longest name that is in it says most.
    parts = [name for name in known if is_part(plain(name), plain(short))]
    if parts:
        return max(parts, key=len)
    begun = [name for name in known if len(plain(short)) >= _SHORTEST_PART and plain(name).startswith(plain(short))]
    return nearest(short, known) or (begun[0] if len(begun) == 1 else None)
