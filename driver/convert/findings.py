"""What a conversion yields: the object with claims, its templates, and a line for each field that was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from driver.wording import short

__all__ = ["Conversion", "Finding", "Outcome", "worst"]


class Outcome(StrEnum):
    """How a field, or a whole object, was converted, from best to worst.

    UNCHANGED: it asks for no device in another system's way. NOTED: it is converted, with a note to read. REFUSED: it
    is left as it is, because no claim says the same.
    """

    UNCHANGED = "unchanged"
    CONVERTED = "converted"
    NOTED = "noted"
    REFUSED = "refused"


_ORDER: Final = tuple(Outcome)
_SHOWN: Final = 80
"""Characters of a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report: a field that was read, and what it became.

    Attributes:
        dialect: Whose field it is, such as ``Koordinator``; empty for what is nobody's own.
        field: Its path as Kubernetes writes it: ``spec.containers[0].resources.limits[nvidia.com/gpu]``.
        value: What was written there; the finding shortens it, and writes it on one line.
        outcome: CONVERTED, NOTED or REFUSED.
        text: What it became, or what has no equal and what to do instead, or why it is refused and what to write.
        container: The container's name; empty where the field is the pod's.
    """

    dialect: str
    field: str
    value: str
    outcome: Outcome
    text: str
    container: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", short(self.value[: 2 * _SHOWN], _SHOWN))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """An object with claims in place of what it asked of other systems.

    Attributes:
        object: The object; the very input where the outcome is UNCHANGED or REFUSED.
        templates: The ResourceClaimTemplates that it names and that must be created first (``resource.k8s.io/v1``),
            each once, in the object's namespace if it has one.
        findings: What was read, in the order of the object's fields.
        outcome: The worst of the findings'.
    """

    object: Mapping[str, Any]
    templates: tuple[Mapping[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()
    outcome: Outcome = Outcome.UNCHANGED


def worst(findings: tuple[Finding, ...]) -> Outcome:
    """Return the worst outcome; UNCHANGED if there is no finding."""
    return max((finding.outcome for finding in findings), key=_ORDER.index, default=Outcome.UNCHANGED)
