"""Makes NVML loadable in the plugin's container, where the host's driver is seen below a folder and not installed.

The dynamic linker takes a library that is loaded already for the one asked for, by its SONAME. So the host's own
libnvidia-ml.so.1, which must fit the host's kernel driver, is loaded by its path, and NVML's binding gets that one.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from driver.adapters.nvml.driver_files import find_driver_files, kernel_driver_version
from driver.adapters.nvml.session import NvmlUnavailableError
from driver.errors import RootportError
from kubeletplugin.node.roots import Roots

__all__ = ["load_from_host", "outdated_version", "with_nvml"]

_T = TypeVar("_T")

_LOG: Final = logging.getLogger(__name__)
_NAME: Final = "libnvidia-ml.so.1"
_loaded: list[str] = []  # what the linker has loaded is the whole process's, and stays


def with_nvml(roots: Roots, act: Callable[[], _T]) -> _T:
    """Do what needs NVML, with the host's where this process has none.

    Args:
        roots: Where the host is.
        act: What to do; it is done again once the library is there.

    Raises:
        NvmlUnavailableError: The host has none either.
    """
    try:
        return act()
    except NvmlUnavailableError:
        if not load_from_host(roots):
            raise
        return act()


def load_from_host(roots: Roots) -> bool:
    """Load the host's NVML; False where the host has none that can be loaded. What is loaded stays so."""
    version = kernel_driver_version(roots.hardware.fresh())
    if version is None:
        return False
    try:
        files = find_driver_files(roots.host.fresh(), version, driver_root=roots.driver_root)
    except RootportError as error:
        _LOG.debug("NVML was not looked for on the host", extra={"error": error})
        return False
    for library in files.libraries if files else ():
        if _NAME in library.names or library.host_path.endswith(f"/{_NAME}"):
            path = roots.host.path / library.host_path.lstrip("/")
            try:
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                _LOG.warning("the host's NVML cannot be loaded", extra={"path": path, "error": error})
                return False
            _LOG.info("loaded the host's NVML", extra={"path": path})
            _loaded.append(version)
            return True
    return False


def outdated_version(roots: Roots) -> str | None:
    """Return the driver version whose NVML :func:`load_from_host` loaded, if another driver runs by now; else None.

    A library cannot be exchanged in a running process. A new one would load what fits: it takes the library by the
    version of the driver that runs.
    """
    running = kernel_driver_version(roots.hardware.fresh())
    return _loaded[0] if _loaded and running is not None and running != _loaded[0] else None
