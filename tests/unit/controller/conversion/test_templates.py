"""Templates are there before the pod that names them, once for each distinct claim, and never say anything else."""

from __future__ import annotations

from typing import Any

import pytest

from controller.conversion.lifetime import LAST_USED
from controller.conversion.templates import NEW_TEMPLATES, TemplateTakenError
from driver.adapters.kubernetes.errors import UnavailableError
from tests.unit.controller.conversion.stored_api import RefusedError
from tests.unit.controller.conversion.world import LIFETIME, NAME, NAMESPACE, World, template

_KEY = f"{NAMESPACE}/{NAME}"


@pytest.fixture
def world() -> World:
    return World()


def writes(world: World) -> list[str]:
    return [item for item in world.server.requests if item.split()[0] in {"create", "patch", "delete"}]


def test_a_template_is_created_with_the_label_of_what_is_collected(world: World) -> None:
    world.templates.ensure(template(), dry_run=False)
    stored = world.server.templates()[_KEY]
    assert stored["metadata"]["labels"] == {"rootport.dev/converted": "webhook"}
    assert stored["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.rootport.dev"
    assert world.counts.so_far().created == 1


def test_fifty_replicas_cost_one_write(world: World) -> None:
    for _ in range(50):
        world.templates.ensure(template(), dry_run=False)
    assert writes(world) == ["create resourceclaimtemplates"]


def test_another_replica_learns_once_how_the_api_server_stores_it(world: World) -> None:
    world.templates.ensure(template(), dry_run=False)
    other = world.webhook()
    for _ in range(10):
        other.ensure(template(), dry_run=False)
    assert writes(world) == ["create resourceclaimtemplates", "create resourceclaimtemplates dry"]


def test_a_use_is_written_now_and_then(world: World) -> None:
    for _ in range(40):
        world.templates.ensure(template(), dry_run=False)
        world.wait(LIFETIME.refresh_s / 10)
    assert writes(world).count("patch resourceclaimtemplates") == 3
    written = world.server.templates()[_KEY]["metadata"]["annotations"][LAST_USED]
    assert written == "2026-01-01T00:03:00Z"


def test_a_dry_run_writes_nothing(world: World) -> None:
    world.templates.ensure(template(), dry_run=True)
    assert world.server.templates() == {}
    assert writes(world) == []
    world.templates.ensure(template(), dry_run=False)
    before = dict(world.server.templates())
    world.wait(LIFETIME.refresh_s)
    world.templates.ensure(template(), dry_run=True)
    assert world.server.templates() == before


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="without-our-label"),
        pytest.param({"rootport.dev/converted": "webhook"}, id="with-our-label"),
        pytest.param({"rootport.dev/converted": "true"}, id="with-the-label-of-the-command"),
    ],
)
def test_a_template_that_says_anything_else_is_not_used(world: World, labels: dict[str, str], *, dry_run: bool) -> None:
    squatter = template(count=8)
    squatter["metadata"]["labels"] = labels
    world.server.put("resourceclaimtemplates", squatter)
    before = dict(world.server.templates())
    with pytest.raises(TemplateTakenError, match=f"{NAMESPACE}/{NAME} is not what this pod asks for") as refused:
        world.templates.ensure(template(), dry_run=dry_run)
    assert str(refused.value.hint).endswith(f"kubectl --namespace={NAMESPACE} delete resourceclaimtemplate {NAME}")
    assert world.server.templates() == before


def test_a_field_that_is_not_known_here_makes_it_another_template(world: World) -> None:
    squatter = template()
    squatter["spec"]["spec"]["devices"]["newInKubernetes"] = {"all": True}
    world.server.put("resourceclaimtemplates", squatter)
    with pytest.raises(TemplateTakenError):
        world.templates.ensure(template(), dry_run=False)


def test_metadata_for_the_claims_makes_it_another_template(world: World) -> None:
    squatter = template()
    squatter["spec"]["metadata"] = {"labels": {"queue": "theirs"}}
    world.server.put("resourceclaimtemplates", squatter)
    with pytest.raises(TemplateTakenError):
        world.templates.ensure(template(), dry_run=False)


@pytest.mark.parametrize("labels", [{}, {"rootport.dev/converted": "true"}], ids=["no-label", "of-the-command"])
def test_one_that_somebody_else_keeps_is_used_and_left_alone(world: World, labels: dict[str, str]) -> None:
    kept = template()
    kept["metadata"]["labels"] = labels
    world.server.put("resourceclaimtemplates", kept)
    before = dict(world.server.templates())
    world.wait(10 * LIFETIME.unused_s)
    world.templates.ensure(template(), dry_run=False)
    assert world.server.templates() == before


def test_one_that_is_being_deleted_is_not_used(world: World) -> None:
    ending = template()
    ending["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/stay"]}
    world.server.put("resourceclaimtemplates", ending)
    with pytest.raises(TemplateTakenError, match="is being deleted"):
        world.templates.ensure(template(), dry_run=False)


def test_new_requests_of_a_namespace_have_a_rate_and_take_nothing_of_others(world: World) -> None:
    def ask(index: int, namespace: str) -> None:
        world.templates.ensure(template(f"rootport-{index:012x}", namespace=namespace), dry_run=False)

    for index in range(NEW_TEMPLATES.at_once):
        ask(index, "noisy")
    with pytest.raises(UnavailableError, match="too many different requests"):
        ask(NEW_TEMPLATES.at_once, "noisy")
    ask(0, "noisy")  # there already
    ask(0, "quiet")
    world.wait(1)
    for index in range(int(NEW_TEMPLATES.a_second)):
        ask(1000 + index, "noisy")


def test_a_template_that_always_changes_is_given_up(world: World) -> None:
    world.templates.ensure(template(), dry_run=False)
    world.wait(LIFETIME.refresh_s)

    def change(request: Any) -> None:
        if request.verb == "patch":
            stored = world.server.templates()[_KEY]
            stored["metadata"]["resourceVersion"] += "0"

    world.server.before = change
    with pytest.raises(UnavailableError, match="changes all the time"):
        world.templates.ensure(template(), dry_run=False)


def test_what_the_api_server_refuses_is_told(world: World) -> None:
    world.server.refusal = RefusedError(503, "ServiceUnavailable")
    with pytest.raises(UnavailableError):
        world.templates.ensure(template(), dry_run=False)
