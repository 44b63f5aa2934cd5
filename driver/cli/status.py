"""``rootport status``: shows what is free, allocated and broken, by node; and one node as a tree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from driver.cli.cluster_options import Connect, check_node_name, connect_option
from driver.cli.options import FILE, output_option
from driver.cli.output import NO_ANSWER, print_error, print_note, to_json
from driver.cli.progress import progress
from driver.errors import InputError, RootportError

if TYPE_CHECKING:
    from driver.status.observation import Observation

__all__ = ["command"]

_INSTEAD = "name a folder or file of dumps with --from"


@click.command("status", epilog="""\b
Examples:
  rootport status                        # a line for each node, and the sum
  rootport status gpu-node-7             # its devices, and who has them
  rootport status --unhealthy            # only nodes where something is wrong
  rootport status -l rootport.dev/model=NVIDIA-H100-80GB-HBM3
  rootport status --from dump/  # of kubectl get devices.rootport.dev,nodeinventories -o json
  rootport status -o json | jq -r '.nodes[] | select(.state != "Ready").name'
  kubectl rootport status                # the same, as kubectl plugin

Free is what can be allocated and no claim has. LARGEST is the most
memory that one more share or partition can get of one GPU.

Exit codes: 0 shown; what cannot be read is left out, with a note on standard
error. 2 no answer: bad input, or the cluster cannot be asked.
""")  # fmt: skip
@click.argument("node", required=False)
@connect_option
@click.option(
    "--from", "dumps", type=FILE, help="A folder, or a file, of kubectl get -o yaml or json, instead of a cluster."
)
@click.option("-l", "--selector", default="", help="Only devices with these labels, as kubectl get devices -l.")
@click.option("--unhealthy", is_flag=True, help="Only nodes with an unhealthy device, or that are not ready.")
@output_option("text", "json")
def command(
    node: str | None,
    connect: Connect,
    dumps: Path | None,
    selector: str,
    unhealthy: bool,  # noqa: FBT001 - click passes flags so
    output: str,
) -> int:
    """Show what is free, allocated and unhealthy: of the cluster, or of one NODE.

    Reads the Device objects and NodeInventories that Rootport keeps; nothing in the cluster is changed.
    """
    try:
        if node is not None:
            if selector or unhealthy:
                raise InputError("--selector and --unhealthy are for the whole cluster", hint="leave out the node")
            check_node_name(node)
        if dumps is not None and selector:
            raise InputError("--from and --selector: labels are matched by an API server", hint="leave one of them out")
        observed = _observed(connect, selector, node) if dumps is None else _dumped(dumps, node)
        return _show(node, observed, unhealthy=unhealthy, is_selected=bool(selector), output=output)
    except RootportError as error:
        print_error(error)
        return NO_ANSWER


def _dumped(dumps: Path, node: str | None) -> Observation:
    from driver.adapters.manifests.dumps import read_observed_dump  # noqa: PLC0415 - YAML is for dumps alone

    with progress("reading objects") as step:
        return read_observed_dump(dumps, node=node, seen=step)


def _observed(connect: Connect, selector: str, node: str | None) -> Observation:
    # Imported here, so that --help and a wrong flag cost no half second.
    from driver.adapters.kubernetes.status_objects import read_observed  # noqa: PLC0415 - as said above

    with connect(instead=_INSTEAD).api as api, progress("reading objects") as step:
        return read_observed(api, selector=selector, node=node, seen=step)


def _show(node: str | None, observed: Observation, *, unhealthy: bool, is_selected: bool, output: str) -> int:
    from driver.cli.status_report import print_cluster, print_node  # noqa: PLC0415 - as below
    from driver.status.cluster import is_healthy, node_overviews  # noqa: PLC0415 - not for --help

    for text in observed.notes:
        print_note(text)
    nodes = node_overviews(observed.devices, observed.readiness)
    if node is not None:
        (overview,) = nodes
        if output == "json":
            # As the controller's HTTP API has it, under /api/v1/nodes/NODE.
            head = {key: value for key, value in overview.to_wire().items() if key != "devices"}
            click.echo(to_json(head | {"devices": [item.to_wire() for item in observed.devices]}), nl=False)
        else:
            print_node(overview, observed.devices)
        return 0
    if unhealthy:
        nodes = tuple(item for item in nodes if not is_healthy(item))
    if output == "json":
        click.echo(to_json({"nodes": [item.to_wire() for item in nodes]}), nl=False)
    else:
        print_cluster(nodes, only_unhealthy=unhealthy, is_selected=is_selected)
    return 0
