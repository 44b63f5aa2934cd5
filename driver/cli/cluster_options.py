"""Options of the commands that ask a cluster, and what is shown while it takes its time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from driver.api.validation.names import subdomain
from driver.cli.options import FILE
from driver.errors import InputError

if TYPE_CHECKING:
    from driver.adapters.kubernetes.kubeconfig import ClusterContext

__all__ = ["Connect", "Progress", "check_node_name", "connect_option"]

Connect = Callable[..., "ClusterContext"]
"""Gives the cluster that the user means; ``timeout_s`` may be given."""

_QUIET_FOR_S: Final = 1.0
_EVERY_S: Final = 0.2


def connect_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--kubeconfig`` and ``--context``, handed on as one argument ``connect``."""

    @wraps(command)
    def wrapped(kubeconfig: Path | None, context: str | None, **rest: Any) -> Any:
        def connect(**how: Any) -> ClusterContext:
            # Not before it is needed: the Kubernetes client alone takes half a second to load.
            from driver.adapters.kubernetes.kubeconfig import cluster_context  # noqa: PLC0415 - as said above

            return cluster_context(kubeconfig=kubeconfig, context=context, **how)

        return command(connect=connect, **rest)

    of_context = click.option("--context", help="Of the kubeconfig. [default: the current one]")
    of_file = click.option("--kubeconfig", type=FILE, help="The cluster. [default: as kubectl's]")
    return of_file(of_context(wrapped))


def check_node_name(name: str) -> None:
    """Refuse what no node can be called.

    Raises:
        InputError: It is no such name.
    """
    for error in subdomain("the node's name", name):
        raise InputError(f"no node has such a name: {error.message}", hint="`rootport status` lists the nodes")


class Progress:
    """Counts on standard error, where a person looks on and it takes longer than a second.

    Args:
        what: What is counted, such as ``objects``.
        total: How many there are; 0 where nobody knows.
    """

    def __init__(self, what: str, total: int = 0) -> None:
        self._what = what
        self._total = total
        self._count = 0
        self._next = time.monotonic() + _QUIET_FOR_S
        self._is_shown = False

    def step(self) -> None:
        """One more."""
        self._count += 1
        now = time.monotonic()
        if now < self._next or not sys.stderr.isatty():
            return
        self._next = now + _EVERY_S
        self._is_shown = True
        of_all = f" of {self._total}" if self._total else ""
        click.echo(f"\r{self._count}{of_all} {self._what} read", err=True, nl=False)

    def done(self) -> None:
        """Take it away again."""
        if self._is_shown:
            click.echo("\r\x1b[K", err=True, nl=False)
