"""Writes the linter's findings as SARIF 2.1.0, which GitHub's code scanning and many editors read.

Source of what is written: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0; what GitHub needs of
it: docs.github.com, "SARIF support for code scanning" (rules with a help text, results with a relative location).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from driver import __version__
from driver.cli.lint_report import Located
from driver.lint import Severity
from driver.lint.rules import RULES, Rule

__all__ = ["to_sarif"]

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MOST: Final = 25_000
"""The most results of a run that GitHub takes."""


def to_sarif(findings: Sequence[Located], paths: Mapping[str, Path], notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return one run with all rules, and the worst findings first.

    Args:
        findings: In the order of the files.
        paths: The files by their names in findings; what is not there is standard input.
        notes: What was assumed or left out.
    """
    rules = sorted(RULES)
    order = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
    worst = sorted(findings, key=lambda item: order.index(item.finding.severity))[:_MOST]
    notifications = [_notification("note", note) for note in notes]
    if len(findings) > _MOST:
        more = f"{len(findings) - _MOST:,} more findings, none of them worse, are left out: GitHub takes {_MOST:,}"
        notifications.append(_notification("warning", more))
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "rootport lint",
                        "version": __version__,
                        "rules": [_rule(code.value, RULES[code]) for code in rules],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": notifications,
                    }
                ],
                "results": [_result(item, rules.index(item.finding.code), paths.get(item.file)) for item in worst],
            }
        ],
    }


def _notification(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": text}}


def _rule(name: str, rule: Rule) -> dict[str, Any]:
    title = rule.what.split(". ")[0].split(": ")[0]
    return {
        "id": name,
        "name": "".join(part.capitalize() for part in name.split("-")),
        "shortDescription": {"text": f"{title}.".replace("`", "")},
        "fullDescription": {"text": f"{rule.what}.".replace("`", "")},
        "help": {
            "text": f"{rule.what}. {rule.help}.".replace("`", ""),
            "markdown": f"{rule.what}.\n\n**What to do:** {rule.help}.",
        },
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"tags": ["kubernetes", "dra"]},
    }


def _result(item: Located, rule: int, path: Path | None) -> dict[str, Any]:
    finding = item.finding
    subject = f"{item.subject}: " if item.subject else ""
    text = f"{subject}{finding.message}" + (f" ({finding.hint})" if finding.hint else "")
    return {
        "ruleId": finding.code.value,
        "ruleIndex": rule,
        "level": finding.severity.value,
        "message": {"text": text if text.endswith((".", "?")) else f"{text}."},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "stdin" if path is None else _uri(path)},
                    "region": {"startLine": item.line},
                },
                "logicalLocations": [{"fullyQualifiedName": item.subject, "kind": "object"}] if item.subject else [],
            }
        ],
    }


def _uri(file: Path) -> str:
    """Return the file's path from the current folder if it is below it: a repository's CI runs there."""
    here, path = Path.cwd(), Path(os.path.normpath(Path.cwd() / file))
    return quote(os.fsencode(path.relative_to(here))) if path.is_relative_to(here) else path.as_uri()
