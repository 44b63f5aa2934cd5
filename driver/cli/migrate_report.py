"""Prints the steps of a node's migration, and the command that comes next."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

import click

from driver.cli.render import console
from driver.migration.steps import Migration, StepState

__all__ = ["print_migration"]

_COLOURS: Final = {
    StepState.DONE: "green",
    StepState.TO_DO: "yellow",
    StepState.WAITING: "cyan",
    StepState.NOT_KNOWN: "red",
}
_STATE_WIDTH: Final = max(len(state.value) for state in StepState)


def print_migration(migration: Migration) -> None:
    """Print each step with its state and what says so, then the next command and the remarks."""
    click.echo("\n".join(_lines(migration, max(console().width, 60))))


def _lines(migration: Migration, width: int) -> Iterator[str]:
    ways = "from Rootport back to device plugins" if migration.is_back else "from device plugins to Rootport"
    yield f"Node {migration.node}: {ways}"
    yield ""
    title_width = max(len(step.title) for step in migration.steps)
    for number, step in enumerate(migration.steps, start=1):
        head = f"{number} {step.title:<{title_width}}  "
        state = click.style(f"{step.state.value:<{_STATE_WIDTH}}", fg=_COLOURS[step.state])
        indent = len(head) + _STATE_WIDTH + 2
        first, *rest = textwrap.wrap(_clean(step.text), width - indent, break_on_hyphens=False) or [""]
        yield f"{head}{state}  {first}".rstrip()
        yield from (" " * indent + line for line in rest)
    yield ""
    if migration.next is None:
        yield "All steps are done."
    elif migration.next.command:
        yield f"Next: {migration.next.title[0].lower()}{migration.next.title[1:]}"
        yield f"  {_clean(migration.next.command)}"
    elif migration.next.state is StepState.WAITING:
        yield f"Next: wait, and ask again; {_clean(migration.next.text)}"
    else:
        yield f"Next: {_clean(migration.next.text)}"
    for remark in migration.remarks:
        yield f"note: {_clean(remark)}"


def _clean(text: str) -> str:
    """Return the text without what a terminal would act on: names in it may come from anybody."""
    return "".join(char if char.isprintable() else " " for char in text)
