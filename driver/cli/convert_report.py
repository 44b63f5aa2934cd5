"""Prints what of the user's objects converts, what each field became, and what has no equal."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from driver.adapters.files.document import Document, Problem, printable
from driver.cli.grid import print_grid
from driver.cli.render import console
from driver.convert import Conversion, Finding, Outcome
from driver.convert.assessment import Assessed, Assessment, Reason
from driver.wording import listed, plural

__all__ = ["assessment_to_wire", "print_assessment", "print_conversions"]

_WIDEST: Final = 100  # columns; longer lines are hard to read
_NARROWEST: Final = 40
_OBJECTS_LISTED: Final = 40
"""The most objects of which each is listed; of more, reasons are, with the objects that have them."""
_REASONS_SHOWN: Final = 20
_OBJECTS_SHOWN: Final = 10
_NOTED_SHOWN: Final = 3
_PROBLEMS_SHOWN: Final = 20
_RESOURCES_SHOWN: Final = 10
_STYLES: Final = {Outcome.REFUSED: "bold red", Outcome.NOTED: "yellow", Outcome.CONVERTED: "green"}
_HEADS: Final = {
    Outcome.CONVERTED: "converted",
    Outcome.NOTED: "converted, with notes",
    Outcome.REFUSED: "not converted",
}
_LAST_KEY: Final = re.compile(r"\[([^\]]*[^\]0-9][^\]]*)\]$")
"""A key of a map at the end of a path, such as a resource's or an annotation's name; no index of a list."""
_OF_NOBODY: Final = "other"


def print_conversions(conversions: Sequence[tuple[Document, Conversion]]) -> None:
    """Print on standard error what became of each object that asks for devices; of many, the assessment.

    Args:
        conversions: All objects.
    """
    screen = console(stderr=True)
    asking = [(document, found) for document, found in conversions if found.outcome is not Outcome.UNCHANGED]
    assessment = Assessment()
    for document, found in conversions:
        assessment.add(document.data, lambda _, found=found: found, document.where)  # type: ignore[misc]
    if len(asking) > _OBJECTS_LISTED:
        _print_reasons(screen, assessment)
        screen.print()
    else:
        _print_objects(screen, asking)
    counts = Counter(found.outcome for _, found in asking)
    others = plural(len(conversions) - len(asking), "other object")
    not_converted = _not_converted(assessment)
    if not asking:
        _print_lines(screen, f"nothing to convert: {others} passed through", indent="")
        _print_lines(screen, not_converted, indent="")
        return
    refused = counts[Outcome.REFUSED]
    text = f"{len(asking) - refused} of {plural(len(asking), 'object')} converted"
    text += f", {counts[Outcome.NOTED]} with notes" if counts[Outcome.NOTED] else ""
    text += f"; {refused} left as {'it is' if refused == 1 else 'they are'}" if refused else ""
    if len(conversions) > len(asking):
        text += f"; {others} passed through"
    _print_lines(screen, text, indent="", style="bold")
    _print_lines(screen, not_converted, indent="")


def _print_objects(screen: Console, asking: Sequence[tuple[Document, Conversion]]) -> None:
    told: set[str] = set()
    for document, found in asking:
        subject = _subject(document.kind, document.namespace, document.name)
        head = Text(f"{printable(document.where)}: {printable(subject)}: ")
        head.append(_HEADS[found.outcome], style=_STYLES[found.outcome])
        screen.print(head, soft_wrap=True)
        # Of an object that stays as it is, what else could have been converted is of no interest.
        fields: dict[tuple[str, Outcome, str], list[Finding]] = {}
        for item in found.findings:
            if found.outcome in (item.outcome, Outcome.NOTED):
                fields.setdefault((item.container, item.outcome, item.text), []).append(item)
        for (container, outcome, text), findings in fields.items():
            _print_fields(screen, container, outcome, "as above" if text in told else text, findings)
            if outcome is not Outcome.CONVERTED:
                told.add(text)


def _print_fields(screen: Console, container: str, outcome: Outcome, text: str, findings: Sequence[Finding]) -> None:
    """Print fields of a container and, below them, what they became."""
    style = "" if outcome is Outcome.CONVERTED else _STYLES[outcome]
    fields = ", ".join(filter(None, map(_asked, findings)))
    head = printable(": ".join(filter(None, (container, fields))))
    if head:
        screen.print(Text(f"  {head}", style=style), soft_wrap=True)
    _print_lines(screen, text, indent="    " if head else "  ", style="" if head else style)


def print_assessment(assessment: Assessment, problems: Sequence[Problem]) -> None:
    """Print how much converts, by dialect, and why the rest does not.

    Args:
        assessment: The objects.
        problems: Of files that could not be read.
    """
    screen = console()
    items = assessment.assessed
    _print_lines(screen, _headline(items), indent="", style="bold")
    others = [
        _not_converted(assessment),
        _others(assessment.without_devices, "for no device"),
        f"{plural(assessment.with_claims, 'workload')} with claims already" if assessment.with_claims else "",
        _others(assessment.left_out, "for devices, not looked at"),
    ]
    if any(others):
        _print_lines(screen, "; ".join(filter(None, others)), indent="")
    if items:
        screen.print()
        _print_dialects(screen, items)
    _print_reasons(screen, assessment)
    if problems:
        screen.print("\nNot read:", style=_STYLES[Outcome.REFUSED])
    for problem in problems[:_PROBLEMS_SHOWN]:
        screen.print(Text(f"  {printable(str(problem))}"), soft_wrap=True)
    if len(problems) > _PROBLEMS_SHOWN:
        screen.print(f"  ... and {len(problems) - _PROBLEMS_SHOWN} more; --check -o json shows all", style="dim")


def _not_converted(assessment: Assessment) -> str:
    """Return which resources, of those that ask for nothing else, are not converted; empty if there are none."""
    named = printable(listed(list(assessment.other_resources), shown=_RESOURCES_SHOWN))
    what = f"for resources that are not converted: {named} (name NICs in the resource map)"
    return _others(assessment.with_other_resources, what)


def _others(count: int, what: str) -> str:
    """Return ``3 others ask for no device``; empty for none."""
    return f"{count} {'other asks' if count == 1 else 'others ask'} {what}" if count else ""


def _print_reasons(screen: Console, assessment: Assessment) -> None:
    for outcome, title, shown in (
        (Outcome.REFUSED, "Not converted:", _OBJECTS_SHOWN),
        (Outcome.NOTED, "To read, of those that convert:", _NOTED_SHOWN),
    ):
        reasons = assessment.reasons(outcome)
        if reasons:
            screen.print(f"\n{title}", style=_STYLES[outcome])
        for reason in reasons[:_REASONS_SHOWN]:
            _print_reason(screen, reason, shown)
        if len(reasons) > _REASONS_SHOWN:
            screen.print(f"  ... and {plural(len(reasons) - _REASONS_SHOWN, 'more reason')}; --check -o json shows all")


def _headline(items: Sequence[Assessed]) -> str:
    if not items:
        return "no workload asks for devices in another system's way"
    parts = []
    for is_workload, noun in ((True, "workload"), (False, "claim")):
        outcomes = Counter(item.outcome for item in items if item.is_workload is is_workload)
        count = outcomes.total()
        if not count:
            continue
        refused, noted = outcomes[Outcome.REFUSED], outcomes[Outcome.NOTED]
        text = f"{count - refused} of {plural(count, noun)} that ask for devices convert"
        if count == 1:
            text = f"{count - refused} of 1 {noun} that asks for devices converts"
        text += f", {noted} with notes" if noted else ""
        text += f"; {refused} {'does' if refused == 1 else 'do'} not" if refused else ""
        parts.append(text)
    return "; ".join(parts)


def _print_dialects(screen: Console, items: Sequence[Assessed]) -> None:
    rows = [
        (dialect, *(str(counts[key]) for key in ("objects", "converted", "noted", "refused")))
        for dialect, counts in _by_dialect(items).items()
    ]
    print_grid(screen, ("DIALECT", "OBJECTS", "CONVERT", "WITH NOTES", "DO NOT"), rows)


def _by_dialect(items: Sequence[Assessed]) -> dict[str, Counter[str]]:
    """Return the counts of each dialect, that of the most objects first; one object may use several."""
    found: dict[str, Counter[str]] = {}
    for item in items:
        for dialect in item.dialects or (_OF_NOBODY,):
            counts = found.setdefault(dialect, Counter())
            counts["objects"] += 1
            counts["refused" if item.outcome is Outcome.REFUSED else "converted"] += 1
            counts["noted"] += item.outcome is Outcome.NOTED
    return dict(sorted(found.items(), key=lambda entry: (-entry[1]["objects"], entry[0])))


def _print_reason(screen: Console, reason: Reason, shown: int) -> None:
    of = f"{reason.dialect}, " if reason.dialect else ""
    _print_lines(screen, f"{reason.text} ({of}{plural(len(reason.findings), 'object')})", indent="  ")
    for item, finding in reason.findings[:shown]:
        where = f"{printable(item.where)}: " if item.where else ""
        parts = (_subject(item.kind, item.namespace, item.name), finding.container, _asked(finding))
        line = printable(": ".join(filter(None, parts)))
        screen.print(Text(f"    {where}{line}"), style="dim", soft_wrap=True)
    if len(reason.findings) > shown:
        screen.print(f"    ... and {len(reason.findings) - shown} more; --check -o json shows all", style="dim")


def assessment_to_wire(assessment: Assessment, problems: Sequence[Problem]) -> dict[str, Any]:
    """Return the assessment as JSON types."""
    items = assessment.assessed
    outcomes = Counter(item.outcome for item in items)
    return {
        "summary": {
            "asking": len(items),
            "converted": len(items) - outcomes[Outcome.REFUSED],
            "withNotes": outcomes[Outcome.NOTED],
            "refused": outcomes[Outcome.REFUSED],
            "withoutDevices": assessment.without_devices,
            "withClaims": assessment.with_claims,
            "withOtherResources": assessment.with_other_resources,
            "notLookedAt": assessment.left_out,
        },
        "dialects": {
            dialect: {
                "objects": counts["objects"],
                "converted": counts["converted"],
                "withNotes": counts["noted"],
                "refused": counts["refused"],
            }
            for dialect, counts in _by_dialect(items).items()
        },
        "otherResources": assessment.other_resources,
        "objects": [_object_to_wire(item) for item in items],
        "notRead": [str(problem) for problem in problems],
    }


def _object_to_wire(item: Assessed) -> dict[str, Any]:
    data = {"kind": item.kind, "namespace": item.namespace, "name": item.name, "where": item.where}
    return {key: value for key, value in data.items() if value} | {
        "outcome": item.outcome.value,
        "findings": [
            {
                "dialect": finding.dialect,
                "container": finding.container,
                "field": finding.field,
                "value": finding.value,
                "outcome": finding.outcome.value,
                "text": finding.text,
            }
            for finding in item.findings
        ],
    }


def _subject(kind: str, namespace: str, name: str) -> str:
    return f"{kind[:80]} {f'{namespace[:80]}/' if namespace else ''}{name[:253]}".strip()


def _asked(finding: Finding) -> str:
    """Return ``name: value``, without the way to the field; empty if the finding is about none."""
    if not finding.field:
        return ""
    bracketed = _LAST_KEY.search(finding.field)
    name = bracketed[1] if bracketed else finding.field.rpartition(".")[2]
    return f"{name}: {finding.value}"


def _print_lines(screen: Console, text: str, *, indent: str, style: str = "") -> None:
    """Print a text in lines of the terminal's width, without breaking names, which people copy."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    width = max(min(screen.width, _WIDEST), _NARROWEST)
    for line in textwrap.wrap(
        shown, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ):
        screen.print(line, style=style, soft_wrap=True)
