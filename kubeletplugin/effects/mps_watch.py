"""Notices that an MPS daemon has ended which prepared claims need, and has it started again.

A daemon ends with the container in which it was started. While the DaemonSet is updated the new plugin looks after all
effects at its start, when the old one's daemons still answer, and would not look again for minutes.

A client that is root can end its daemon as often as it likes, and a daemon may end by itself each time. A start takes
the lock of the plugin's state, and to look for a process all of ``/proc`` is read. So each further try waits longer.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from driver.backoff import delay_s
from driver.errors import RootportError
from driver.plan.effects import Effect, RunMpsDaemon
from kubeletplugin.child_processes import ended
from kubeletplugin.effects.mps_processes import mps_processes
from kubeletplugin.node.roots import Roots

__all__ = ["MpsWatch"]

_LOG: Final = logging.getLogger(__name__)
_FIRST_WAIT_S: Final = 4.0
_LONGEST_WAIT_S: Final = 300.0  # the reconciler tries as often by itself


class MpsWatch:
    """Holds a handle of each daemon's process: to look whether it has ended is one system call.

    A daemon that has ended, or is not there when it is first looked for, is started at once. One that ends again, or
    could not be started, after 4 s, 8 s … up to 5 minutes; at once again after it has run for 5 minutes.

    Args:
        roots: Where the host is.
        effects: Returns those of the prepared claims of this boot.
        start: Starts a daemon where a claim still needs it; raises a RootportError where that fails. Never called for
            one that runs.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        effects: Callable[[], Iterable[Effect]],
        start: Callable[[RunMpsDaemon], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = roots.host.path
        self._effects = effects
        self._start = start
        self._clock = clock
        self._watched: dict[RunMpsDaemon, _Watched] = {}

    def check(self) -> None:
        """Look once. A daemon that cannot be started is logged.

        Raises:
            NodeError: The checkpoint cannot be used.
        """
        needed = {effect for effect in self._effects() if isinstance(effect, RunMpsDaemon)}
        for effect in self._watched.keys() - needed:
            self._watched.pop(effect).let_go()
        for effect in sorted(needed, key=lambda effect: effect.folder):
            pipe = self._host / effect.folder.lstrip("/") / "pipe"
            watched = self._watched.setdefault(effect, _Watched(pipe))
            if watched.is_lost(self._clock()):
                self._start_again(effect, watched)

    def _start_again(self, effect: RunMpsDaemon, watched: _Watched) -> None:
        fields = {"device": effect.gpu, "next_try_s": watched.count_try()}
        _LOG.info("an MPS daemon does not run; it is started where a claim needs it", extra=fields)
        try:
            self._start(effect)
        except RootportError as error:
            _LOG.warning("an MPS daemon could not be started", extra={**fields, "error": str(error)})
        watched.look(self._clock())


class _Watched:
    """One daemon, and how often it was started since it last ran for long."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = pipe
        self._handle: int | None = None
        self._since = 0.0  # when the handle was taken
        self._tries = 0
        self._wait_until = 0.0

    def is_lost(self, now: float) -> bool:
        """Whether the daemon does not run, and is to be started now."""
        if self._handle is not None:
            if now - self._since >= _LONGEST_WAIT_S:
                self._tries = 0
            if not ended(self._handle, 0):
                return False
            self.let_go()
            self._wait(now)
        if self._tries and now < self._wait_until:
            return False
        self.look(now)
        return self._handle is None

    def look(self, now: float) -> None:
        """Take a handle of the daemon, if it runs; else wait before the next try."""
        with mps_processes(self._pipe) as processes:
            self._handle = processes.daemon_handle()
        self._since = now
        if self._handle is None:
            self._wait(now)

    def count_try(self) -> float:
        """Count a start; return for how many seconds the next one would wait."""
        self._tries += 1
        return self._delay_s()

    def let_go(self) -> None:
        """Hold the process no more."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _wait(self, now: float) -> None:
        self._wait_until = now + self._delay_s()

    def _delay_s(self) -> float:
        return delay_s(self._tries, first_s=_FIRST_WAIT_S, limit_s=_LONGEST_WAIT_S) if self._tries else 0.0
