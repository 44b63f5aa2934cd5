"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.files.policies_file import read_policies
from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.api.quantity import Quantity
from driver.config.shares import small_amount
from driver.convert.settings import DEFAULT, Settings
from driver.errors import InputError

__all__ = [
    "FILE",
    "FOLDER",
    "HardwareFlags",
    "hardware_options",
    "output_option",
    "policies_options",
    "read_resources",
    "refuse_small_amount",
    "resources_option",
]

F = TypeVar("F", bound=Callable[..., Any])


class _Path(click.Path):
    """Takes a path; existence is checked when the file is read, where the message can say what it should be."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            # Python's Path would take it for the current folder; mostly it is a shell variable that is not set.
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


FILE = _Path(path_type=Path)
FOLDER = _Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class HardwareFlags:
    """The flags ``--gpu-model`` and ``--gpu-memory``, for what a topology file does not record.

    Attributes:
        models: Node name → model; the key "" is for every node that is not named.
        memories: Likewise, in bytes.
    """

    models: dict[str, str]
    memories: dict[str, int]

    def of(self, node: str) -> HardwareFacts:
        """Return what the flags say about a node's GPUs."""
        return HardwareFacts(
            gpu_model=self.models.get(node, self.models.get("")),
            gpu_memory_bytes=self.memories.get(node, self.memories.get("")),
        )

    def check(self, nodes: Collection[str]) -> None:
        """Refuse flags for nodes that do not exist.

        Raises:
            InputError: A flag names a node that is not among ``nodes``.
        """
        for flag, given in (("--gpu-model", self.models), ("--gpu-memory", self.memories)):
            for node in given:
                if node and node not in nodes:
                    raise InputError(f"{flag} {node}=...: there is no such node", hint=f"nodes: {', '.join(nodes)}")


def hardware_options(command: Callable[..., Any], *, memory: bool = True) -> Callable[..., Any]:
    """Add ``--gpu-model`` and, with ``memory``, ``--gpu-memory``, passed on as one argument ``hardware``."""

    @wraps(command)
    def wrapped(gpu_models: tuple[str, ...], gpu_memories: tuple[str, ...] = (), **rest: Any) -> Any:
        models = dict(_by_node(gpu_models))
        memories = {node: _bytes(text) for node, text in _by_node(gpu_memories)}
        return command(hardware=HardwareFlags(models, memories), **rest)

    of_memory = click.option(
        "--gpu-memory",
        "gpu_memories",
        metavar="[NODE=]QUANTITY",
        multiple=True,
        help="Memory of each GPU, such as 81559Mi, where the catalogue of models has none or another.",
    )
    of_model = click.option(
        "--gpu-model",
        "gpu_models",
        metavar="[NODE=]MODEL",
        multiple=True,
        help="Model of the GPUs, such as H100, where the topology file does not name it.",
    )
    return of_model(of_memory(wrapped) if memory else wrapped)


resources_option = click.option("--resources", type=FILE, help="A ResourceMap: which resources are which RDMA NICs.")


def read_resources(path: Path | None) -> Settings:
    """Return how to convert by a resource map; as without one if none is named.

    Raises:
        InputError: The file cannot be read, or is no valid ResourceMap.
    """
    if path is None:
        return DEFAULT
    # Only such a file needs the compiler of CEL.
    from driver.adapters.files.resource_map_file import read_resource_map  # noqa: PLC0415 - as said above

    return read_resource_map(path)


def policies_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for files of policies, passed on as ``policies``, ``nic_policies`` and ``device_policies``."""

    @wraps(command)
    def wrapped(gpu_policies: Path | None, nic_policies: Path | None, device_policies: Path | None, **rest: Any) -> Any:
        return command(
            policies=DEFAULT_POLICIES if gpu_policies is None else read_policies(gpu_policies, GpuPolicies),
            nic_policies=DEFAULT_NIC_POLICIES if nic_policies is None else read_policies(nic_policies, NicPolicies),
            device_policies=DEFAULT_DEVICE_POLICIES
            if device_policies is None
            else read_policies(device_policies, DevicePolicies),
            **rest,
        )

    of_gpus = click.option(
        "--gpu-policies",
        type=FILE,
        help="A GpuPolicies file: in which ways GPUs are on offer, and the sizes of shares.",
    )
    of_nics = click.option(
        "--nic-policies",
        type=FILE,
        help="A NicPolicies file: whether VFs are pooled or named, and how RDMA NICs are shared.",
    )
    of_devices = click.option(
        "--device-policies",
        type=FILE,
        help="A DevicePolicies file: attributes of the administrator's own, and devices that are kept off the offer.",
    )
    return of_gpus(of_nics(of_devices(wrapped)))


def _by_node(values: Iterable[str]) -> Iterable[tuple[str, str]]:
    for value in values:
        node, equals, rest = value.rpartition("=")
        yield (node, rest) if equals else ("", value)


def _bytes(text: str) -> int:
    try:
        quantity = Quantity(text)
    except ValueError as error:
        raise InputError(f"--gpu-memory: {error}") from error
    if quantity.ceil() < 1:
        raise InputError(f"--gpu-memory: {text} is not a positive amount of bytes")
    refuse_small_amount("--gpu-memory", "memory", quantity)
    return quantity.ceil()


def refuse_small_amount(flag: str, capacity: str, amount: Quantity) -> None:
    """Refuse an amount of a capacity from which a suffix is missing.

    Raises:
        InputError: It is less than any device has.
    """
    meant = small_amount(capacity, amount)
    if meant is not None:
        raise InputError(f"{flag} {amount}: that is {meant}")


def output_option(*choices: str) -> Callable[[F], F]:
    """Add ``-o``, whose first choice is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True, help="Output format."
    )
