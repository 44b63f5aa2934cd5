"""Findings become conditions: what is wrong comes first, and times move only with the status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from driver.api.rootport_v1alpha1 import Condition
from driver.objects.health import PREPARE_CONDITIONS
from kubeletplugin.internal_errors import InternalError
from kubeletplugin.publish.conditions import Concern, Finding, Findings, State, conditions, ready
from kubeletplugin.publish.failing_loops import FailingLoops

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
FOUND = tuple(concern for concern in Concern if concern is not Concern.READY)


def finding(concern: Concern, state: State = State.TRUE, message: str = "as it should be") -> Finding:
    return Finding(concern=concern, state=state, reason="Because", message=message)


def stored(concern: str, status: str, since: str = "2026-01-01T00:00:00Z") -> Condition:
    return Condition.model_validate(
        {"type": concern, "status": status, "reason": "R", "message": "m", "lastTransitionTime": since}
    )


def test_a_node_is_ready_when_nothing_is_wrong() -> None:
    assert ready(finding(concern) for concern in FOUND).state is State.TRUE


@pytest.mark.parametrize("wrong", [concern for concern in FOUND if concern is not Concern.NO_INTERNAL_ERRORS])
def test_one_wrong_thing_makes_a_node_not_ready_and_is_named(wrong: Concern) -> None:
    found = ready(finding(c, State.FALSE if c is wrong else State.TRUE, "the sky fell") for c in FOUND)
    assert (found.state, found.reason, found.message) == (State.FALSE, "Because", f"{wrong}: the sky fell")


def test_one_claim_on_which_the_plugin_stumbles_does_not_take_the_node_from_the_others() -> None:
    found = ready(finding(c, State.FALSE if c is Concern.NO_INTERNAL_ERRORS else State.TRUE) for c in FOUND)
    assert found.state is State.TRUE


def test_loops_that_fail_unexpectedly_are_named_until_they_no_longer_do() -> None:
    findings = Findings(lambda: None)
    findings.settle()
    failing = FailingLoops(findings)
    told = lambda: next(item for item in findings.latest() if item.concern is Concern.NO_INTERNAL_ERRORS)  # noqa: E731
    failing("reconcile", InternalError("claim a/b: KeyError", hint="report it"))
    failing("claim status", InternalError("claim c/d: TypeError"))
    assert told().state is State.FALSE
    assert all(part in told().message for part in ("'reconcile'", "claim a/b", "report it", "'claim status'", "c/d"))
    failing("reconcile", None)
    assert (told().state, "a/b" in told().message) == (State.FALSE, False)
    failing("claim status", None)
    assert told().state is State.TRUE


def test_what_cannot_be_known_of_the_runtime_does_not_keep_a_node_from_being_ready() -> None:
    unknown = {Concern.RUNTIME_READS_CDI, Concern.KUBELET_SUPPORTED, Concern.NO_RIVAL_PLUGIN}
    found = ready(finding(c, State.UNKNOWN if c in unknown else State.TRUE) for c in FOUND)
    assert found.state is State.TRUE


@pytest.mark.parametrize(
    "missing",
    [Concern.DISCOVERED, Concern.REGISTERED, Concern.CDI_DIRECTORY_WRITABLE, Concern.STATE_DIRECTORY_WRITABLE],
)
def test_a_node_of_which_an_essential_is_not_known_is_not_called_ready(missing: Concern) -> None:
    found = ready(finding(concern) for concern in FOUND if concern is not missing)
    assert (found.state, found.message) == (State.UNKNOWN, f"{missing} is not known yet")


@pytest.mark.parametrize(
    ("before", "since"),
    [
        pytest.param(stored("Registered", "True"), "2026-01-01T00:00:00Z", id="same-status"),
        pytest.param(stored("Registered", "False"), "2026-01-31T12:00:00Z", id="other-status"),
        pytest.param(stored("Discovered", "True"), "2026-01-31T12:00:00Z", id="new"),
    ],
)
def test_the_transition_time_moves_only_when_the_status_does(before: Condition, since: str) -> None:
    found = conditions([finding(Concern.REGISTERED)], [before], generation=7, now=NOON)
    (registered,) = (condition for condition in found if condition.type == "Registered")
    assert registered.last_transition_time == since
    assert (registered.observed_generation, registered.status, registered.reason) == (7, "True", "Because")


def test_what_the_former_process_found_stands_until_it_is_found_anew() -> None:
    before = [stored("NoRivalPlugin", "False"), stored("SomebodyElses", "True")]
    found = conditions([finding(Concern.REGISTERED)], before, generation=1, now=NOON)
    assert [condition.type for condition in found] == ["Registered", "NoRivalPlugin"]
    assert found[1] == before[0]


def test_what_this_process_does_not_see_to_is_told_no_more() -> None:
    before = [stored("NetworkPluginReady", "False"), stored("NoInternalErrors", "False")]
    assert conditions([finding(Concern.REGISTERED)], before, generation=1, now=NOON)[-1].type == "Registered"
    kept = [item.type for item in conditions([], before, generation=1, now=NOON)]
    assert kept == ["NetworkPluginReady", "NoInternalErrors"]


def test_nobody_waits_for_what_is_not_always_seen_to() -> None:
    findings = Findings(lambda: None)
    optional = {Concern.NETWORK_PLUGIN_READY, Concern.NO_INTERNAL_ERRORS}
    findings.report(*(finding(concern) for concern in FOUND if concern not in optional))
    assert [item.concern for item in findings.latest()] == [c for c in Concern if c not in optional]


def test_nothing_is_told_before_everything_was_looked_at() -> None:
    findings = Findings(lambda: None)
    findings.report(*(finding(concern) for concern in FOUND[1:]))
    assert findings.latest() == ()
    findings.report(finding(FOUND[0]))
    assert [item.concern for item in findings.latest()] == list(Concern)


def test_after_a_while_what_is_known_is_told_and_defaults_stand_for_the_rest() -> None:
    findings = Findings(lambda: None)
    findings.report(finding(Concern.DISCOVERED, message="two GPUs"))
    findings.settle(finding(Concern.REGISTERED, State.UNKNOWN), finding(Concern.DISCOVERED, State.UNKNOWN))
    summary, discovered, registered = findings.latest()
    assert summary.state is State.UNKNOWN
    assert (discovered.message, registered.state) == ("two GPUs", State.UNKNOWN)


def test_only_a_change_is_told_on() -> None:
    changes: list[None] = []
    findings = Findings(lambda: changes.append(None))
    for message in ("one", "one", "two"):
        findings.report(finding(Concern.DISCOVERED, message=message))
    assert len(changes) == 2


def test_the_conditions_that_keep_claims_from_being_prepared_are_the_plugins() -> None:
    assert set(PREPARE_CONDITIONS) <= {str(concern) for concern in Concern}
