"""Findings of the linter with their places in the files: as lines that editors understand, and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from driver.adapters.manifests import ClaimManifest, ClassManifest
from driver.adapters.yaml_documents import printable
from driver.cli.render import console, plural
from driver.lint import LintFinding, Severity

__all__ = ["Located", "located", "report", "to_wire"]

_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A finding, and where the field stands.

    Attributes:
        file: The file.
        line: The line, from 1.
        kind: The object's kind.
        name: The object's name.
        path: The field as it stands in the file.
        finding: What was found.
    """

    file: str
    line: int
    kind: str
    name: str
    path: str
    finding: LintFinding


def located(item: ClaimManifest | ClassManifest, finding: LintFinding) -> Located:
    """A finding about an object of a file."""
    metadata = item.claim.metadata if isinstance(item, ClaimManifest) else item.device_class.metadata
    return Located(
        file=item.document.source,
        line=item.line(finding.path),
        kind=item.document.kind,
        name=metadata.name,
        path=item.written_path(finding.path),
        finding=finding,
    )


def report(findings: Sequence[Located], *, objects: int) -> None:
    """Print them, one a line with its hint below it, and how many there are."""
    screen = console()
    for item in sorted(findings, key=lambda item: (item.file, item.line)):
        severity = item.finding.severity
        line = Text(f"{printable(item.file)}:{item.line}: ")
        line.append(f"{severity.value}: ", style=_STYLES[severity])
        line.append(f"{item.kind} {printable(item.name)}: {printable(item.path)}: {printable(item.finding.message)}")
        line.append(f" [{item.finding.code.value}]", style="dim")
        screen.print(line, soft_wrap=True)
        if item.finding.hint:
            screen.print(Text(f"    {printable(item.finding.hint)}", style="dim"), soft_wrap=True)
    errors = sum(item.finding.severity is Severity.ERROR for item in findings)
    counted = f"{plural(errors, 'error')}, {plural(len(findings) - errors, 'warning')}" if findings else "nothing found"
    console(stderr=True).print(f"{plural(objects, 'object')} checked: {counted}", soft_wrap=True)


def to_wire(findings: Sequence[Located]) -> list[dict[str, Any]]:
    """As JSON: a list of findings."""
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
