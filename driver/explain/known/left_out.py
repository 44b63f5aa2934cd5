"""Objects that are there and were not read: nothing else is known of them, and they may change an answer.

An answer without them is not certain: :mod:`driver.explain.judge.doubts` decides when.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import islice

from driver.explain.known.cluster import Kind

__all__ = ["LeftOut"]


@dataclass(frozen=True, slots=True)
class _Object:
    """One of them.

    Attributes:
        why: Why it was not read.
        matters: It may change an answer that is not about it.
        is_noted: :meth:`LeftOut.notes` has a line for it.
    """

    why: str
    matters: bool
    is_noted: bool


class LeftOut:
    """Which objects were left out, by kind and key (``namespace/name``, or ``name``)."""

    def __init__(self) -> None:
        self._objects: dict[tuple[Kind, str], _Object] = {}
        self._noted: dict[tuple[Kind, str], str] = {}
        # In order of their keys' arrival; of those without a name only how many there are.
        self._mattering: defaultdict[Kind, dict[str, None]] = defaultdict(dict)
        self._unnamed: defaultdict[Kind, int] = defaultdict(int)

    def add(self, kind: Kind, key: str, why: str, *, matters: bool = True, is_noted: bool = True) -> bool:
        """Leave an object out.

        Args:
            kind: Its kind.
            key: Its key; empty where it has none.
            why: Why, for a person.
            matters: It may change an answer that is not about it: not a claim that holds nothing.
            is_noted: :meth:`notes` has a line for it.

        Returns:
            Whether that is new.
        """
        entry = _Object(why, matters, is_noted)
        if self._objects.get((kind, key)) == entry:
            return False
        self.forget(kind, key)
        self._objects[kind, key] = entry
        if is_noted:
            self._noted[kind, key] = why
        if matters:
            self._mattering[kind][key] = None
        return True

    def add_unnamed(self, kind: Kind, count: int) -> None:
        """Leave out objects of which not even the names are known."""
        self._unnamed[kind] += count

    def forget(self, kind: Kind, key: str) -> bool:
        """Forget an object that was read, or is gone; whether it had been left out."""
        if self._objects.pop((kind, key), None) is None:
            return False
        self._noted.pop((kind, key), None)
        self._mattering[kind].pop(key, None)
        return True

    def why(self, kind: Kind, key: str) -> str:
        """Return why the object was left out; empty where it was not."""
        found = self._objects.get((kind, key))
        return found.why if found is not None else ""

    def mattering(self, kind: Kind) -> tuple[int, str]:
        """Return how many objects of the kind may change an answer, and the key of the first; empty if it has none."""
        keys = self._mattering.get(kind, {})
        return len(keys) + self._unnamed.get(kind, 0), next(iter(keys), "")

    def has(self, kind: Kind) -> bool:
        """Whether an object of the kind was left out, even if it can change nothing."""
        return self._unnamed.get(kind, 0) > 0 or any(each is kind for each, _ in self._objects)

    def notes(self, most: int) -> list[str]:
        """Return a line for each object that has one, up to so many, and one for the others."""
        shown = islice(self._noted.items(), most)
        lines = [f"{kind.value} {key} is left out: {why}" for (kind, key), why in shown]
        if len(self._noted) > most:
            lines.append(f"and {len(self._noted) - most} more objects are left out")
        return lines
