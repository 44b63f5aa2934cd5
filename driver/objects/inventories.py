"""Reads a node's inventory out of its NodeInventory object."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter, ValidationError

from driver.api import API_VERSION
from driver.api.rootport_v1alpha1 import NodeInventory
from driver.api.validation.errors import shown
from driver.api.validation.names import subdomain
from driver.errors import InputError
from driver.model.inventory import Inventory
from driver.objects.invalid import object_errors
from driver.objects.written_inventory import KIND, device_errors, invalid_inventory

__all__ = ["inventory_of", "parse_node_inventory"]


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
        raise invalid_inventory(_name(document), object_errors(error)) from error
    # An item of a list carries neither where the API server leaves them to the list.
    if made.api_version not in ("", API_VERSION) or made.kind not in ("", KIND):
        found = shown(f"{made.api_version} {made.kind}")
        raise InputError(f"expected a {KIND} of {API_VERSION}, not {found}")
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
    errors = [*subdomain("metadata.name", name), *device_errors(node_inventory.spec)]
    if errors:
        raise invalid_inventory(name, errors)
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


def _name(document: object) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
