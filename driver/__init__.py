"""Rootport's pure core, its adapters to the host, and the CLI.

Layers, lowest first (held by import-linter, see pyproject.toml): ``errors`` < ``api`` | ``model`` < ``cel`` |
``layout`` | ``config`` < ``allocator`` | ``plan`` < ``adapters`` < ``cli``. Nothing here may import grpc or a
Kubernetes client; NVML is reached through :mod:`driver.adapters.nvml.discovery` alone.
"""

from typing import Final

__all__ = ["DRIVER_NAME", "__version__"]

__version__: Final = "0.1.0.dev0"

DRIVER_NAME: Final = "rootport.dev"
"""The driver's name in ResourceSlices and allocation results, and the domain of its own attributes (DESIGN)."""
