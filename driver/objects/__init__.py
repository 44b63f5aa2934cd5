"""Rootport's own API objects out of an inventory, and the inventory out of what a node wrote."""

from driver.objects.alignment_events import alignment_event
from driver.objects.claims import ClaimAllocation, claim_allocations
from driver.objects.consumers import PodConsumer, pod_consumers
from driver.objects.device_amounts import DeviceOffer
from driver.objects.device_statuses import device_statuses
from driver.objects.devices import device_objects
from driver.objects.inventories import inventory_of, node_inventory, parse_node_inventory
from driver.objects.names import MODEL_LABEL, NODE_LABEL, TYPE_LABEL, device_object_name, node_label

__all__ = [
    "MODEL_LABEL",
    "NODE_LABEL",
    "TYPE_LABEL",
    "ClaimAllocation",
    "DeviceOffer",
    "PodConsumer",
    "alignment_event",
    "claim_allocations",
    "device_object_name",
    "device_objects",
    "device_statuses",
    "inventory_of",
    "node_inventory",
    "node_label",
    "parse_node_inventory",
    "pod_consumers",
]
