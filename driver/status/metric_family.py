"""Metrics as plain data: families of samples, from which a library makes the page that Prometheus scrapes.

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
    """How often something took how long, as the buckets of a histogram.

    Attributes:
        bounds_s: The upper bounds of the buckets, in seconds, ascending; infinity, that of the last one, is left out.
        counts: The number in each bucket, that of infinity included: one more than bounds.
        sum_s: The sum of all durations, in seconds.
    """

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float


Sample: TypeAlias = tuple[tuple[str, ...], float | Distribution]
"""The values of the labels, and the sample's value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All samples of one metric name.

    Attributes:
        name: The name with its unit; that of a counter ends with ``_total``.
        kind: The metric's type: the samples of a histogram are distributions, all others numbers.
        text: The help text, one sentence.
        labels: The names of the labels.
        samples: The samples, no two with the same labels.
    """

    name: str
    kind: FamilyKind
    text: str
    labels: tuple[str, ...]
    samples: tuple[Sample, ...]


def family(kind: FamilyKind, name: str, text: str, labels: Iterable[str], samples: Iterable[Sample]) -> Family:
    """Return a family; one without samples is shown as well, so that its name can be found."""
    return Family(name=name, kind=kind, text=text, labels=tuple(labels), samples=tuple(samples))
