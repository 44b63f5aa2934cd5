"""Collects what is found in one claim."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from driver.convert.findings import Finding, Outcome
from driver.wording import short

__all__ = ["Report"]

_LONGEST: Final = 500
"""Characters of a text: an expression may have ten thousand."""


@dataclass(slots=True)
class Report:
    """The findings of a claim, in the order in which they are made.

    Attributes:
        findings: What was found.
    """

    findings: list[Finding] = field(default_factory=list)

    @property
    def is_refused(self) -> bool:
        """Whether anything cannot be converted."""
        return any(finding.outcome is Outcome.REFUSED for finding in self.findings)

    def add(self, path: str, value: str, outcome: Outcome, text: str) -> None:
        """Add a finding about a field."""
        self.findings.append(
            Finding(
                dialect="other DRA drivers",
                field=path,
                value=_one_line(value),
                outcome=outcome,
                text=_one_line(text),
            )
        )

    def begin(self) -> Report:
        """Return an empty one, for an attempt that may be dropped."""
        return Report()

    def take(self, other: Report) -> None:
        """Add what an attempt found."""
        self.findings.extend(other.findings)


def _one_line(text: str) -> str:
    """Return a text that anybody may have written, cut, and without what a terminal would act on."""
    line = short(text[: 2 * _LONGEST], _LONGEST)
    return "".join(character if character.isprintable() else "?" for character in line)
