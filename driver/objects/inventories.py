"""Converts between a node's inventory and its NodeInventory object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from driver.api import API_VERSION
from driver.api.resource_v1 import ObjectMeta
from driver.api.rootport_v1alpha1 import (
    MAX_DEVICES,
    MAX_NOTE_LENGTH,
    MAX_NOTES,
    NodeInventory,
    NodeInventorySpec,
)
from driver.api.validation.errors import FieldError, shown
from driver.api.validation.names import subdomain
from driver.errors import InputError
from driver.model.devices import RdmaNic
from driver.model.inventory import Inventory
from driver.objects.invalid import object_errors

__all__ = ["inventory_of", "node_inventory", "parse_node_inventory"]

_KIND: Final = "NodeInventory"
_HINT: Final = "the node's plugin writes this object: look at its log, and at who else may write it"


def node_inventory(inventory: Inventory) -> NodeInventory:
    """Return the object that a node's plugin writes, without a status.

    :func:`inventory_of` gives the inventory back as it was. Notes alone may differ: those beyond 256 are counted, a
    longer one than 1024 characters is cut, and what a terminal could not print is replaced, so that no note ever keeps
    a node's devices from being published.

    Raises:
        InputError: The inventory has what such an object cannot hold; all mistakes, with their fields.
    """
    errors = [*subdomain("metadata.name", inventory.node), *_wrong_parents(inventory)]
    try:
        spec = NodeInventorySpec.model_validate(_spec(inventory))
    except ValidationError as error:
        errors += (FieldError(f"spec.{item.path}", item.message) for item in object_errors(error))
        raise _invalid(inventory.node, errors) from error
    made = NodeInventory(api_version=API_VERSION, kind=_KIND, metadata=ObjectMeta(name=inventory.node), spec=spec)
    errors += _wrong_devices(made)
    if errors:
        raise _invalid(inventory.node, errors)
    return made


def parse_node_inventory(document: object) -> NodeInventory:
    """Read a NodeInventory as the API server gave it; fields that this version does not know are left out.

    Args:
        document: JSON as Python data.

    Raises:
        InputError: It is not a NodeInventory of this version; all mistakes, with their fields.
    """
    try:
        made = NodeInventory.model_validate(document)
    except ValidationError as error:
        raise _invalid(_name(document), object_errors(error)) from error
    # An item of a list carries neither where the API server leaves them to the list.
    if made.api_version not in ("", API_VERSION) or made.kind not in ("", _KIND):
        found = shown(f"{made.api_version} {made.kind}")
        raise InputError(f"expected a {_KIND} of {API_VERSION}, not {found}")
    return made


def inventory_of(node_inventory: NodeInventory) -> Inventory:
    """Return the inventory that a node's plugin wrote.

    What a node wrote is not trusted: each value's form is checked by the model (:func:`parse_node_inventory` reports
    its mistakes), and here the name, the number of devices, and that no two of them have one PCI address.
    ``spec.counts`` is not read: it is for people.

    Raises:
        InputError: There are too many devices, two have one address, or the name is not a node's; all mistakes, with
            their fields.
    """
    name = node_inventory.metadata.name
    errors = [*subdomain("metadata.name", name), *_wrong_devices(node_inventory)]
    if errors:
        raise _invalid(name, errors)
    fields = node_inventory.spec.model_dump(exclude={"counts"})
    for nic in fields["nics"]:
        for vf in nic["vfs"]:
            vf["parent"] = nic["address"]
            vf["pcie"] = nic["pcie"] if vf["pcie"] is None else vf["pcie"]
    return _inventory_reader().validate_python(fields | {"node": name})


@cache
def _inventory_reader() -> TypeAdapter[Inventory]:
    # Built when it is needed: it takes 15 ms.
    return TypeAdapter(Inventory)


def _spec(inventory: Inventory) -> dict[str, Any]:
    nics = [_nic(nic) for nic in inventory.nics]
    return {
        "source": inventory.source.value,
        "counts": {
            "gpus": len(inventory.gpus),
            "nics": len(nics),
            "vfs": sum(len(nic.vfs) for nic in inventory.nics),
            "fpgas": len(inventory.fpgas),
        },
        "gpus": [asdict(gpu) for gpu in inventory.gpus],
        "nics": nics,
        "fpgas": [asdict(fpga) for fpga in inventory.fpgas],
        "rdma_netns_mode": inventory.rdma_netns_mode,
        "notes": _notes(inventory.notes),
    }


def _nic(nic: RdmaNic) -> dict[str, Any]:
    fields = asdict(nic)
    for vf in fields["vfs"]:
        # Its NIC has both; a node may have a thousand VFs.
        del vf["parent"]
        if vf["pcie"] == fields["pcie"]:
            del vf["pcie"]
    return fields


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


def _wrong_devices(made: NodeInventory) -> Iterator[FieldError]:
    number = sum(1 for _ in _addresses(made.spec))
    if number > MAX_DEVICES:
        yield FieldError("spec", f"it has {number} devices, and a node has at most {MAX_DEVICES}")
        return
    first: dict[str, str] = {}
    for path, address in _addresses(made.spec):
        earlier = first.setdefault(address, path)
        if earlier != path:
            yield FieldError(f"{path}.address", f"{address} is the address of {earlier} as well")


def _addresses(spec: NodeInventorySpec) -> Iterator[tuple[str, str]]:
    for at, gpu in enumerate(spec.gpus):
        yield f"spec.gpus[{at}]", gpu.address
    for at, nic in enumerate(spec.nics):
        yield f"spec.nics[{at}]", nic.address
        for number, vf in enumerate(nic.vfs):
            yield f"spec.nics[{at}].vfs[{number}]", vf.address
    for at, fpga in enumerate(spec.fpgas):
        yield f"spec.fpgas[{at}]", fpga.address


def _name(document: object) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _invalid(name: str, errors: list[FieldError] | tuple[FieldError, ...]) -> InputError:
    subject = f"{_KIND} {shown(name)}"
    error = InputError.of_all([f"{subject}: {item}" for item in errors])
    error.hint = _HINT
    return error
