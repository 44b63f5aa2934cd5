"""``rootport topo``: a machine's PCIe tree, and the matrix of distances that ``nvidia-smi topo -m`` shows."""

from __future__ import annotations

import socket
from pathlib import Path

import click
from pydantic import TypeAdapter

from driver.adapters import live, nccl, sysfs
from driver.adapters.host import HostRoot
from driver.cli.options import FILE, FOLDER, HardwareFlags, hardware_options, output_option
from driver.cli.output import to_json, to_yaml
from driver.cli.render import console, distance_matrix, pcie_tree
from driver.model.inventory import Inventory

__all__ = ["command"]


@click.command("topo")
@click.argument("file", type=FILE, required=False)
@click.option("--sysfs", "sysfs_root", type=FOLDER, help="Read the PCI tree below this folder (one that holds sys/).")
@click.option(
    "--live", "this_machine", is_flag=True, help="Read this machine: sysfs, and NVML where there is a driver."
)
@hardware_options
@output_option("table", "json", "yaml")
def command(
    file: Path | None,
    sysfs_root: Path | None,
    this_machine: bool,  # noqa: FBT001 - click passes flags so
    hardware: HardwareFlags,
    output: str,
) -> None:
    """Show a machine's PCIe tree and the distance between its devices.

    FILE is an NCCL topology file: any NCCL program writes one with NCCL_TOPO_DUMP_FILE=topo.xml.
    """
    if sum((file is not None, sysfs_root is not None, this_machine)) != 1:
        raise click.UsageError("name one source: a topology FILE, --sysfs DIR or --live")
    if file is None and (hardware.models or hardware.memories):
        raise click.UsageError(
            "--gpu-model and --gpu-memory go with a topology FILE; other sources tell these themselves"
        )
    if file is not None:
        node = nccl.node_name(file)
        hardware.check([node])
        inventory = nccl.read_topology(file, hardware=hardware.of(node))
    elif sysfs_root is not None:
        inventory = sysfs.discover(HostRoot(sysfs_root), node="node")
    else:
        inventory = live.discover(HostRoot(Path("/")), node=socket.gethostname().lower())
    if output == "table":
        _print(inventory)
        return
    data = TypeAdapter(Inventory).dump_python(inventory, mode="json", exclude_none=True)
    click.echo(to_json(data) if output == "json" else to_yaml(data), nl=False)


def _print(inventory: Inventory) -> None:
    out = console()
    out.print(pcie_tree(inventory, {}))
    for renderable in distance_matrix(inventory, out.width):
        out.print()
        out.print(renderable)
    if inventory.rdma_netns_mode is not None and inventory.nics:
        out.print()
        out.print(f"RDMA devices in network namespaces: {inventory.rdma_netns_mode}")
    for note in inventory.notes:
        out.print(f"note: {note}", style="dim", soft_wrap=True)
