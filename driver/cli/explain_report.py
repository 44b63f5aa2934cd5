"""Prints an explanation, or many short ones, on a terminal: the core's report, with colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click
from rich.text import Text

from driver.cli.render import console, requested_width
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.tell.report import WIDTH, Tone, report
from driver.explain.tell.summary import short_answer
from driver.wording import plural

__all__ = ["Known", "print_explanation", "print_pending"]

_WIDEST: Final = 100  # columns; longer lines are hard to read
_LEAST: Final = 20  # columns for why: a long name makes a long line
_NOTES: Final = 5
_STYLES: Final = {
    Tone.PLAIN: "",
    Tone.HEADING: "bold",
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.FAINT: "dim",
    Tone.COMMAND: "cyan",
}


@dataclass(frozen=True, slots=True)
class Known:
    """Says how much is known of what is pending.

    Attributes:
        is_all: No claim or pod was left out that may be pending.
        missing: Kinds of objects that a dump has none of.
    """

    is_all: bool
    missing: Sequence[str] = ()


def print_explanation(explanation: Explanation) -> None:
    """Print an explanation as wide as the terminal or ``COLUMNS``, else 80 columns wide."""
    screen = console()
    width = min(screen.width if screen.is_terminal else requested_width() or WIDTH, _WIDEST)
    with screen.capture() as captured:
        for line in report(explanation, width=width):
            screen.print(Text(line.text, style=_STYLES[line.tone]), soft_wrap=True)
    # Written here and not by rich, which takes a reader that has left (head, less) for a failure.
    click.echo(captured.get(), nl=False)


def print_pending(
    explanations: Sequence[Explanation],
    *,
    not_explained: Sequence[ObjectRef],
    notes: Sequence[str],
    namespace: str | None,
    known: Known,
    again: str = "",
) -> None:
    """Print a line for each; names are never cut.

    Args:
        explanations: The answers.
        not_explained: What is pending as well, and there was no time for.
        notes: What is to be known of all of them.
        namespace: Where was looked; None for everywhere.
        known: How much of what may be pending was read.
        again: The flags with which explain asks the same cluster again.
    """
    lines: list[str] = []
    if not explanations and not not_explained:
        where = f" in namespace {namespace} (-A: in all)" if namespace else ""
        sure = "" if known.is_all else ", as far as is known"
        lines.append(
            f"Not known whether anything is pending{where}: the dump has no {' and no '.join(known.missing)}"
            if known.missing
            else f"Nothing is pending{where}{sure}: no pod waits for devices, and every claim has its own."
        )
    else:
        lines += _table(explanations, console().width)
    if not_explained:
        count = plural(len(not_explained), "more is", "more are")
        lines.append(f"{count} pending, and there was no time to explain them, such as {_clean(str(not_explained[0]))}")
    if explanations:
        lines.append(
            click.style(f"`rootport explain {_clean(f'{explanations[0].subject}{again}')}` tells more", dim=True)
        )
    lines += [click.style(_clean(f"note: {note}"), dim=True) for note in notes[:_NOTES]]
    lines += [click.style(f"and {plural(len(notes) - _NOTES, 'more note')} (-o json)", dim=True)][: len(notes) > _NOTES]
    click.echo("\n".join(lines))


def _table(explanations: Sequence[Explanation], width: int) -> list[str]:
    rows = [(_clean(str(each.subject)), str(each.reason)) for each in explanations]
    names = max(len("PENDING"), *(len(name) for name, _ in rows)) if rows else 0
    reasons = max(len("REASON"), *(len(reason) for _, reason in rows)) if rows else 0
    room = max(width - names - reasons - 4, _LEAST)
    lines = [click.style(f"{'PENDING':<{names}}  {'REASON':<{reasons}}  WHY", bold=True)] if rows else []
    for (name, reason), each in zip(rows, explanations, strict=True):
        colour = "green" if each.fits else "red" if each.is_known else "yellow"
        why = short_answer(each, most=room)
        lines.append(f"{name:<{names}}  {click.style(f'{reason:<{reasons}}', fg=colour)}  {why}".rstrip())
    return lines


def _clean(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
