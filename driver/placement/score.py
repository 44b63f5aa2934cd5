"""A score, and the terms that tell people how it came about."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Score", "Term"]


@dataclass(frozen=True, slots=True)
class Term:
    """A figure of a score.

    Attributes:
        name: What it is, for people.
        value: The figure; lower is better.
        unit: Of the figure; empty for a plain number.
    """

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Score:
    """How good a place is.

    Attributes:
        key: What is compared, first to last; lower is better. Comparable with keys of the same policy only.
        terms: The figures behind it, the most important first.
    """

    key: tuple[float, ...]
    terms: tuple[Term, ...]
