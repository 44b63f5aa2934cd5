"""A thread that does one thing again and again: every so often, at once when woken, and more slowly after failures."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from driver.errors import RootportError

__all__ = ["Loop", "ProcessOutdatedError"]

_LOG: Final = logging.getLogger(__name__)
_FIRST_DELAY_S: Final = 1.0
# Intervals are stretched by up to this part, so that the nodes of a cluster do not come to ask in step.
_SPREAD: Final = 0.1


class ProcessOutdatedError(Exception):
    """Raised by an action that can only go on in a new process: no bug, and its message says why."""


class Loop:
    """Runs an action in a thread of its own.

    A failure is logged as a warning when it is new, as debug while it stays the same; the success after it as info.

    Args:
        name: Names thread and log lines: what the action does, such as "publish the inventory".
        action: What to do; a RootportError counts as failed.
        interval_s: Seconds between two runs.
        settle_s: How long after a wake-up the action is run, so that several soon after each other make one run.
        max_delay_s: Failures are retried after 1 s, 2 s, 4 s … up to this many seconds, less a random part.
        on_crash: Called in the thread when the action raised anything else, a ProcessOutdatedError or a bug: the loop
            has then ended, and the process is to end too.
    """

    def __init__(
        self,
        name: str,
        action: Callable[[], None],
        *,
        interval_s: float,
        max_delay_s: float,
        settle_s: float = 0.0,
        on_crash: Callable[[], None],
    ) -> None:
        self._name = name
        self._action = action
        self._interval_s = interval_s
        self._max_delay_s = max_delay_s
        self._settle_s = settle_s
        self._on_crash = on_crash
        self._failures = 0
        self._last_error = ""
        self._crashed = False
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._done_once = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name.replace(" ", "-"), daemon=True)

    def start(self) -> None:
        """Run the action now, then by the rules."""
        self._thread.start()

    def wake(self) -> None:
        """Run the action soon, but not while it runs, and a second later if it fails; many calls make one run."""
        self._woken.set()

    def wait_once(self, timeout_s: float) -> bool:
        """Wait until the action has been run once, well or not; False when the time was over first."""
        return self._done_once.wait(timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Run the action no more and wait for the current run; False when that takes longer."""
        self._stopped.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def crashed(self) -> bool:
        """Whether a bug has ended it."""
        return self._crashed

    def _run(self) -> None:
        try:
            while True:
                self._woken.clear()
                if self._stopped.is_set():  # asked after the clearing, which may have swallowed stop()'s wake-up
                    return
                delay_s = self._attempt()
                self._done_once.set()
                if self._failures:
                    # No wake-up cuts this shorter: whoever wakes often must not make a hot loop of a failure.
                    pause_s = min(delay_s, _FIRST_DELAY_S)
                    self._stopped.wait(pause_s)
                    delay_s -= pause_s
                if self._woken.wait(delay_s) and self._settle_s:
                    self._stopped.wait(self._settle_s)
        except ProcessOutdatedError as reason:
            _LOG.warning("a new process is needed", extra={"loop": self._name, "reason": str(reason)})
            self._crashed = True
            self._on_crash()
        except Exception:  # noqa: BLE001 - the last line of defence of a thread: told, never swallowed
            _LOG.exception("a bug has ended the loop", extra={"loop": self._name})
            self._crashed = True
            self._on_crash()

    def _attempt(self) -> float:
        """Run the action; the seconds until the next run."""
        began = time.monotonic()
        try:
            self._action()
        except RootportError as error:
            self._failures += 1
            level = logging.DEBUG if str(error) == self._last_error else logging.WARNING
            self._last_error = str(error)
            _LOG.log(level, "failed, will be retried", extra={"loop": self._name, "error": str(error)})
            longest: float = min(self._max_delay_s, _FIRST_DELAY_S * 2 ** min(self._failures - 1, 16))
            return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing
        if self._failures:
            _LOG.info("works again", extra={"loop": self._name, "failures": self._failures})
        self._failures = 0
        self._last_error = ""
        spread = self._interval_s * random.uniform(0, _SPREAD)  # noqa: S311 - as above
        return max(0.0, self._interval_s + spread - (time.monotonic() - began))
