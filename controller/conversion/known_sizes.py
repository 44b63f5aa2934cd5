"""Knows the sizes of the cluster's devices. Every replica does, because all of them answer reviews."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from driver.adapters.kubernetes.errors import ApiServerError
from driver.backoff import Backoff
from driver.ratios import NO_SIZES, Sizes

__all__ = ["KnownSizes"]

_LOG: Final = logging.getLogger(__name__)
_EVERY_S: Final = 60.0
_REST: Final = 100
"""The pause is so many times as long as the reading took, if that is more: at most 1 % of a core."""
_LONGEST_PAUSE_S: Final = 3600.0
_FIRST_RETRY_S: Final = 0.5


class KnownSizes:
    """Reads the sizes again and again, in a thread of its own.

    Args:
        read: Reads them; raises ApiServerError.
        every_s: The time from one reading to the next, at least.
    """

    def __init__(self, read: Callable[[], Sizes], *, every_s: float = _EVERY_S) -> None:
        self._read = read
        self._every_s = every_s
        self._sizes = NO_SIZES

    def start(self, stop: threading.Event) -> threading.Thread:
        """Start the thread, which ends once ``stop`` is set."""
        thread = threading.Thread(target=self._run, args=(stop,), name="device-sizes", daemon=True)
        thread.start()
        return thread

    def sizes(self) -> Sizes:
        """Return what was read last; no sizes before that."""
        return self._sizes

    def _run(self, stop: threading.Event) -> None:
        backoff = Backoff(_FIRST_RETRY_S, self._every_s)
        pause_s = 0.0
        while not stop.wait(pause_s):
            began = time.monotonic()
            try:
                self._sizes = self._read()
            except ApiServerError as error:
                _LOG.warning("sizes of devices not read; will be tried again", extra={"error": str(error)})
                pause_s = backoff.next_s()
            except Exception:  # noqa: BLE001 - a mistake of ours must not end all readings
                _LOG.exception("unexpected error; sizes of devices are read again later")
                pause_s = self._every_s
            else:
                backoff.reset()
                took_s = time.monotonic() - began
                pause_s = max(self._every_s, min(_REST * took_s, _LONGEST_PAUSE_S))
