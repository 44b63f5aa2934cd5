"""Templates that no pod names go, and no others."""

from __future__ import annotations

import pytest

from controller.conversion.lifetime import LAST_USED
from tests.unit.controller.conversion.world import LIFETIME, NAME, NAMESPACE, World, pod, template

_OTHER = "rootport-ba9876543210"


@pytest.fixture
def world() -> World:
    return World()


def test_one_that_no_pod_names_goes_after_a_while(world: World) -> None:
    world.templates.ensure(template(), dry_run=False)
    world.wait(LIFETIME.unused_s - 1)
    assert world.collect() == 0
    world.wait(1)
    assert world.collect() == 1
    assert world.server.templates() == {}
    assert world.counts.so_far().collected == 1


@pytest.mark.parametrize(("phase", "goes"), [("Pending", 0), ("Running", 0), ("Unknown", 0), ("Succeeded", 1)])
def test_one_that_a_living_pod_names_stays(world: World, phase: str, goes: int) -> None:
    world.templates.ensure(template(), dry_run=False)
    world.server.put("pods", pod("a", _OTHER, NAME, phase=phase))
    world.wait(100 * LIFETIME.unused_s)
    assert world.collect() == goes


def test_a_pod_of_another_namespace_keeps_none(world: World) -> None:
    world.templates.ensure(template(), dry_run=False)
    world.server.put("pods", pod("a", NAME, namespace="team-b"))
    world.wait(LIFETIME.unused_s)
    assert world.collect() == 1


def test_pods_are_read_only_where_a_template_is_old(world: World) -> None:
    world.templates.ensure(template(), dry_run=False)
    world.wait(LIFETIME.unused_s - 1)
    world.server.requests.clear()
    world.collect()
    assert world.server.requests == ["list resourceclaimtemplates"]


@pytest.mark.parametrize("value", ["true", "", None])
def test_what_the_webhook_did_not_create_stays(world: World, value: str | None) -> None:
    theirs = template()
    theirs["metadata"]["labels"] = {} if value is None else {"rootport.dev/converted": value}
    world.server.put("resourceclaimtemplates", theirs)
    world.wait(100 * LIFETIME.unused_s)
    assert world.collect() == 0
    assert list(world.server.templates()) == [f"{NAMESPACE}/{NAME}"]


def test_one_that_somebody_took_over_by_applying_it_stays(world: World) -> None:
    world.templates.ensure(template(), dry_run=False)
    world.server.put("resourceclaimtemplates", template())  # as rootport convert writes it
    world.wait(100 * LIFETIME.unused_s)
    assert world.collect() == 0


@pytest.mark.parametrize(
    "written",
    ["2999-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "tomorrow", "", "2026-01-01"],
)
def test_a_made_up_last_use_keeps_nothing_for_ever(world: World, written: str) -> None:
    world.templates.ensure(template(), dry_run=False)
    world.server.templates()[f"{NAMESPACE}/{NAME}"]["metadata"]["annotations"] = {LAST_USED: written}
    world.wait(LIFETIME.unused_s + LIFETIME.skew_s)
    assert world.collect() == 1


def test_a_pod_that_cannot_be_read_keeps_the_namespaces_templates(world: World) -> None:
    world.templates.ensure(template(), dry_run=False)
    world.templates.ensure(template(namespace="team-b"), dry_run=False)
    world.server.put("pods", pod("odd") | {"spec": "none"})
    world.wait(LIFETIME.unused_s)
    assert world.collect() == 1
    assert list(world.server.templates()) == [f"{NAMESPACE}/{NAME}"]


def test_one_that_is_being_deleted_is_not_deleted_again(world: World) -> None:
    world.templates.ensure(template(), dry_run=False)
    world.server.templates()[f"{NAMESPACE}/{NAME}"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.wait(LIFETIME.unused_s)
    assert world.collect() == 0
