"""Waits for the errors that NVIDIA's driver reports, in a session of NVML of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from driver.adapters.nvml.events import XidEvents
from driver.adapters.nvml.session import session
from driver.errors import NodeError
from driver.health.readings import XidEvent
from driver.model.devices import Gpu
from driver.model.pci import PciAddress
from kubeletplugin.node.nvml_library import with_nvml
from kubeletplugin.node.roots import Roots

__all__ = ["XidListener"]

_LOG: Final = logging.getLogger(__name__)
_WAIT_S: Final = 1.0
"""An event ends a wait at once; a change of the GPUs, and the plugin's end, are looked for after it."""

_PAUSE_S: Final = 0.5
"""NVML keeps what comes meanwhile. A faulty application makes errors without end, and each look at them is a line in
the log and may be a write of a file."""

_RETRY_S: Final = 60.0


class XidListener:
    """Listens to a node's GPUs. :meth:`listen` is called from one thread at a time.

    Args:
        roots: Where the host's NVML is.
        gpus: Returns NVIDIA's GPUs.
        take: Called with the reported errors.
    """

    def __init__(
        self, roots: Roots, *, gpus: Callable[[], tuple[Gpu, ...]], take: Callable[[Sequence[XidEvent]], None]
    ) -> None:
        self._roots = roots
        self._gpus = gpus
        self._take = take
        self._stopped = threading.Event()
        self._notes: tuple[str, ...] = ()
        self._heard: list[PciAddress] = []

    def listen(self) -> None:
        """Listen until the node has no GPUs, or :meth:`stop`; it begins anew by itself where it has others.

        Raises:
            NodeError: NVML failed, soon after the beginning; wait a little, and begin anew.
        """
        while (gpus := self._gpus()) and not self._stopped.is_set():
            began = time.monotonic()
            try:
                with_nvml(self._roots, partial(self._listen, gpus))
            except NodeError as error:
                if time.monotonic() - began < _RETRY_S:
                    raise
                # All went well until now: each second of a pause is one in which no GPU is heard.
                _LOG.warning("listening to NVIDIA's driver begins anew", extra={"error": str(error)})

    def stop(self) -> None:
        """Have :meth:`listen` end soon; nothing is waited for."""
        self._stopped.set()

    def _listen(self, gpus: tuple[Gpu, ...]) -> None:
        began = time.monotonic()
        addresses = [gpu.address for gpu in gpus]
        with session(), XidEvents(gpus) as events:
            if events.notes != self._notes:
                self._notes = events.notes
                for note in events.notes:
                    _LOG.warning("a GPU's errors are not heard of", extra={"note": note})
            _LOG.log(
                logging.DEBUG if addresses == self._heard else logging.INFO,
                "listening to what NVIDIA's driver reports",
                extra={"gpus": len(gpus) - len(events.notes)},
            )
            self._heard = addresses
            while not self._stopped.is_set() and [gpu.address for gpu in self._gpus()] == addresses:
                if events.notes and time.monotonic() - began > _RETRY_S:
                    return  # a GPU that was lost, and so was left out, may be back
                reported = events.wait(_WAIT_S)
                if reported:
                    self._take(reported)
                    self._stopped.wait(_PAUSE_S)
