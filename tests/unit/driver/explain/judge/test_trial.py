"""Questions to the allocator that leave everything as it was."""

from __future__ import annotations

from typing import Any

import pytest

from driver.allocator.ledger import Ledger
from driver.api.resource_v1 import ResourceClaim
from driver.explain.judge import trial as module
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import ClaimState, Kind, NodeState
from tests.unit.driver.explain.builders import device_wire
from tests.unit.driver.explain.nearest_worlds import World, exactly, ledger_of

TAINT = {"taints": [{"key": "d/broken", "effect": "NoExecute"}]}


@pytest.fixture
def world() -> World:
    world = World()
    world.add_node("n", device_wire("a"), device_wire("b"), device_wire("c", extra=TAINT))
    world.hold("one", "n", exactly())
    world.hold("two", "n", exactly())
    return world


def node(world: World) -> NodeState:
    return world.state.nodes["n"]


def held(world: World, name: str) -> ClaimState:
    found = world.state.claim(f"ml/{name}")
    assert found is not None
    return found


def claim(world: World, **fields: Any) -> list[ResourceClaim]:
    return [ResourceClaim.model_validate(world.wire(exactly("r", **fields)))]


def test_what_is_in_use_does_not_fit(world: World) -> None:
    assert not Trial(world.state).fits(node(world), claim(world))


def test_what_ends_is_free(world: World) -> None:
    trial = Trial(world.state)
    before = ledger_of(world.state)
    assert trial.fits(node(world), claim(world), ended=[held(world, "one")])
    assert trial.fits(node(world), claim(world, count=2), ended=[held(world, "one"), held(world, "two")])
    assert not trial.fits(node(world), claim(world, count=2), ended=[held(world, "one"), held(world, "one")])
    assert ledger_of(world.state) == before
    assert trial.trials == 3


def test_taints_are_put_up_with_when_asked_to(world: World) -> None:
    trial = Trial(world.state)
    assert trial.fits(node(world), claim(world), tolerate_all_taints=True)
    assert not trial.fits(node(world), claim(world))


def test_a_wrong_claim_does_not_fit_and_says_why(world: World) -> None:
    trial = Trial(world.state)
    before = ledger_of(world.state)
    wrong = [ResourceClaim.model_validate(world.wire(exactly("r", 'device.attributes["d"].x == 1')))]
    assert not trial.fits(node(world), wrong, ended=[held(world, "one")])
    assert "no such key" in trial.problem
    assert ledger_of(world.state) == before
    assert trial.fits(node(world), claim(world), ended=[held(world, "one")])
    assert trial.problem == ""


def test_a_class_that_comes_is_seen(world: World) -> None:
    trial = Trial(world.state)
    wanted = claim(world, deviceClassName="new")
    assert not trial.fits(node(world), wanted, ended=[held(world, "one")])
    world.add_class("new")
    assert trial.fits(node(world), wanted, ended=[held(world, "one")])
    world.state.remove(Kind.CLASS, "new")
    assert not trial.fits(node(world), wanted, ended=[held(world, "one")])


def test_more_than_a_claim_may_have(world: World) -> None:
    trial = Trial(world.state)
    assert not trial.fits(node(world), claim(world, count=33))
    assert "exceeds the claim limit of 32" in trial.problem


def test_a_search_without_end_is_no(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 0)
    trial = Trial(world.state)
    assert not trial.fits(node(world), claim(world), ended=[held(world, "one")])
    assert trial.gave_up == 1
    assert "gave up after 0 steps" in trial.problem


def test_the_ledger_is_as_it_was_even_after_a_crash(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "search", crash)
    before = ledger_of(world.state)
    with pytest.raises(KeyboardInterrupt):
        Trial(world.state).fits(node(world), claim(world), ended=[held(world, "one")])
    assert ledger_of(world.state) == before
    assert isinstance(world.state.ledger, Ledger)
