"""Lays out a node's inventory as ResourceSlices, in an order that makes the scheduler's first fit a good fit."""

__all__: list[str] = []
