"""``rootport slices``: prints what the driver would publish for a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

import click

from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_v1 import ResourceSlice
from driver.cli.machines import Machines, machine_options
from driver.cli.options import output_option, policies_options
from driver.cli.output import print_note, to_json, to_yaml, yaml_stream
from driver.layout.left_out import left_out_notes
from driver.layout.price import Price, price
from driver.layout.slices import resource_slices
from driver.modes.free_node import free_node
from driver.modes.rule import MOST_NODES_FULL, Layout

__all__ = ["command"]

_MEASURED: Final = (
    'what kube-scheduler takes for a pod with each layout was measured: "What the modes cost" in '
    "docs/operator/gpu-modes.md"
)


@click.command("slices")
@machine_options
@click.option("--node", help="The node's name. [default: made from the file's, folder's or machine's name]")
@policies_options
@click.option(
    "--gpu-layout",
    type=click.Choice([layout.value for layout in Layout]),
    default=Layout.FULL.value,
    show_default=True,
    help=f"The controller's layout: full in clusters of up to {MOST_NODES_FULL} Nodes; in larger ones lean, or one "
    "before Kubernetes 1.37.",
)
@click.option("--price", "wants_price", is_flag=True, help="Print how much there is in the slices of each layout.")
@output_option("yaml", "json")
def command(
    machines: Machines,
    node: str | None,
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    gpu_layout: str,
    wants_price: bool,  # noqa: FBT001 - by name
    output: str,
) -> None:
    """Print the ResourceSlices of a machine.

    The slices are what the driver would publish for such a node, as far as its source describes it: a template for node
    groups that scale from zero, or a way to see which attributes a claim's selectors can use. FILE is a topology file:
    it has no uuid, driverVersion or linkState, and no PCIe roots, so that the names in pcieRoot are made up. Where
    Rootport is installed, its admission policy lets its controller alone create such slices.

    The node is one whose GPUs no claim uses. In the layouts lean and one, what is published of a GPU follows its use
    and what pending claims need.

    With --price, what is printed is how much there is in the slices of each layout instead: kube-scheduler reads all of
    it for each pod with claims that it tries on such a node.
    """
    inventory = machines.read_one(node=node)

    def published(layout: Layout) -> tuple[ResourceSlice, ...]:
        only = free_node(layout, inventory, policies)
        return resource_slices(inventory, policies=policies, nic_policies=nic_policies, only=only)

    if wants_price:
        _print_prices(published, output)
    else:
        _print_slices(published(Layout(gpu_layout)), output)
    for note in (*inventory.notes, *left_out_notes(inventory, policies=policies)):
        click.echo(f"note: {note}", err=True)


def _print_slices(published: tuple[ResourceSlice, ...], output: str) -> None:
    slices = [resource_slice.to_wire() for resource_slice in published]
    text = to_json({"apiVersion": "v1", "kind": "List", "items": slices}) if output == "json" else yaml_stream(slices)
    click.echo(text, nl=False)


def _print_prices(published: Callable[[Layout], tuple[ResourceSlice, ...]], output: str) -> None:
    prices: Mapping[str, Price] = {layout.value: price(published(layout)) for layout in Layout}
    wire = {layout: _to_wire(each) for layout, each in prices.items()}
    click.echo(to_json(wire) if output == "json" else to_yaml(wire), nl=False)
    print_note(_MEASURED)


def _to_wire(found: Price) -> dict[str, int]:
    wire = asdict(found)
    return {"bytes" if name == "size" else name: amount for name, amount in wire.items()}
