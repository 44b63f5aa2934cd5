"""A thread that repeats one action: at intervals, at once when woken, and with a back-off after failures."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from driver.backoff import delay_s
from driver.errors import RootportError
from kubeletplugin.internal_errors import InternalError, internal_error

__all__ = ["Loop", "ProcessOutdatedError"]

_LOG: Final = logging.getLogger(__name__)
_FIRST_DELAY_S: Final = 1.0
_REPEATED: Final = 3
"""After so many unexpected errors in a row, ``on_failing`` is called."""
# Intervals are stretched by up to this part, so that the nodes of a cluster do not send their requests in step.
_SPREAD: Final = 0.1


class ProcessOutdatedError(Exception):
    """Raised by an action that can only go on in a new process; the message gives the reason. It is no bug."""


class Loop:
    """Runs an action in a thread of its own.

    A failure is logged as a warning when it is new, as debug while it stays the same; the success after it as info. An
    unexpected error is a failure like any other: the loop is needed for as long as the process lives, and the process
    is needed to unprepare claims.

    Args:
        name: Names thread and log lines: what the action does, such as "publish the inventory".
        action: What to do; whatever it raises counts as failed, but a ProcessOutdatedError.
        interval_s: Seconds between two runs.
        settle_s: How long after a wake-up the action is run, so that several soon after each other make one run.
        max_delay_s: Failures are retried after 1 s, 2 s, 4 s … up to this many seconds, less a random part.
        on_outdated: Called in the thread when the action raised a ProcessOutdatedError: the loop has then ended, and
            the process is to end too.
        on_failing: Called in the thread, with the loop's name and the error, after each run from the third in a row
            that failed unexpectedly; and with None after the run that ends such a row.
    """

    def __init__(
        self,
        name: str,
        action: Callable[[], None],
        *,
        interval_s: float,
        max_delay_s: float,
        settle_s: float = 0.0,
        on_outdated: Callable[[], None],
        on_failing: Callable[[str, InternalError | None], None] = lambda _name, _error: None,
    ) -> None:
        self._name = name
        self._action = action
        self._interval_s = interval_s
        self._max_delay_s = max_delay_s
        self._settle_s = settle_s
        self._on_outdated = on_outdated
        self._on_failing = on_failing
        self._failures = 0
        self._unexpected = 0  # in a row
        self._last_error = ""
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._done_once = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name.replace(" ", "-"), daemon=True)

    def start(self) -> None:
        """Run the action now, and then at its intervals."""
        self._thread.start()

    def wake(self) -> None:
        """Run the action soon, once for many calls, after the current run, and at least 1 s after a failure."""
        self._woken.set()

    def wait_once(self, timeout_s: float) -> bool:
        """Wait until the action has been run once, successfully or not; return False if that takes longer."""
        return self._done_once.wait(timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Run the action no more and wait for the current run; return False if that takes longer."""
        self._stopped.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def ended(self) -> bool:
        """Whether its thread has ended although :meth:`stop` was not called."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._stopped.is_set()

    def _run(self) -> None:
        try:
            while True:
                self._woken.clear()
                if self._stopped.is_set():  # asked after the clearing, which may have swallowed stop()'s wake-up
                    return
                wait_s = self._attempt()
                self._done_once.set()
                if self._failures:
                    # No wake-up cuts this shorter: whoever wakes often must not make a hot loop of a failure.
                    pause_s = min(wait_s, _FIRST_DELAY_S)
                    self._stopped.wait(pause_s)
                    wait_s -= pause_s
                if self._woken.wait(wait_s) and self._settle_s:
                    self._stopped.wait(self._settle_s)
        except ProcessOutdatedError as reason:
            _LOG.warning("a new process is needed", extra={"loop": self._name, "reason": str(reason)})
            self._on_outdated()

    def _attempt(self) -> float:
        """Run the action; return the seconds until the next run."""
        began = time.monotonic()
        try:
            self._action()
        except ProcessOutdatedError:
            raise
        except RootportError as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - told with its traceback, counted, and tried again
            return self._failed(internal_error(self._name, f"the loop {self._name!r}", error))
        if self._failures:
            _LOG.info("works again", extra={"loop": self._name, "failures": self._failures})
        self._failures = 0
        self._last_error = ""
        self._count_unexpected(None)
        spread = self._interval_s * random.uniform(0, _SPREAD)  # noqa: S311 - spreads load, hides nothing
        return max(0.0, self._interval_s + spread - (time.monotonic() - began))

    def _failed(self, error: RootportError) -> float:
        """Count and log a failure; return the seconds until the next run."""
        self._failures += 1
        level = logging.DEBUG if str(error) == self._last_error else logging.WARNING
        self._last_error = str(error)
        _LOG.log(level, "failed, will be retried", extra={"loop": self._name, "error": str(error)})
        self._count_unexpected(error if isinstance(error, InternalError) else None)
        longest = delay_s(self._failures, first_s=_FIRST_DELAY_S, limit_s=self._max_delay_s)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - as above

    def _count_unexpected(self, error: InternalError | None) -> None:
        before, self._unexpected = self._unexpected, self._unexpected + 1 if error else 0
        if self._unexpected >= _REPEATED or (error is None and before >= _REPEATED):
            self._on_failing(self._name, error)
