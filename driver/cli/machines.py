"""Options that name machines, the same for every command.

They are ``--topology``, ``--instance-type``, ``--sysfs`` and ``--live``.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

import click

from driver.adapters.machines.topology import node_name, read_topology
from driver.api.validation.names import subdomain
from driver.cli.options import FILE, FOLDER, HardwareFlags, hardware_options
from driver.cli.simulation_options import NicFlags, nic_options
from driver.errors import InputError
from driver.model.inventory import Inventory

__all__ = ["Machines", "machine_options"]

_WAYS: Final = "--topology FILE, --instance-type NAME, --sysfs DIR or --live"


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of one machine.

    Attributes:
        node: The node's name.
        shown: The source, for messages.
        is_file: Whether it is a topology file, which leaves out what the flags about GPUs say.
        read: Reads it, given the node's name.
    """

    node: str
    shown: str
    is_file: bool
    read: Callable[[str], Inventory]


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines that the user names; nothing is read before :meth:`read` or :meth:`read_one`.

    It is false where no machine is named.

    Attributes:
        files: Topology files.
        instance_types: Names of instance types of the catalogue.
        folders: Folders that hold a sysfs tree.
        this_machine: Whether the machine that this process runs on is one of them.
        hardware: What the user says about the GPUs of topology files; sysfs and NVML say it themselves.
        nics: What the user says about RDMA NICs where their source does not.
    """

    files: tuple[Path, ...]
    instance_types: tuple[str, ...]
    folders: tuple[Path, ...]
    this_machine: bool
    hardware: HardwareFlags
    nics: NicFlags

    def __bool__(self) -> bool:
        return bool(self.files or self.instance_types or self.folders or self.this_machine)

    def read(self, *, copies: int = 1) -> list[Inventory]:
        """Read the machines: topology files, instance types, sysfs folders, this machine; at least one.

        Args:
            copies: How many nodes each machine makes; where it is more than one, they are named ``name-1``, ``name-2``.

        Raises:
            click.UsageError: No machine is named.
            InputError: A source cannot be read, two make a node of one name, or a flag is for a node that none makes or
                whose source says the same itself.
            NodeError: This machine's devices cannot be read.
        """
        if not self:
            raise click.UsageError(f"name a machine: {_WAYS}")
        return self._read(list(self._sources()), copies)

    def read_one(self, *, node: str | None = None) -> Inventory:
        """Read the one machine that a command takes.

        Args:
            node: The node's name, instead of the one made from the source's name.

        Raises:
            click.UsageError: None is named, or several are.
            InputError: As for :meth:`read`, or ``node`` is no node's name.
            NodeError: As for :meth:`read`.
        """
        sources = list(self._sources())
        if len(sources) != 1:
            raise click.UsageError(f"name one machine: {_WAYS}")
        if node is not None:
            for error in subdomain("--node", node):
                raise InputError(str(error))
            sources = [replace(sources[0], node=node)]
        return self._read(sources, 1)[0]

    def _sources(self) -> Iterator[_Source]:
        for path in self.files:
            yield _Source(node_name(path), str(path), is_file=True, read=partial(self._of_file, path))
        for name in self.instance_types:
            read = partial(_of_instance_type, name)
            yield _Source(_as_node_name(name), f"instance type {name}", is_file=False, read=read)
        for folder in self.folders:
            yield _Source(_folder_name(folder), str(folder), is_file=False, read=partial(_of_folder, folder))
        if self.this_machine:
            yield _Source(_as_node_name(socket.gethostname()), "this machine", is_file=False, read=_of_this_machine)

    def _read(self, sources: Sequence[_Source], copies: int) -> list[Inventory]:
        by_node: dict[str, _Source] = {}
        for source in sources:
            earlier = by_node.setdefault(source.node, source)
            if earlier is not source:
                raise InputError(
                    f"{source.shown} and {earlier.shown} both make a node named {source.node}",
                    hint="rename one of the two; simulate --nodes repeats a machine",
                )
        self._check_hardware(by_node)
        names = {node: [node] if copies == 1 else [f"{node}-{i}" for i in range(1, copies + 1)] for node in by_node}
        # A flag for NICs means all nodes of a machine by its name, or one of them by its own.
        self.nics.check([*by_node, *(name for of_source in names.values() for name in of_source)])
        inventories: list[Inventory] = []
        for node, source in by_node.items():
            inventory = source.read(node)
            inventories += [self.nics.applied(inventory.renamed(name), name, node) for name in names[node]]
        return inventories

    def _check_hardware(self, sources: Mapping[str, _Source]) -> None:
        """Refuse flags about GPUs that their source describes itself, and about nodes that do not exist."""
        any_file = any(source.is_file for source in sources.values())
        for flag, given in (("--gpu-model", self.hardware.models), ("--gpu-memory", self.hardware.memories)):
            for node in given:
                source = sources.get(node)
                if not any_file or (source is not None and not source.is_file):
                    raise click.UsageError(f"{flag} goes with --topology FILE: the others show it themselves")
        self.hardware.check(sources)

    def _of_file(self, path: Path, node: str) -> Inventory:
        try:
            return read_topology(path, node=node, hardware=self.hardware.of(node))
        except InputError as error:
            if not path.exists() and str(path) in _known_types(None, None, str(path)):
                raise InputError(f"{path}: no such file", hint=f"did you mean --instance-type {path}?") from error
            raise


def machine_options(
    command: Callable[..., Any] | None = None, *, positional: bool = True, gpu_memory: bool = True
) -> Callable[..., Any]:
    """Add the options that name machines and what their sources leave out, passed on as one argument ``machines``.

    Args:
        command: The command's function.
        positional: Whether FILE arguments are topology files, too.
        gpu_memory: Whether ``--gpu-memory`` is the memory of the machine's GPUs.
    """
    if command is None:
        return lambda command: machine_options(command, positional=positional, gpu_memory=gpu_memory)
    given = command

    @wraps(command)
    def wrapped(
        *,
        topologies: tuple[Path, ...],
        instance_types: tuple[str, ...],
        sysfs_folders: tuple[Path, ...],
        this_machine: bool,
        hardware: HardwareFlags,
        nics: NicFlags,
        machine_files: tuple[Path, ...] = (),
        **rest: Any,
    ) -> Any:
        files = (*machine_files, *topologies)
        return given(machines=Machines(files, instance_types, sysfs_folders, this_machine, hardware, nics), **rest)

    options = [
        click.option(
            "--topology", "topologies", metavar="FILE", type=FILE, multiple=True,
            help="A topology file, as NCCL_TOPO_DUMP_FILE makes NCCL write it, or a machine description (YAML).",
        ),
        click.option(
            "--instance-type", "instance_types", metavar="NAME", multiple=True, shell_complete=_known_types,
            help="A cloud's instance type from the catalogue, such as p5.48xlarge; rootport slices --list shows all.",
        ),
        click.option(
            "--sysfs", "sysfs_folders", metavar="DIR", type=FOLDER, multiple=True,
            help="A machine's /sys, or a copy of it: the folder that holds sys/.",
        ),
        click.option("--live", "this_machine", is_flag=True, help="This machine: sysfs, and NVML if it has a driver."),
    ]  # fmt: skip
    if positional:
        options.append(click.argument("machine_files", metavar="[FILE]...", type=FILE, nargs=-1))
    made: Callable[..., Any] = nic_options(wrapped)
    made = hardware_options(made, memory=gpu_memory)
    for option in reversed(options):
        made = option(made)
    return made


# Imported where they are needed: who names files alone takes neither the catalogue nor sysfs nor NVML.
def _of_instance_type(name: str, node: str) -> Inventory:
    from driver.adapters.machines.instance_types import read_instance_type  # noqa: PLC0415 - as said above

    return read_instance_type(name, node=node)


def _known_types(ctx: object, param: object, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
    """Return the instance types whose names begin like this."""
    from driver.adapters.machines.instance_types import instance_types  # noqa: PLC0415 - as said above

    return [name for name in instance_types() if name.startswith(incomplete)]


def _of_folder(folder: Path, node: str) -> Inventory:
    from driver.adapters.host import HostRoot  # noqa: PLC0415 - as said above
    from driver.adapters.sysfs.discovery import discover  # noqa: PLC0415 - as said above

    return discover(HostRoot(folder), node=node)


def _of_this_machine(node: str) -> Inventory:
    from driver.adapters.host import HostRoot  # noqa: PLC0415 - as said above
    from driver.adapters.machines.live import discover  # noqa: PLC0415 - as said above

    return discover(HostRoot(Path("/")), node=node)


def _folder_name(folder: Path) -> str:
    """Return the machine after which a folder is named: ``worker-1`` for ``dumps/worker-1`` and its ``sys``."""
    path = folder.absolute()
    return _as_node_name(path.parent.name if path.name == "sys" else path.name)


def _as_node_name(name: str) -> str:
    # node_name() takes a file's name, and leaves its suffix out.
    return node_name(Path(f"{name or 'node'}.d"))
