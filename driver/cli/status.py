"""``rootport status``: what is free, allocated and broken, by node; and one node as a tree."""

from __future__ import annotations

import click

from driver.cli.cluster_options import Connect, Progress, check_node_name, connect_option
from driver.cli.failure import tell
from driver.cli.options import output_option
from driver.cli.output import to_json
from driver.errors import InputError, RootportError

__all__ = ["command"]

_NO_ANSWER = 2


@click.command("status", epilog="""\b
Examples:
  rootport status                        # a line for each node, and the sum
  rootport status gpu-node-7             # its devices, and who has them
  rootport status --unhealthy            # only nodes where something is wrong
  rootport status -l rootport.dev/model=NVIDIA-H100-80GB-HBM3
  rootport status -o json | jq -r '.nodes[] | select(.state != "Ready").name'
  kubectl rootport status                # the same, as kubectl plugin

\b
Free is what is healthy, on offer and given to nobody. LARGEST is the most
memory that one more share or partition can get of one GPU.

\b
Exit codes: 0 told; 2 no answer: bad input, or the cluster cannot be asked.
""")  # fmt: skip
@click.argument("node", required=False)
@connect_option
@click.option("-l", "--selector", default="", help="Only devices with these labels, as kubectl get devices -l.")
@click.option("--unhealthy", is_flag=True, help="Only nodes with an unhealthy device, or that are not ready.")
@output_option("text", "json")
def command(
    node: str | None,
    connect: Connect,
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
        return _told(node, connect, selector, unhealthy=unhealthy, output=output)
    except RootportError as error:
        tell(error)
        return _NO_ANSWER


def _told(node: str | None, connect: Connect, selector: str, *, unhealthy: bool, output: str) -> int:
    # Imported here, so that --help and a wrong flag cost no half second.
    from driver.adapters.kubernetes.status_objects import read_observed  # noqa: PLC0415 - as said above
    from driver.cli.status_report import print_cluster, print_node  # noqa: PLC0415 - as said above
    from driver.status.cluster import is_well, node_overviews  # noqa: PLC0415 - as said above

    progress = Progress("objects")
    with connect().api as api:
        try:
            observed = read_observed(api, selector=selector, node=node, seen=progress.step)
        finally:
            progress.done()
    if observed.unreadable:
        click.echo(f"note: {observed.unreadable} Device objects are of another version and left out", err=True)
    nodes = node_overviews(observed.devices, observed.words)
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
        nodes = tuple(item for item in nodes if not is_well(item))
    if output == "json":
        click.echo(to_json({"nodes": [item.to_wire() for item in nodes]}), nl=False)
    else:
        print_cluster(nodes, only_unhealthy=unhealthy, is_selected=bool(selector))
    return 0
