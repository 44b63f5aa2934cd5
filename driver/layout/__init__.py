"""Lays out a node's inventory as ResourceSlices, in an order that makes the scheduler's first fit a good fit."""

from driver.layout.names import slice_name
from driver.layout.slices import device_attributes, left_out, left_out_notes, resource_slices

__all__ = ["device_attributes", "left_out", "left_out_notes", "resource_slices", "slice_name"]
