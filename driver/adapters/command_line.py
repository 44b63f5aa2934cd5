"""Runs a click command as a program: every expected error becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any, Final, TypeVar

import click

from driver.errors import RootportError

__all__ = ["INTERRUPTED", "options_together", "run_command"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

INTERRUPTED: Final = 130
"""The exit code of a program that was interrupted, as shells have it."""


def options_together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds options to a command, which ``--help`` shows in this order.

    Args:
        options: What ``click.option`` returned.
    """

    def add(command: _Command) -> _Command:
        return reduce(lambda made, option: option(made), reversed(options), command)

    return add


def run_command(
    command: click.Command,
    *,
    name: str,
    show_usage_error: Callable[[click.ClickException], None] = lambda error: error.show(),
    show_error: Callable[[RootportError], None] | None = None,
    prints_result: bool = False,
) -> int:
    """Run a command with the process's arguments.

    click's own ``main`` would take a closed pipe for an error, also of a command that prints its result.

    Args:
        command: The command.
        name: The program's name, for its messages.
        show_usage_error: Shows a wrong use of the command; by default as click does.
        show_error: Shows any other error; by default as one line on standard error.
        prints_result: Whether the command prints its result to standard output, whose reader may end early.

    Returns:
        The exit code: what the command returned, 0 if it returned nothing or its reader has gone, that of the error, or
        :data:`INTERRUPTED`.
    """
    try:
        with command.make_context(name, sys.argv[1:]) as context:
            code = command.invoke(context)
        if prints_result:
            sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        show_usage_error(error)
        return error.exit_code
    except RootportError as error:
        if show_error is not None:
            show_error(error)
        else:
            click.echo(f"{name}: {error}", err=True)
        return error.exit_code
    except BrokenPipeError:
        if not prints_result:
            raise
        # The reader (head, less) has gone: not an error. Keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0
