"""Every order in which the requests of reviews, of the collector and of the API server may reach etcd.

A review is answered before its pod is stored. Whatever happens between, a pod that was let in finds its template, with
exactly the spec that it asked for; and once the pods are gone, nothing is left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from controller.conversion.templates import Templates
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.request import Request
from tests.unit.controller.conversion.world import LIFETIME, NAME, NAMESPACE, World, pod, template

_KEY = f"{NAMESPACE}/{NAME}"
_SKEW_S = LIFETIME.skew_s
Actor = Callable[["Steps"], None]


class Steps:
    """Lets one of several threads go on at a time, from one step to the next, in an order that is given."""

    def __init__(self, order: Sequence[int]) -> None:
        self._order = list(order)
        self.choices: list[int] = []
        """How many threads could have gone on, at each step."""
        self._changed = threading.Condition()
        self._waiting: dict[int, int] = {}
        self._alive: set[int] = set()
        self._turn: int | None = None
        self._numbers: dict[int, int] = {}

    def step(self) -> None:
        """Wait for this thread's turn."""
        number = self._numbers[threading.get_ident()]
        with self._changed:
            self._waiting[number] = 1
            self._turn = None if self._turn == number else self._turn
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._turn == number)
            del self._waiting[number]

    def run(self, actors: Sequence[Actor]) -> None:
        threads = [threading.Thread(target=self._act, args=(number, actor)) for number, actor in enumerate(actors)]
        self._alive = set(range(len(threads)))
        for thread in threads:
            thread.start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._turn is None and self._waiting.keys() >= self._alive)
                if not self._alive:
                    break
                able = sorted(self._alive)
                at = len(self.choices)
                chosen = self._order[at] if at < len(self._order) else 0
                self.choices.append(len(able))
                self._turn = able[chosen]
                self._changed.notify_all()
        for thread in threads:
            thread.join()

    def _act(self, number: int, actor: Actor) -> None:
        self._numbers[threading.get_ident()] = number
        try:
            actor(self)
        finally:
            with self._changed:
                self._alive.discard(number)
                if self._turn == number:
                    self._turn = None
                self._changed.notify_all()


def orders(run: Callable[[Sequence[int]], Steps]) -> Iterator[int]:
    """Run every order once, depth first; yield how many there were."""
    order: list[int] = []
    count = 0
    while True:
        taken = run(order)
        count += 1
        order = order + [0] * (len(taken.choices) - len(order))
        while order and order[-1] + 1 >= taken.choices[len(order) - 1]:
            order.pop()
        if not order:
            yield count
            return
        order[-1] += 1


class Play:
    """One order of all requests, with the clocks of the processes as far apart as they may be."""

    def __init__(self, order: Sequence[int], *, age_s: float, webhook_clock_s: float, collector_clock_s: float) -> None:
        self.world = World(webhook_clock_s=webhook_clock_s, collector_clock_s=collector_clock_s)
        self.failures: list[str] = []
        if age_s >= 0:
            self.world.templates.ensure(template(), dry_run=False)
            self.world.wait(age_s)
        self.steps = Steps(order)
        self.world.server.before = self._before

    def _before(self, _request: Request) -> None:
        self.steps.step()

    def review(self, name: str, templates: Templates) -> Actor:
        def act(steps: Steps) -> None:
            try:
                templates.ensure(template(), dry_run=False)
            except ApiServerError as error:
                self.failures.append(str(error))
                return
            steps.step()
            self.world.server.put("pods", pod(name, NAME))
            self.check()

        return act

    def collect(self, steps: Steps) -> None:
        steps.step()
        self.world.collect()
        self.check()

    def delay(self, steps: Steps) -> None:
        """The API server takes as long as it may to store a pod."""
        steps.step()
        self.world.wait(LIFETIME.request_s)

    def check(self) -> None:
        named = any(True for _ in self.world.server.objects["pods"])
        if named and _KEY not in self.world.server.templates():
            self.failures.append("a pod names a template that is not there")

    def finish(self) -> None:
        self.world.server.before = lambda _: None
        for _ in range(3):
            self.world.wait(LIFETIME.unused_s + _SKEW_S)
            self.world.collect()
        self.check()
        self.world.server.objects["pods"].clear()
        self.world.wait(LIFETIME.unused_s + _SKEW_S)
        self.world.collect()
        if self.world.server.templates():
            self.failures.append("a template is left behind")


_AGES = {
    "new": -1.0,
    "fresh": 0.0,
    "nearly-stale": LIFETIME.refresh_s - 1,
    "stale": LIFETIME.refresh_s,
    "nearly-old": LIFETIME.unused_s - 1,
    "old": LIFETIME.unused_s,
    "very-old": LIFETIME.unused_s + _SKEW_S,
}
_CLOCKS = {"right": (0.0, 0.0), "collector-ahead": (0.0, _SKEW_S), "webhook-ahead": (_SKEW_S, 0.0)}


@pytest.mark.parametrize("clocks", _CLOCKS.values(), ids=_CLOCKS.keys())
@pytest.mark.parametrize("age_s", _AGES.values(), ids=_AGES.keys())
def test_a_pod_that_was_let_in_finds_its_template(age_s: float, clocks: tuple[float, float]) -> None:
    def run(order: Sequence[int]) -> Steps:
        play = Play(order, age_s=age_s, webhook_clock_s=clocks[0], collector_clock_s=clocks[1])
        play.steps.run([play.review("a", play.world.templates), play.collect, play.delay])
        play.finish()
        assert play.failures == [], order
        return play.steps

    (count,) = orders(run)
    assert count >= 10


@pytest.mark.parametrize(
    "age_s", [pytest.param(-1.0, id="new"), pytest.param(LIFETIME.unused_s, id="old", marks=pytest.mark.slow)]
)
def test_two_replicas_and_the_collector_at_once(age_s: float) -> None:
    def run(order: Sequence[int]) -> Steps:
        play = Play(order, age_s=age_s, webhook_clock_s=0.0, collector_clock_s=0.0)
        reviews = [play.review("a", play.world.templates), play.review("b", play.world.webhook())]
        play.steps.run([*reviews, play.collect])
        play.finish()
        assert play.failures == [], order
        return play.steps

    (count,) = orders(run)
    assert count >= 100


def test_without_the_written_use_a_pod_would_lose_its_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """The orders are told apart: the rule that they prove is needed."""
    monkeypatch.setattr(Templates, "_mark_used", lambda *_: True)
    failures: list[str] = []

    def run(order: Sequence[int]) -> Steps:
        play = Play(order, age_s=LIFETIME.unused_s, webhook_clock_s=0.0, collector_clock_s=0.0)
        play.steps.run([play.review("a", play.world.templates), play.collect, play.delay])
        failures.extend(play.failures)
        return play.steps

    list(orders(run))
    assert "a pod names a template that is not there" in failures
