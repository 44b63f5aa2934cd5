"""An explanation on a terminal: the core's report, with colours."""

from __future__ import annotations

from typing import Final

import click
from rich.text import Text

from driver.cli.render import console
from driver.explain.explanation import Explanation
from driver.explain.report import WIDTH, Tone, report

__all__ = ["print_explanation"]

_WIDEST: Final = 100  # columns; longer lines are hard to read
_STYLES: Final = {
    Tone.PLAIN: "",
    Tone.HEADING: "bold",
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.FAINT: "dim",
    Tone.COMMAND: "cyan",
}


def print_explanation(explanation: Explanation) -> None:
    """Print it: as wide as the terminal, 80 columns into a file or a pipe."""
    screen = console()
    width = min(screen.width, _WIDEST) if screen.is_terminal else WIDTH
    with screen.capture() as captured:
        for line in report(explanation, width=width):
            screen.print(Text(line.text, style=_STYLES[line.tone]), soft_wrap=True)
    # Written here and not by rich, which takes a reader that has left (head, less) for a failure.
    click.echo(captured.get(), nl=False)
