"""Prints the linter's findings with their places in the files: as lines that editors understand, and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from driver.adapters.files.document import Problem, printable
from driver.adapters.manifests.claims import ClaimManifest, ClassManifest, PodManifest
from driver.cli.render import console
from driver.lint import LintCode, LintFinding, Severity
from driver.wording import plural

__all__ = ["Located", "located", "located_problem", "report", "to_wire"]

_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A finding with its place in a file.

    Attributes:
        file: The file.
        line: The line, from 1.
        kind: The object's kind; empty where the finding is about a file.
        name: The object's name, likewise.
        path: The field as it stands in the file.
        finding: What was found.
    """

    file: str
    line: int
    kind: str
    name: str
    path: str
    finding: LintFinding

    @property
    def subject(self) -> str:
        """The object and the field, as far as there are some."""
        thing = f"{self.kind} {printable(self.name)}".strip()
        return ": ".join(part for part in (thing, printable(self.path)) if part)


def located(item: ClaimManifest | ClassManifest | PodManifest, finding: LintFinding) -> Located:
    """Return a finding about an object of a file with its place."""
    return Located(
        file=item.document.source,
        line=item.line(finding.path),
        kind=printable(item.document.kind[:80]),
        name=item.document.name[:253],
        path=finding.path if isinstance(item, PodManifest) else item.written_path(finding.path),
        finding=finding,
    )


def located_problem(problem: Problem) -> Located:
    """Return the finding for a file, or an object of it, that could not be checked."""
    severity = Severity.WARNING if problem.is_harmless else Severity.ERROR
    return Located(
        file=problem.source,
        line=problem.line or 1,
        kind=problem.object_kind,
        name=problem.name,
        path=problem.path,
        finding=LintFinding(
            code=LintCode(problem.kind.value),
            severity=severity,
            path=problem.path,
            message=problem.message,
            hint=problem.hint,
        ),
    )


def report(findings: Sequence[Located], *, objects: int) -> None:
    """Print the findings, one a line with its hint below it, and how many there are."""
    screen = console()
    for item in findings:
        severity = item.finding.severity
        line = Text(f"{printable(item.file)}:{item.line}: ")
        line.append(f"{severity.value}: ", style=_STYLES[severity])
        line.append(": ".join(part for part in (item.subject, printable(item.finding.message)) if part))
        line.append(f" [{item.finding.code.value}]", style="dim")
        screen.print(line, soft_wrap=True)
        if item.finding.hint:
            screen.print(Text(f"    {printable(item.finding.hint)}", style="dim"), soft_wrap=True)
    checked = f"{plural(objects, 'object')} checked" if objects else "no object could be checked"
    counted = f"{checked}: {_counted(findings)}" if objects or findings else "there is nothing to check"
    console(stderr=True).print(counted, soft_wrap=True)


def _counted(findings: Sequence[Located]) -> str:
    if not findings:
        return "nothing found"
    counts = {severity: sum(item.finding.severity is severity for item in findings) for severity in Severity}
    counted = f"{plural(counts[Severity.ERROR], 'error')}, {plural(counts[Severity.WARNING], 'warning')}"
    notes = counts[Severity.NOTE]
    return f"{counted}, {plural(notes, 'note')}" if notes else counted


def to_wire(findings: Sequence[Located]) -> list[dict[str, Any]]:
    """Return the findings as JSON types."""
    return [
        {
            "file": item.file,
            "line": item.line,
            "kind": item.kind,
            "name": item.name,
            "path": item.path,
            "severity": item.finding.severity.value,
            "code": item.finding.code.value,
            "message": item.finding.message,
            "hint": item.finding.hint,
        }
        for item in findings
    ]
