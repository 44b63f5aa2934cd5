"""Writes a node's inventory as its NodeInventory object, without the models of the API's objects.

Each value's bounds are the API server's to check, by the CRD, which is made of the model that reads the object
(:mod:`driver.objects.inventories`). What the CRD cannot check is checked here: the node's name and the addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from driver.api import API_VERSION
from driver.api.bounds import MAX_DEVICES, MAX_NOTE_LENGTH, MAX_NOTES
from driver.api.validation.errors import FieldError, shown
from driver.api.validation.names import subdomain
from driver.errors import InputError
from driver.model.devices import Fpga, Gpu, RdmaNic
from driver.model.inventory import Inventory
from driver.spelling import camel_case

if TYPE_CHECKING:
    from driver.api.rootport_v1alpha1 import NodeInventorySpec

__all__ = ["KIND", "device_errors", "invalid_inventory", "node_inventory"]

KIND: Final = "NodeInventory"

_HINT: Final = "the node's plugin writes this object: look at its log, and at who else may write it"
_INITIALS: Final = {"profile_id": "profileID", "sriov_total_vfs": "sriovTotalVFs"}
"""The names that are not in plain camelCase."""


def node_inventory(inventory: Inventory) -> dict[str, Any]:
    """Return the object that a node's plugin writes, as JSON types, without a status.

    :func:`driver.objects.inventories.inventory_of` gives the inventory back as it was. Notes alone may differ: those
    beyond 256 are counted, a longer one than 1024 characters is cut, and what a terminal could not print is replaced,
    so that no note ever keeps a node's devices from being published.

    Raises:
        InputError: The node's name is not one that Kubernetes allows, there are too many devices, two have one address,
            or a VF has another parent than the NIC that lists it; all mistakes, with their fields.
    """
    errors = [*subdomain("metadata.name", inventory.node), *_wrong_parents(inventory), *device_errors(inventory)]
    if errors:
        raise invalid_inventory(inventory.node, errors)
    metadata = {"name": inventory.node}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": _spec(inventory)}


def device_errors(devices: Inventory | NodeInventorySpec) -> Iterator[FieldError]:
    """Yield an error where there are too many devices, or else for each that has the address of an earlier one."""
    number = sum(1 for _ in _addresses(devices))
    if number > MAX_DEVICES:
        yield FieldError("spec", f"it has {number} devices, and a node has at most {MAX_DEVICES}")
        return
    first: dict[str, str] = {}
    for path, address in _addresses(devices):
        earlier = first.setdefault(address, path)
        if earlier != path:
            yield FieldError(f"{path}.address", f"{address} is the address of {earlier} as well")


def invalid_inventory(name: str, errors: Sequence[FieldError]) -> InputError:
    """Return the error about a NodeInventory of that name."""
    subject = f"{KIND} {shown(name)}"
    error = InputError.of_all([f"{subject}: {item}" for item in errors])
    error.hint = _HINT
    return error


def _spec(inventory: Inventory) -> dict[str, Any]:
    counts = {
        "gpus": len(inventory.gpus),
        "nics": len(inventory.nics),
        "vfs": sum(len(nic.vfs) for nic in inventory.nics),
        "fpgas": len(inventory.fpgas),
    }
    lists = {
        "gpus": [_device(gpu) for gpu in inventory.gpus],
        "nics": [_nic(nic) for nic in inventory.nics],
        "fpgas": [_device(fpga) for fpga in inventory.fpgas],
        "rdmaNetnsMode": _written(inventory.rdma_netns_mode),
        "notes": _notes(inventory.notes),
    }
    return {
        "source": inventory.source.value,
        "counts": counts,
        **{name: value for name, value in lists.items() if value},
    }


def _device(device: Gpu | RdmaNic | Fpga) -> dict[str, Any]:
    made: dict[str, Any] = _written(device)
    if not made["pcie"]:
        del made["pcie"]  # nothing is known of its path
    return made


def _nic(nic: RdmaNic) -> dict[str, Any]:
    made = _device(nic)
    for vf in made.get("vfs", ()):
        # Its NIC has both; a node may have a thousand VFs.
        del vf["parent"]
        if vf["pcie"] == made.get("pcie", {}):
            del vf["pcie"]
    return made


def _written(value: Any) -> Any:
    """Return a value of the inventory as JSON types; what a device does not have is left out (Go's ``omitempty``)."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_written(item) for item in value]
    if not is_dataclass(value):
        return value
    made = {}
    kind: Any = type(value)
    for attribute, name, omits_zero in _fields(kind):
        item = getattr(value, attribute)
        if item is not None and item != () and not (omits_zero and item == 0):
            made[name] = _written(item)
    return made


@cache
def _fields(cls: Any) -> tuple[tuple[str, str, bool], ...]:
    """Return each field's name, its name in the object, and whether it is left out where it is 0."""
    return tuple(
        (item.name, _INITIALS.get(item.name) or camel_case(item.name), _is_zero(item.default)) for item in fields(cls)
    )


def _is_zero(default: object) -> bool:
    return default is not MISSING and type(default) is int and default == 0


def _notes(notes: tuple[str, ...]) -> list[str]:
    kept = [_note(note) for note in notes[:MAX_NOTES]]
    if len(notes) > MAX_NOTES:
        kept[-1] = f"and {len(notes) - MAX_NOTES + 1} more notes, which are in the plugin's log"
    return kept


def _note(note: str) -> str:
    if len(note) > MAX_NOTE_LENGTH:
        note = f"{note[: MAX_NOTE_LENGTH - 1]}…"
    return note if note.isprintable() else "".join(char if char.isprintable() else "�" for char in note)


def _wrong_parents(inventory: Inventory) -> Iterator[FieldError]:
    """Yield the VFs that name another parent than the NIC in whose list they stand."""
    for at, nic in enumerate(inventory.nics):
        for number, vf in enumerate(nic.vfs):
            if vf.parent != nic.address:
                path = f"spec.nics[{at}].vfs[{number}]"
                yield FieldError(path, f"its parent is {shown(vf.parent)}, but it is listed at {nic.address}")


def _addresses(spec: Inventory | NodeInventorySpec) -> Iterator[tuple[str, str]]:
    devices: Any = spec  # the two have the same fields
    for at, gpu in enumerate(devices.gpus):
        yield f"spec.gpus[{at}]", gpu.address
    for at, nic in enumerate(devices.nics):
        yield f"spec.nics[{at}]", nic.address
        for number, vf in enumerate(nic.vfs):
            yield f"spec.nics[{at}].vfs[{number}]", vf.address
    for at, fpga in enumerate(devices.fpgas):
        yield f"spec.fpgas[{at}]", fpga.address
