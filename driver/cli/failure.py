"""How a command that failed says so."""

from __future__ import annotations

import click

from driver.errors import RootportError

__all__ = ["note", "tell"]


def tell(error: RootportError) -> None:
    """The error on standard error."""
    click.echo(f"rootport: {_clean(str(error))}", err=True)


def note(text: str) -> None:
    """What the reader of the answer should know, on standard error."""
    click.echo(f"note: {_clean(text)}", err=True)


def _clean(text: str) -> str:
    """Without what a terminal would act on: names in it may come from anybody's file."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
