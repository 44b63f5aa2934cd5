"""Who is explained next, where many want it: every namespace has its share of the time, however much it asks for."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from controller.explanations.mirror import BusyError

__all__ = ["Shares", "Turns"]

_MOST: Final = 4  # far fewer than the HTTPS server's threads, of which the admission webhook needs some
_LONGEST_REST_S: Final = 2.0
_LONGEST_WAIT_S: Final = 2.5
_REMEMBERED: Final = 10_000


class Shares:
    """Gives time to who had the least of it: start-time fair queueing (Goyal, Vin, Cheng 1996).

    Who comes anew, or did not want any for a while, is no worse and no better off than who had least.
    """

    def __init__(self) -> None:
        self._had: dict[str, float] = {}
        self._least = 0.0

    def next(self, waiting: Collection[str]) -> str:
        """Whose turn it is, of those who wait; of equals the first."""
        chosen = min(waiting, key=self._of)
        self._least = self._of(chosen)
        return chosen

    def charge(self, who: str, seconds: float) -> None:
        """Somebody had so much time."""
        self._had[who] = self._of(who) + seconds
        if len(self._had) > _REMEMBERED:
            self._had = {name: had for name, had in self._had.items() if had > self._least}

    def _of(self, who: str) -> float:
        return max(self._had.get(who, 0.0), self._least)


@dataclass(eq=False, slots=True)
class _Place:
    """Of one who waits for the turn, or has it."""

    who: str
    has_turn: bool = False


class Turns:
    """One after the other, a few may wait, not for long, and after each comes a rest as long as it took.

    Who asks much makes others wait no longer: of those who wait, it is the turn of who had least. Where all places are
    taken, who has most of them loses one to somebody who has none. Safe for threads.

    Args:
        most: How many may wait or have their turn.
        wait_s: How long they may wait.
        clock: Monotonic seconds.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        *,
        most: int = _MOST,
        wait_s: float = _LONGEST_WAIT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._most = most
        self._wait_s = wait_s
        self._clock = clock
        self._sleep = sleep
        self._changed = threading.Condition()
        self._places: list[_Place] = []  # in the order in which they came
        self._shares = Shares()
        self._next = clock()

    @property
    def waiting(self) -> tuple[str, ...]:
        """Who waits, or has the turn, in the order in which they came."""
        with self._changed:
            return tuple(place.who for place in self._places)

    @contextmanager
    def turn(self, who: str = "") -> Iterator[None]:
        """Wait for the turn.

        Args:
            who: Shares the time with others; a namespace.

        Raises:
            BusyError: As many as may wait do so already, or it took too long.
        """
        place = _Place(who)
        try:
            self._take(place)
            self._sleep(max(self._next - self._clock(), 0.0))
            began = self._clock()
            try:
                yield
            finally:
                ended = self._clock()
                self._next = ended + min(ended - began, _LONGEST_REST_S)
                self._shares.charge(who, ended - began)
        finally:
            with self._changed:
                if place in self._places:
                    self._places.remove(place)
                self._changed.notify_all()

    def _take(self, place: _Place) -> None:
        """Wait until it is this one's turn."""
        with self._changed:
            if len(self._places) >= self._most and not self._make_room(place.who):
                raise BusyError("too many ask for explanations at once: try again in a second")
            self._places.append(place)
            end = time.monotonic() + self._wait_s
            while not self._is_next(place):
                if place not in self._places or not self._changed.wait(max(end - time.monotonic(), 0.0)):
                    raise BusyError("others are having claims explained: try again in a second")
            place.has_turn = True

    def _is_next(self, place: _Place) -> bool:
        if not self._places or any(item.has_turn for item in self._places):
            return False
        chosen = self._shares.next([item.who for item in self._places])
        return next(item for item in self._places if item.who == chosen) is place

    def _make_room(self, who: str) -> bool:
        """Take a place from whom has most of them, for one who has none."""
        taken = Counter(item.who for item in self._places)
        most, places = taken.most_common(1)[0]
        loser = next((item for item in reversed(self._places) if item.who == most and not item.has_turn), None)
        if who in taken or places < 2 or loser is None:
            return False
        self._places.remove(loser)
        self._changed.notify_all()
        return True
