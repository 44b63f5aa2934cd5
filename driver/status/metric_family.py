"""What Prometheus scrapes, as plain data: families of samples, before any library makes a page of them.

Names, units and labels follow https://prometheus.io/docs/practices/naming/.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Distribution", "Family", "FamilyKind", "Sample", "family"]

FamilyKind: TypeAlias = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How often something took how long.

    Attributes:
        bounds_s: The upper bounds of the buckets, in seconds, rising; that of the last bucket, infinity, is left out.
        counts: How many fell into each bucket, that of infinity included: one more than bounds.
        sum_s: Of all of them, in seconds.
    """

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float


Sample: TypeAlias = tuple[tuple[str, ...], float | Distribution]
"""The values of the labels, and the sample's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All samples of one name.

    Attributes:
        name: With its unit; of a counter with ``_total``.
        kind: A histogram's samples are distributions, all others numbers.
        text: What it tells, in a sentence.
        labels: The names of the labels.
        samples: No two have the same labels.
    """

    name: str
    kind: FamilyKind
    text: str
    labels: tuple[str, ...]
    samples: tuple[Sample, ...]


def family(kind: FamilyKind, name: str, text: str, labels: Iterable[str], samples: Iterable[Sample]) -> Family:
    """A family of what there is; also one without samples is shown, so that its name can be found."""
    return Family(name=name, kind=kind, text=text, labels=tuple(labels), samples=tuple(samples))
