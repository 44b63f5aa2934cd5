"""Whether the kubelet asks for the devices' health, as the node's condition says it."""

from __future__ import annotations

from kubeletplugin.publish.conditions import ConditionReport, ConditionReports, ConditionType
from kubeletplugin.publish.health_watched import HealthWatched
from tests.support.waiting import eventually

SOON_S = 0.05


class Told:
    """The condition, as it changes."""

    def __init__(self, patience_s: float = SOON_S) -> None:
        self.reports = ConditionReports(lambda: None)
        self.reports.settle()
        self.watched = HealthWatched(self.reports, patience_s=patience_s)

    @property
    def condition(self) -> ConditionReport | None:
        return next((item for item in self.reports.latest() if item.type is ConditionType.HEALTH_WATCHED), None)

    @property
    def status(self) -> str | None:
        return self.condition.status.value if self.condition else None


def test_a_kubelet_that_asks_is_named_with_the_service_that_it_knows() -> None:
    told = Told()
    told.watched.registered()
    told.watched.opened("v1alpha1.DRAResourceHealth")
    assert told.condition is not None
    assert "v1alpha1.DRAResourceHealth" in told.condition.message
    assert told.status == "True"


def test_a_kubelet_that_does_not_ask_is_told_with_the_gate_and_what_follows_and_the_node_stays_ready() -> None:
    told = Told()
    told.watched.registered()
    eventually("the condition", lambda: told.status == "False")
    assert told.condition is not None
    assert "ResourceHealthStatus is off" in told.condition.message
    assert "allocatedResourcesStatus" in told.condition.message
    assert "HealthWatched" not in told.reports.latest()[0].message


def test_a_stream_that_ends_may_come_back_within_the_patience() -> None:
    told = Told(patience_s=0.3)
    told.watched.opened("v1.DRAResourceHealth")
    told.watched.closed("v1.DRAResourceHealth")
    assert told.status == "True"
    told.watched.opened("v1.DRAResourceHealth")
    told.watched.registered()
    told.watched.closed("v1.DRAResourceHealth")
    assert told.status == "True"
    eventually("it is given up", lambda: told.status == "Unknown")


def test_of_a_kubelet_that_is_away_nobody_says_that_its_feature_gate_is_off() -> None:
    told = Told()
    told.watched.registered()
    told.watched.opened("v1.DRAResourceHealth")
    told.watched.closed("v1.DRAResourceHealth")
    eventually("it is away", lambda: told.status == "Unknown")
    assert told.condition is not None
    assert "ResourceHealthStatus" not in told.condition.message
    told.watched.registered()
    eventually("it is back, and asks no more", lambda: told.status == "False")


def test_one_of_two_streams_is_enough() -> None:
    told = Told()
    told.watched.opened("v1.DRAResourceHealth")
    told.watched.opened("v1.DRAResourceHealth")
    told.watched.closed("v1.DRAResourceHealth")
    assert told.watched._timer is None
    assert told.status == "True"


def test_nothing_is_said_once_the_plugin_ends() -> None:
    told = Told()
    told.watched.opened("v1.DRAResourceHealth")
    told.watched.closed("v1.DRAResourceHealth")
    told.watched.stop()
    assert told.watched._timer is None
    assert told.status == "True"
