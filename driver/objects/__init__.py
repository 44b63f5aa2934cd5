"""Rootport's own API objects out of an inventory, and the inventory out of what a node wrote."""

__all__: list[str] = []
