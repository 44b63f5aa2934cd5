"""Summarizes a cluster's nodes, their devices and who uses them, for the controller's HTTP API and the CLI."""

__all__: list[str] = []
