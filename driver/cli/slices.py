"""``rootport slices``: prints what the driver would publish for a machine."""

from __future__ import annotations

import click

from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.cli.machines import Machines, machine_options
from driver.cli.options import output_option, policies_options
from driver.cli.output import to_json, yaml_stream
from driver.layout import left_out_notes, resource_slices

__all__ = ["command"]


@click.command("slices")
@machine_options
@click.option("--node", help="The node's name. [default: made from the file's, folder's or machine's name]")
@policies_options
@output_option("yaml", "json")
def command(
    machines: Machines,
    node: str | None,
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    output: str,
) -> None:
    """Print the ResourceSlices of a machine.

    The slices are what the driver would publish for such a node, as far as its source describes it: a template for node
    groups that scale from zero, or a way to see which attributes a claim's selectors can use. FILE is a topology file:
    it has no uuid, driverVersion or linkState, and no PCIe roots, so that the names in pcieRoot are made up. Where
    Rootport is installed, its admission policy lets its controller alone create such slices.
    """
    inventory = machines.read_one(node=node)
    published = resource_slices(inventory, policies=policies, nic_policies=nic_policies)
    slices = [resource_slice.to_wire() for resource_slice in published]
    text = to_json({"apiVersion": "v1", "kind": "List", "items": slices}) if output == "json" else yaml_stream(slices)
    click.echo(text, nl=False)
    for note in (*inventory.notes, *left_out_notes(inventory, policies=policies)):
        click.echo(f"note: {note}", err=True)
