"""Findings become conditions: what is wrong comes first, and times move only with the status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from driver.api.rootport_v1alpha1 import Condition
from driver.objects.faults import PREPARE_CONDITIONS
from kubeletplugin.internal_errors import InternalError
from kubeletplugin.publish.conditions import (
    ConditionReport,
    ConditionReports,
    ConditionStatus,
    ConditionType,
    FailingLoops,
    conditions,
    ready,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
FOUND = tuple(type_ for type_ in ConditionType if type_ is not ConditionType.READY)


def report(
    type_: ConditionType, status: ConditionStatus = ConditionStatus.TRUE, message: str = "as it should be"
) -> ConditionReport:
    return ConditionReport(type=type_, status=status, reason="Because", message=message)


def stored(type_: str, status: str, since: str = "2026-01-01T00:00:00Z") -> Condition:
    return Condition.model_validate(
        {"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": since}
    )


def test_a_node_is_ready_when_nothing_is_wrong() -> None:
    assert ready(report(type_) for type_ in FOUND).status is ConditionStatus.TRUE


OF_SOME_CLAIMS = {ConditionType.NO_INTERNAL_ERRORS, ConditionType.MPS_AVAILABLE, ConditionType.HAMI_CORE_AVAILABLE}
OF_NO_CLAIM = {ConditionType.HEALTH_WATCHED, ConditionType.DEVICE_STATUS_KEPT}


@pytest.mark.parametrize("wrong", [type_ for type_ in FOUND if type_ not in OF_SOME_CLAIMS | OF_NO_CLAIM])
def test_one_wrong_thing_makes_a_node_not_ready_and_is_named(wrong: ConditionType) -> None:
    found = ready(
        report(c, ConditionStatus.FALSE if c is wrong else ConditionStatus.TRUE, "the sky fell") for c in FOUND
    )
    assert (found.status, found.reason, found.message) == (ConditionStatus.FALSE, "Because", f"{wrong}: the sky fell")


def test_one_claim_on_which_the_plugin_stumbles_does_not_take_the_node_from_the_others() -> None:
    found = ready(
        report(c, ConditionStatus.FALSE if c is ConditionType.NO_INTERNAL_ERRORS else ConditionStatus.TRUE)
        for c in FOUND
    )
    assert found.status is ConditionStatus.TRUE


def test_loops_that_fail_unexpectedly_are_named_until_they_no_longer_do() -> None:
    reports = ConditionReports(lambda: None)
    reports.settle()
    failing = FailingLoops(reports)
    told = lambda: next(item for item in reports.latest() if item.type is ConditionType.NO_INTERNAL_ERRORS)  # noqa: E731
    failing("reconcile", InternalError("claim a/b: KeyError", hint="report it"))
    failing("claim status", InternalError("claim c/d: TypeError"))
    assert told().status is ConditionStatus.FALSE
    assert all(part in told().message for part in ("'reconcile'", "claim a/b", "report it", "'claim status'", "c/d"))
    failing("reconcile", None)
    assert (told().status, "a/b" in told().message) == (ConditionStatus.FALSE, False)
    failing("claim status", None)
    assert told().status is ConditionStatus.TRUE


def test_what_cannot_be_known_of_the_runtime_does_not_keep_a_node_from_being_ready() -> None:
    unknown = {ConditionType.RUNTIME_READS_CDI, ConditionType.KUBELET_SUPPORTED, ConditionType.NO_RIVAL_PLUGIN}
    found = ready(report(c, ConditionStatus.UNKNOWN if c in unknown else ConditionStatus.TRUE) for c in FOUND)
    assert found.status is ConditionStatus.TRUE


@pytest.mark.parametrize(
    "missing",
    [
        ConditionType.DISCOVERED,
        ConditionType.REGISTERED,
        ConditionType.CDI_DIRECTORY_WRITABLE,
        ConditionType.STATE_DIRECTORY_WRITABLE,
    ],
)
def test_a_node_of_which_an_essential_is_not_known_is_not_called_ready(missing: ConditionType) -> None:
    found = ready(report(type_) for type_ in FOUND if type_ is not missing)
    assert (found.status, found.message) == (ConditionStatus.UNKNOWN, f"{missing} is not known yet")


@pytest.mark.parametrize(
    ("before", "since"),
    [
        pytest.param(stored("Registered", "True"), "2026-01-01T00:00:00Z", id="same-status"),
        pytest.param(stored("Registered", "False"), "2026-01-31T12:00:00Z", id="other-status"),
        pytest.param(stored("Discovered", "True"), "2026-01-31T12:00:00Z", id="new"),
    ],
)
def test_the_transition_time_moves_only_when_the_status_does(before: Condition, since: str) -> None:
    found = conditions([report(ConditionType.REGISTERED)], [before], generation=7, now=NOON)
    (registered,) = (condition for condition in found if condition.type == "Registered")
    assert registered.last_transition_time == since
    assert (registered.observed_generation, registered.status, registered.reason) == (7, "True", "Because")


def test_what_the_former_process_found_stands_until_it_is_found_anew() -> None:
    before = [stored("NoRivalPlugin", "False"), stored("SomebodyElses", "True")]
    found = conditions([report(ConditionType.REGISTERED)], before, generation=1, now=NOON)
    assert [condition.type for condition in found] == ["Registered", "NoRivalPlugin"]
    assert found[1] == before[0]


def test_what_this_process_does_not_see_to_is_told_no_more() -> None:
    before = [stored("NetworkPluginReady", "False"), stored("NoInternalErrors", "False")]
    assert conditions([report(ConditionType.REGISTERED)], before, generation=1, now=NOON)[-1].type == "Registered"
    kept = [item.type for item in conditions([], before, generation=1, now=NOON)]
    assert kept == ["NetworkPluginReady", "NoInternalErrors"]


def test_nobody_waits_for_what_is_not_always_seen_to() -> None:
    reports = ConditionReports(lambda: None)
    optional = {ConditionType.NETWORK_PLUGIN_READY, ConditionType.NO_INTERNAL_ERRORS}
    reports.report(*(report(type_) for type_ in FOUND if type_ not in optional))
    assert [item.type for item in reports.latest()] == [c for c in ConditionType if c not in optional]


def test_nothing_is_told_before_everything_was_looked_at() -> None:
    reports = ConditionReports(lambda: None)
    reports.report(*(report(type_) for type_ in FOUND[1:]))
    assert reports.latest() == ()
    reports.report(report(FOUND[0]))
    assert [item.type for item in reports.latest()] == list(ConditionType)


def test_after_a_while_what_is_known_is_told_and_defaults_stand_for_the_rest() -> None:
    reports = ConditionReports(lambda: None)
    reports.report(report(ConditionType.DISCOVERED, message="two GPUs"))
    reports.settle(
        report(ConditionType.REGISTERED, ConditionStatus.UNKNOWN),
        report(ConditionType.DISCOVERED, ConditionStatus.UNKNOWN),
    )
    summary, discovered, registered = reports.latest()
    assert summary.status is ConditionStatus.UNKNOWN
    assert (discovered.message, registered.status) == ("two GPUs", ConditionStatus.UNKNOWN)


def test_only_a_change_is_told_on() -> None:
    changes: list[None] = []
    reports = ConditionReports(lambda: changes.append(None))
    for message in ("one", "one", "two"):
        reports.report(report(ConditionType.DISCOVERED, message=message))
    assert len(changes) == 2


def test_the_conditions_that_keep_claims_from_being_prepared_are_the_plugins() -> None:
    assert set(PREPARE_CONDITIONS) <= {str(type_) for type_ in ConditionType}
