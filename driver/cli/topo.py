"""``rootport topo``: draws a machine's PCIe tree, and the matrix of distances of ``nvidia-smi topo -m``."""

from __future__ import annotations

from typing import Any, Final

import click
from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel
from rich.text import Text

from driver.cli.machines import Machines, machine_options
from driver.cli.options import output_option
from driver.cli.output import to_json, to_yaml
from driver.cli.render import console, distance_matrix, in_tree_order, pcie_tree, print_trimmed
from driver.layout import attributes
from driver.layout.devices import device_attributes
from driver.model.distance import DistanceMatrix, matrix
from driver.model.inventory import Inventory
from driver.model.rails import RAILS_NOTE
from driver.wording import listed

__all__ = ["command"]

_LINK_GROUPS: Final = (attributes.NVLINK_PAIR, attributes.NVLINK_QUAD, attributes.NVLINK_OCTET)


@click.command("topo", epilog="""\b
Examples:
  rootport topo topo.xml                # written by NCCL_TOPO_DUMP_FILE=topo.xml
  rootport topo --sysfs dumps/worker-1  # an unpacked copy of that machine's /sys
  rootport topo --live -o json

Exit codes: 0 shown; 1 with --live, the machine does not answer; 2 bad input.
""")  # fmt: skip
@machine_options
@output_option("table", "json", "yaml")
def command(machines: Machines, output: str) -> None:
    """Show a machine's PCIe tree and the distance between its devices.

    FILE is an NCCL topology file, which any NCCL program writes with NCCL_TOPO_DUMP_FILE=topo.xml, or a machine
    description (YAML; examples/machines/README.md).
    """
    inventory = machines.read_one()
    distances = in_tree_order(matrix(inventory))
    if output == "table":
        _print(inventory, distances)
        return
    data = _data(inventory, distances)
    click.echo(to_json(data) if output == "json" else to_yaml(data), nl=False)


def _print(inventory: Inventory, distances: DistanceMatrix) -> None:
    out = console()
    print_trimmed(out, pcie_tree(inventory, {}, {row.device.name: row.label for row in distances.rows}))
    for renderable in distance_matrix(distances, out):
        out.print()
        if isinstance(renderable, Text):
            out.print(renderable, soft_wrap=True)
        else:
            print_trimmed(out, renderable)
    if linked := _linked(inventory):
        out.print()
        for name, groups in linked.items():
            out.print(f"{name}: {', '.join('+'.join(members) for members in groups.values())}")
    if inventory.rdma_netns_mode is not None and inventory.nics:
        out.print()
        out.print(f"RDMA devices in network namespaces: {inventory.rdma_netns_mode}")
    rails = [RAILS_NOTE] if any(nic.rail is not None for nic in inventory.nics) else []
    needed = [item.name for nic in inventory.nics for item in (nic, *nic.vfs) if item.default_route]
    routes = [f"The node's default route goes through {listed(needed)}."] if needed else []
    for note in (*rails, *routes, *inventory.notes):
        out.print(f"note: {note}", style="dim", soft_wrap=True)


def _linked(inventory: Inventory) -> dict[str, dict[str, list[str]]]:
    """Return the GPUs that are best linked, by their labels: for each attribute the groups by its value."""
    found: dict[str, dict[str, list[str]]] = {}
    published = device_attributes(inventory, [gpu.name for gpu in inventory.gpus])
    for gpu in inventory.gpus:
        for name in _LINK_GROUPS:
            if name in published[gpu.name]:
                group = str(published[gpu.name][name].value)
                found.setdefault(name, {}).setdefault(group, []).append(f"GPU{gpu.index}")
    return found


def _data(inventory: Inventory, distances: DistanceMatrix) -> dict[str, Any]:
    """Return the inventory in the spelling of Kubernetes' API; devices have their names in slices and in the matrix."""
    data: dict[str, Any] = _camel(TypeAdapter(Inventory).dump_python(inventory, mode="json", exclude_none=True))
    labels = {row.device.address: row.label for row in distances.rows}
    names = {device.address: device.name for device in inventory.devices()}
    nics = data["nics"]
    for device in (*data["gpus"], *nics, *(vf for nic in nics for vf in nic["vfs"]), *data["fpgas"]):
        address = device["address"]
        device["name"] = names[address]
        if address in labels:
            device["label"] = labels[address]
    data["linkGroups"] = {name: list(groups.values()) for name, groups in _linked(inventory).items()}
    columns = [row.device.name for row in distances.rows]
    data["distances"] = {
        row.device.name: dict(zip(columns, map(str, row.distances), strict=True)) for row in distances.rows
    }
    return data


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {to_camel(key): _camel(item) for key, item in value.items()}
    return [_camel(item) for item in value] if isinstance(value, list) else value
