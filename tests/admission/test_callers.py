"""Who asks, answered by a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster.control_plane import ControlPlane

from controller.serving.callers import Callers, NotAuthenticatedError
from controller.serving.exchange import Request
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import UnavailableError

pytestmark = pytest.mark.needs_go


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def callers(kubeconfig: Path, clock: Clock) -> Callers:
    return Callers(KubernetesApi.connect(kubeconfig=kubeconfig), clock=clock)


def sent(authorization: str) -> Request:
    return Request(method="GET", path="/", headers={"authorization": authorization})


def test_a_token_is_known_by_the_api_server(callers: Callers) -> None:
    caller = callers.caller(sent("Bearer alices-token"))
    assert caller.username == "alice"
    assert set(caller.groups) == {"team-a", "system:authenticated"}


@pytest.mark.parametrize(
    "authorization",
    ["", "Basic YTpi", "Bearer", "Bearer nobodys", "Bearer " + "x" * 20_000, "Bearer \udcff"],
    ids=range(6),
)
def test_without_a_token_that_is_known_nobody_is_there(callers: Callers, authorization: str) -> None:
    with pytest.raises(NotAuthenticatedError):
        callers.caller(sent(authorization))


def test_rights_are_those_of_rbac(callers: Callers, plane: ControlPlane, clock: Clock) -> None:
    alice = callers.caller(sent("bearer alices-token"))

    def may(namespace: str) -> bool:
        return callers.may(alice, "get", "resourceclaims", group="resource.k8s.io", namespace=namespace)

    assert not may("default")
    name = ("alice", "--namespace=default")
    plane.kubectl("create", "role", *name, "--verb=get", "--resource=resourceclaims.resource.k8s.io")
    plane.kubectl("create", "rolebinding", *name, "--role=alice", "--group=team-a")
    assert not may("default")  # kept for some seconds
    clock.now = 11

    # The authorizer learns of a new binding by a watch.
    for second in range(12, 1000, 11):
        clock.now = second
        if may("default"):
            break
    assert may("default")
    assert not may("kube-system")
    assert not may("")


def test_made_up_tokens_cannot_make_us_ask_without_end(callers: Callers, clock: Clock) -> None:
    def ask(index: int) -> None:
        with pytest.raises(NotAuthenticatedError):
            callers.caller(sent(f"Bearer made-up-{index}"))

    for index in range(50):
        ask(index)
    with pytest.raises(UnavailableError):
        callers.caller(sent("Bearer made-up-again"))
    ask(3)  # known already
    clock.now += 1
    ask(51)
