"""Rootport's core, its adapters to files, hosts and the Kubernetes API, and the command line.

The controller and the kubelet plugin are built on this package and are never imported by it. The contracts in
pyproject.toml say what may import what; docs/dev/architecture.md shows the parts and how data flows through them.
"""

from typing import Final

__all__ = ["DRIVER_NAME", "__version__"]

__version__: Final = "0.2.0.dev0"

DRIVER_NAME: Final = "rootport.dev"
"""The driver's name in ResourceSlices and allocation results, and the domain of its own attributes (DESIGN)."""
