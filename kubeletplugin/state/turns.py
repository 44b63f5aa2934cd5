"""Lets callers that wait for the plugin's state take one turn together: one lock, one write of the checkpoint.

The first caller leads: it opens the state, does its own work and that of whoever came meanwhile, and commits all of it.
Nobody has an answer before that. Who comes later is led by one of those who wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["HandedBack", "SharedState", "Turns"]

_MOST: Final = 32
"""Callers in one turn: the first of them waits for the last."""


class HandedBack(BaseException):
    """Raised by work that may take long when another caller does it: the caller it is of is to lead a turn for it.

    The work is begun anew then, so it must have changed nothing yet.
    """


class SharedState(Protocol):
    """What a turn works on."""

    def commit(self) -> None:
        """Make what was changed durable. What could not be is left for each caller to learn."""
        ...


_State = TypeVar("_State", bound=SharedState)


class _Call(Generic[_State]):
    """One caller's work, and where it stands."""

    __slots__ = ("alone", "error", "leads", "signal", "taken", "work")

    def __init__(self, work: Callable[[_State], None]) -> None:
        self.work = work
        self.signal = threading.Lock()  # held until there is something to do for the caller
        self.signal.acquire()
        self.taken = False
        self.alone = False
        self.leads = False
        self.error: BaseException | None = None


class Turns(Generic[_State]):
    """Gives callers their turns; safe to call from several threads.

    Args:
        opened: Opens the state for a turn, under its lock.
        timeout_s: Seconds that a caller waits for those before it.
        late: Returns what is raised after that.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[_State]],
        *,
        timeout_s: float,
        late: Callable[[], Exception],
    ) -> None:
        self._opened = opened
        self._timeout_s = timeout_s
        self._late = late
        self._mutex = threading.Lock()
        self._waiting: deque[_Call[_State]] = deque()
        self._led = False

    def take(self, work: Callable[[_State], None]) -> None:
        """Do some work on the state, and return once it is committed.

        Args:
            work: Called once, maybe by another caller's thread; again by this one if it was handed back.

        Raises:
            Exception: What the work raised, or what is the matter with the state.
        """
        call = _Call(work)
        with self._mutex:
            call.leads = not self._led
            self._led = True
            if not call.leads:
                self._waiting.append(call)
        if not call.leads:
            self._wait(call)
        if call.leads:
            self._lead(call)
        if call.error is not None:
            raise call.error

    def _wait(self, call: _Call[_State]) -> None:
        if call.signal.acquire(timeout=self._timeout_s):
            return
        with self._mutex:
            if not call.taken and not call.leads:
                self._waiting.remove(call)
                raise self._late()
        call.signal.acquire()  # somebody is at it

    def _lead(self, leader: _Call[_State]) -> None:
        led: list[_Call[_State]] = []
        try:
            with self._opened() as state:
                _do(leader, state)
                while len(led) < _MOST and (more := self._next()) is not None:
                    led.append(more)
                    try:
                        _do(more, state)
                    except HandedBack:
                        led.pop()
                        self._hand_back(more)
                state.commit()
        except BaseException as error:  # noqa: BLE001 - each caller raises it in its own thread
            for call in (leader, *led):
                call.error = call.error or error
        finally:
            self._end(led)

    def _next(self) -> _Call[_State] | None:
        with self._mutex:
            for call in self._waiting:
                if not call.alone:
                    self._waiting.remove(call)
                    call.taken = True
                    return call
        return None

    def _hand_back(self, call: _Call[_State]) -> None:
        with self._mutex:
            call.taken = False
            call.alone = True
            self._waiting.appendleft(call)

    def _end(self, led: list[_Call[_State]]) -> None:
        with self._mutex:
            if self._waiting:
                following = self._waiting.popleft()
                following.leads = True
                following.signal.release()
            else:
                self._led = False
        for call in led:
            call.signal.release()


def _do(call: _Call[_State], state: _State) -> None:
    try:
        call.work(state)
    except Exception as error:  # noqa: BLE001 - as above
        call.error = error
