"""``rootport slices``: prints what the driver would publish for a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

import click
from click.core import ParameterSource

from driver.allocator.feature_gates import features_of
from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_v1 import ResourceSlice
from driver.cli.machines import Machines, machine_options
from driver.cli.options import output_option, policies_options
from driver.cli.output import print_note, to_json, to_yaml
from driver.cli.slice_formats import SliceFormat, in_format, print_instance_types
from driver.layout.left_out import left_out_notes
from driver.layout.price import Price, price
from driver.layout.rule_notes import attribute_notes
from driver.layout.slices import resource_slices
from driver.modes.free_node import free_node
from driver.modes.rule import MOST_NODES_FULL, Layout

__all__ = ["command"]

_MEASURED: Final = (
    'what kube-scheduler takes for a pod with each layout was measured: "What the modes cost" in '
    "docs/operator/gpu-modes.md"
)


@click.command("slices", epilog="""\b
Examples:
  rootport slices topo.xml --gpu-model H100             # by NCCL_TOPO_DUMP_FILE=topo.xml
  rootport slices --live -o json                        # of this machine
  rootport slices topo.xml --gpu-model H100 --price     # how much each layout publishes
  rootport slices --list                                # the catalogue of instance types
  rootport slices --instance-type p5.48xlarge --format karpenter

Exit codes: 0 printed; 1 with --live, the machine does not answer; 2 bad input.
""")  # fmt: skip
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
@click.option(
    "--feature-gates",
    default="",
    metavar="GATE=BOOL,...",
    help="Of the cluster, as the controller's option of that name; it changes what DRAListTypeAttributes and "
    "DRANodeAllocatableResources let devices say.",
)
@click.option("--price", "wants_price", is_flag=True, help="Print how much there is in the slices of each layout.")
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in SliceFormat]),
    default=SliceFormat.YAML.value,
    show_default=True,
    help="The ResourceSlices themselves; or what Karpenter's or the cluster autoscaler's cloud provider says of a node "
    "that does not exist yet. Neither reads it from a file.",
)
@click.option(
    "--list",
    "wants_list",
    is_flag=True,
    help="List the catalogue of instance types; with -o json or -o yaml its sources.",
)
@output_option("yaml", "json")
def command(  # noqa: PLR0913, PLR0917 - one each option, by name
    machines: Machines,
    node: str | None,
    policies: GpuPolicies,
    nic_policies: NicPolicies,
    device_policies: DevicePolicies,
    gpu_layout: str,
    feature_gates: str,
    wants_price: bool,  # noqa: FBT001 - by name
    form: str,
    wants_list: bool,  # noqa: FBT001 - by name
    output: str,
) -> None:
    """Print the ResourceSlices of a machine.

    The slices are what the driver would publish for such a node, as far as its source describes it: a template for node
    groups that scale from zero, or a way to see which attributes a claim's selectors can use. FILE is a topology file:
    it has no uuid, driverVersion or linkState, and no PCIe roots, so that the names in pcieRoot are made up. An
    instance type of the catalogue has the PCIe roots that its nodes report, and notes say what it leaves out. Where
    Rootport is installed, its admission policy lets its controller alone create such slices.

    The node is one whose GPUs no claim uses. In the layouts lean and one, what is published of a GPU follows its use
    and what pending claims need.

    With --price, what is printed is how much there is in the slices of each layout instead: kube-scheduler reads all of
    it for each pod with claims that it tries on such a node.
    """
    if wants_list:
        if machines or wants_price or form != SliceFormat.YAML:
            raise click.UsageError("--list shows the whole catalogue: it takes no machine, no --price and no --format")
        print_instance_types(output if _given("output") else None)
        return
    if wants_price and _given("form"):
        raise click.UsageError("--price prints no slices: it does not go with --format")
    features = features_of(feature_gates)
    inventory = machines.read_one(node=node)

    def published(layout: Layout) -> tuple[ResourceSlice, ...]:
        only = free_node(layout, inventory, policies, device_policies)
        return resource_slices(
            inventory,
            policies=policies,
            nic_policies=nic_policies,
            device_policies=device_policies,
            has_lists=features.list_type_attributes,
            has_node_allocatable=features.node_allocatable_resources,
            only=only,
        )

    if wants_price:
        _print_prices(published, output)
    else:
        # Of a machine that is no instance type, the node's name is the only one there is.
        instance_type = next(iter(machines.instance_types), inventory.node)
        text, about = in_format(
            published(Layout(gpu_layout)), SliceFormat(form), output, instance_type=instance_type, node=inventory.node
        )
        click.echo(text, nl=False)
        for note in about:
            print_note(note)
    notes = (
        *policies.notes,
        *inventory.notes,
        *left_out_notes(inventory, policies=policies, device_policies=device_policies),
        *attribute_notes(inventory, published(Layout(gpu_layout)), device_policies),
    )
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _given(parameter: str) -> bool:
    """Say whether the user has given an option, be it with its default."""
    return click.get_current_context().get_parameter_source(parameter) is not ParameterSource.DEFAULT


def _print_prices(published: Callable[[Layout], tuple[ResourceSlice, ...]], output: str) -> None:
    prices: Mapping[str, Price] = {layout.value: price(published(layout)) for layout in Layout}
    wire = {layout: _to_wire(each) for layout, each in prices.items()}
    click.echo(to_json(wire) if output == "json" else to_yaml(wire), nl=False)
    print_note(_MEASURED)


def _to_wire(found: Price) -> dict[str, int]:
    wire = asdict(found)
    return {"bytes" if name == "size" else name: amount for name, amount in wire.items()}
