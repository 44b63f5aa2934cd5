"""Who asks, answered by a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.serving.buckets import MAX_BUCKETS, Buckets, Rate
from controller.serving.callers import Caller, Callers, NotAuthenticatedError
from driver.adapters.http.exchange import Request
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import UnavailableError
from tests.support.cluster.control_plane import ControlPlane

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


def sent(authorization: str, source: str = "") -> Request:
    return Request(method="GET", path="/", headers={"authorization": authorization}, client=source)


def test_a_token_is_known_by_the_api_server(callers: Callers) -> None:
    caller = callers.caller(sent("Bearer alices-token"))
    assert caller.username == "alice"
    assert set(caller.groups) == {"team-a", "system:authenticated"}


@pytest.mark.parametrize(
    "authorization",
    ["", "Basic YTpi", "Bearer", "Bearer nobodys", "Bearer " + "x" * 20_000, "Bearer \udcff"],
    ids=range(6),
)
def test_without_a_known_token_there_is_no_caller(callers: Callers, authorization: str) -> None:
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


def make_up(callers: Callers, number: int, source: str) -> list[type[Exception]]:
    """What somebody is told who makes up so many tokens."""
    told: list[type[Exception]] = []
    for index in range(number):
        with pytest.raises((NotAuthenticatedError, UnavailableError)) as failure:
            callers.caller(sent(f"Bearer made-up-{source}-{index}", source))
        told.append(failure.type)
    return told


def test_invented_tokens_take_nothing_from_known_callers(callers: Callers, clock: Clock) -> None:
    assert callers.caller(sent("Bearer alices-token", "192.0.2.1")).username == "alice"
    clock.now += 11  # what was known of her is to be asked again
    # From her own address, as behind one proxy, and from so many others that all together are at their limit.
    for source in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        assert UnavailableError in make_up(callers, 60, source)
    assert callers.caller(sent("Bearer alices-token", "192.0.2.1")).username == "alice"


def test_made_up_tokens_take_nothing_from_new_users_at_other_addresses(callers: Callers, clock: Clock) -> None:
    for _ in range(3):
        assert UnavailableError in make_up(callers, 100, "192.0.2.2")
        clock.now += 1
    assert callers.caller(sent("Bearer alices-token", "192.0.2.1")).username == "alice"


def test_a_source_may_ask_again_after_a_while(callers: Callers, clock: Clock) -> None:
    make_up(callers, 60, "192.0.2.2")
    clock.now += 1
    told = make_up(callers, 80, "192.0.2.2")
    assert told.count(NotAuthenticatedError) == 50 + 10  # the first are known, and one second is worth ten


def test_what_one_user_asks_takes_nothing_from_others(callers: Callers) -> None:
    alice, bob = (callers.caller(sent(f"Bearer {name}s-token")) for name in ("alice", "bob"))

    def may(caller: Caller, index: int) -> bool:
        return callers.may(caller, "get", "resourceclaims", group="resource.k8s.io", namespace="none", name=str(index))

    for index in range(50):
        may(alice, index)
    with pytest.raises(UnavailableError):
        may(alice, 50)
    assert not may(bob, 0)


def test_the_right_to_a_path_is_that_of_rbac(callers: Callers, plane: ControlPlane, clock: Clock) -> None:
    bob = callers.caller(sent("Bearer bobs-token"))
    assert not callers.may_get(bob, "/metrics")
    name = "rootport-metrics-reader"
    plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=bob")
    for second in range(11, 1000, 11):
        clock.now = second
        if callers.may_get(bob, "/metrics"):
            break
    assert callers.may_get(bob, "/metrics")
    assert not callers.may_get(bob, "/metrics/x")
    assert not callers.may_get(bob, "/")


def test_of_sources_a_bounded_number_is_remembered() -> None:
    buckets = Buckets(Rate(a_second=1, at_once=2), Clock())
    assert [buckets.take("a") for _ in range(3)] == [True, True, False]
    for index in range(3 * MAX_BUCKETS):
        buckets.take(index)
    assert len(buckets) == MAX_BUCKETS
