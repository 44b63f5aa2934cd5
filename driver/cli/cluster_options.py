"""Options of the commands that ask a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driver.api.validation.names import subdomain
from driver.cli.options import FILE
from driver.errors import InputError

if TYPE_CHECKING:
    from driver.adapters.kubernetes.kubeconfig import ClusterContext

__all__ = ["Connect", "check_node_name", "connect_option"]

Connect = Callable[..., "ClusterContext"]
"""Gives the cluster that the user means; ``timeout_s`` may be given."""


def connect_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--kubeconfig`` and ``--context``, passed on as one argument ``connect``."""

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
    """Refuse what cannot be the name of a node.

    Raises:
        InputError: It is no such name.
    """
    for error in subdomain("the node's name", name):
        raise InputError(f"no node has such a name: {error.message}", hint="`rootport status` lists the nodes")
