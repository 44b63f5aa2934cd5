"""How a command that failed says so."""

from __future__ import annotations

import click

from driver.errors import RootportError

__all__ = ["tell"]


def tell(error: RootportError) -> None:
    """The error on standard error, without what a terminal would act on: names in it may come from anybody's file."""
    text = "".join(char if char.isprintable() or char == "\n" else " " for char in str(error))
    click.echo(f"rootport: {text}", err=True)
