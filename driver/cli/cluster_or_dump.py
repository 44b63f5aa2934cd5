"""The options of commands that ask a cluster, or a dump of one: ``--from``, ``--kubeconfig``, ``--context``."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driver.allocator.feature_gates import features_of
from driver.allocator.features import Features
from driver.cli.options import FILE
from driver.cli.progress import progress
from driver.errors import InputError

if TYPE_CHECKING:
    from driver.explain.known.state import ClusterState

__all__ = ["ClusterFlags", "cluster_options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """The flags that name a cluster."""

    dumps: Path | None
    kubeconfig: Path | None
    context: str | None
    feature_gates: str
    features: Features

    @property
    def again(self) -> str:
        """The flags in a shell's syntax, each with a space before it, for a command that asks the same cluster."""
        flags = {
            "--from": self.dumps,
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--feature-gates": self.feature_gates,
        }
        return "".join(f" {name} {shlex.quote(str(value))}" for name, value in flags.items() if value)

    @property
    def own_namespace(self) -> str:
        """The namespace of what is named without one: the context's, and of a dump ``default``.

        Raises:
            InputError: There is no cluster.
        """
        if self.dumps is not None:
            return "default"
        from driver.adapters.kubernetes.kubeconfig import cluster_context  # noqa: PLC0415 - as below

        return cluster_context(kubeconfig=self.kubeconfig, context=self.context).namespace

    def read(self, namespace: str | None, *, all_namespaces: bool) -> tuple[ClusterState, str | None]:
        """Return the cluster, and the namespace: None for all, and for a dump if none is named.

        Args:
            namespace: Whose pods and templates are read; None for the context's.
            all_namespaces: Read those of all namespaces.

        Raises:
            InputError: A dump and a cluster are named, or the dump cannot be read.
            RootportError: The cluster cannot be asked.
        """
        with progress("reading objects") as step:
            # Imported here, as one needs no YAML of the other: the Kubernetes client alone takes half a second.
            if self.dumps is not None:
                if self.kubeconfig is not None or self.context is not None:
                    raise InputError(
                        "--from and --kubeconfig or --context: which cluster?", hint="leave one of them out"
                    )
                from driver.adapters.manifests.dumps import read_dumps  # noqa: PLC0415 - as said above

                return read_dumps(self.dumps, features=self.features, seen=step), namespace
            from driver.adapters.kubernetes.kubeconfig import cluster_context  # noqa: PLC0415 - as said above
            from driver.adapters.kubernetes.snapshot import read_cluster  # noqa: PLC0415 - as said above

            cluster = cluster_context(
                kubeconfig=self.kubeconfig, context=self.context, instead="name a folder or file of dumps with --from"
            )
            wanted = None if all_namespaces else namespace or cluster.namespace
            with cluster.api as api:
                return read_cluster(api, wanted, features=self.features, seen=step), wanted


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of :class:`ClusterFlags`, passed on as one argument ``cluster``."""

    @wraps(command)
    def wrapped(
        dumps: Path | None, kubeconfig: Path | None, context: str | None, feature_gates: str, **rest: Any
    ) -> Any:
        features = features_of(feature_gates)
        flags = ClusterFlags(
            dumps=dumps, kubeconfig=kubeconfig, context=context, feature_gates=feature_gates, features=features
        )
        return command(cluster=flags, **rest)

    options = (
        click.option(
            "--from",
            "dumps",
            type=FILE,
            help="A folder, or a file, of kubectl get -o yaml or json, instead of a cluster.",
        ),
        click.option("--kubeconfig", type=FILE, help="The cluster. [default: as kubectl's]"),
        click.option("--context", help="Of the kubeconfig. [default: the current one]"),
        click.option(
            "--feature-gates", default="", metavar="GATE=BOOL,...", help="Of the scheduler, where not 1.37's defaults."
        ),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped
