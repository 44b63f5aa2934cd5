"""``rootport slices``: what the driver would publish for a machine."""

from __future__ import annotations

from pathlib import Path

import click

from driver.adapters import nccl
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.cli.options import FILE, HardwareFlags, hardware_options, output_option, policies_options
from driver.cli.output import to_json, yaml_stream
from driver.cli.simulation_options import NicFlags, nic_options
from driver.layout import left_out_notes, resource_slices

__all__ = ["command"]


@click.command("slices")
@click.option(
    "--topology", "topology", type=FILE, required=True, help="An NCCL topology file (NCCL_TOPO_DUMP_FILE writes one)."
)
@click.option("--node", help="The node's name. [default: made from the file's name]")
@policies_options
@hardware_options
@nic_options
@output_option("yaml", "json")
def command(
    topology: Path,
    node: str | None,
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    hardware: HardwareFlags,
    nics: NicFlags,
    output: str,
) -> None:
    """Print the ResourceSlices of a machine, as YAML for kubectl apply.

    The slices are exactly what the driver would publish for such a node: a template for node groups that scale from
    zero, or a way to see which attributes a claim's selectors can use.
    """
    node = node or nccl.node_name(topology)
    hardware.check([node])
    nics.check([node])
    inventory = nics.applied(nccl.read_topology(topology, node=node, hardware=hardware.of(node)), node)
    published = resource_slices(inventory, policies=policies, nic_policies=nic_policies)
    slices = [resource_slice.to_wire() for resource_slice in published]
    text = to_json({"apiVersion": "v1", "kind": "List", "items": slices}) if output == "json" else yaml_stream(slices)
    click.echo(text, nl=False)
    for note in (*inventory.notes, *left_out_notes(inventory, policies=policies)):
        click.echo(f"note: {note}", err=True)
