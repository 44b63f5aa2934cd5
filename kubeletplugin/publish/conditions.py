"""What the plugin knows about its node, as the conditions of the node's NodeInventory.

Each part of the plugin reports its findings to one :class:`Findings`; the publisher turns them into conditions. A
condition is True where all is well: ``kubectl get nodeinventories`` then shows what is wrong by what is not True.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from driver.api.rootport_v1alpha1 import Condition
from driver.api.times import time_text

__all__ = ["Concern", "Finding", "Findings", "State", "conditions", "ready"]

_MAX_MESSAGE: Final = 2048  # of the 32,768 characters that metav1.Condition allows: nobody reads more


class Concern(StrEnum):
    """What a finding is about: the condition's type. All but READY are found; READY sums them up.

    NO_INTERNAL_ERRORS is not among what it sums up, and there once the plugin has failed unexpectedly.
    """

    READY = "Ready"
    DISCOVERED = "Discovered"
    REGISTERED = "Registered"
    KUBELET_SUPPORTED = "KubeletSupported"
    RUNTIME_READS_CDI = "RuntimeReadsCdi"
    CDI_DIRECTORY_WRITABLE = "CdiDirectoryWritable"
    STATE_DIRECTORY_WRITABLE = "StateDirectoryWritable"
    NO_RIVAL_PLUGIN = "NoRivalPlugin"
    NETWORK_PLUGIN_READY = "NetworkPluginReady"
    NO_INTERNAL_ERRORS = "NoInternalErrors"


class State(StrEnum):
    """The status of a condition (k8s.io/apimachinery v0.36.3, metav1.ConditionStatus)."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


# Without these nothing can be prepared; the others warn, and may be Unknown for good (containerd 1.7).
_ESSENTIAL: Final = frozenset(
    {Concern.DISCOVERED, Concern.REGISTERED, Concern.CDI_DIRECTORY_WRITABLE, Concern.STATE_DIRECTORY_WRITABLE}
)

# Found only where the plugin was told to see to it, or something has happened.
_OPTIONAL: Final = frozenset({Concern.NETWORK_PLUGIN_READY, Concern.NO_INTERNAL_ERRORS})
# Of no effect on the summary: one claim on which the plugin stumbles must not take the node from the others.
_NOT_SUMMED_UP: Final = frozenset({Concern.NO_INTERNAL_ERRORS})
_ALWAYS_FOUND: Final = frozenset(Concern) - {Concern.READY} - _OPTIONAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found out about one concern.

    Attributes:
        concern: What it is about.
        state: True: all is well.
        reason: One word in CamelCase, for programs.
        message: One or two sentences for a person: what is wrong, and what to do.
    """

    concern: Concern
    state: State
    reason: str
    message: str


class Findings:
    """The latest finding about each concern. Safe to use from any thread.

    Args:
        on_change: Called after a finding has changed, without a lock held.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._latest: dict[Concern, Finding] = {}
        self._settled = False

    def report(self, *findings: Finding) -> None:
        """Take note of findings; each replaces what was known about its concern."""
        with self._lock:
            changed = any(self._latest.get(finding.concern) != finding for finding in findings)
            self._latest.update({finding.concern: finding for finding in findings})
            self._settled = self._settled or self._latest.keys() >= _ALWAYS_FOUND
        if changed:
            self._on_change()

    def settle(self, *defaults: Finding) -> None:
        """Wait no longer for what is not known: a default stands where there is no finding about its concern."""
        with self._lock:
            self._settled = True
            self._latest = {finding.concern: finding for finding in defaults} | self._latest
        self._on_change()

    def latest(self) -> tuple[Finding, ...]:
        """What is known, in the order of :class:`Concern`, the summary first; nothing while the process is starting.

        A restart of a plugin with which all is well would else be seen as not ready for a moment, at the price of two
        writes by every node.
        """
        with self._lock:
            latest, settled = dict(self._latest), self._settled
        found = tuple(latest[concern] for concern in Concern if concern in latest)
        return (ready(found), *found) if settled else ()


def ready(findings: Iterable[Finding]) -> Finding:
    """Whether this node can serve claims, and if not, what is in the way first.

    One False makes it False. It is Unknown as long as discovery, registration or a folder has not been heard of.
    """
    known = {finding.concern: finding for finding in findings}
    for finding in known.values():
        if finding.state is State.FALSE and finding.concern not in _NOT_SUMMED_UP:
            message = f"{finding.concern}: {finding.message}"
            return Finding(concern=Concern.READY, state=State.FALSE, reason=finding.reason, message=message)
    for concern in Concern:
        if concern in _ESSENTIAL and (concern not in known or known[concern].state is not State.TRUE):
            message = f"{concern} is not known yet"
            return Finding(concern=Concern.READY, state=State.UNKNOWN, reason="Starting", message=message)
    return Finding(concern=Concern.READY, state=State.TRUE, reason="Ready", message="claims can be prepared")


def conditions(
    findings: Iterable[Finding], stored: Iterable[Condition], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The findings as conditions (metav1.Condition): a transition's time moves only when the status does.

    What is stored about a concern without a finding stays as it is: it was found by the process before this one. Of
    what this one does not see to, nothing stays.

    Args:
        findings: In the order in which they are to stand.
        stored: The conditions as they are; those of others are not among the result.
        generation: Of the object, whose spec the plugin itself has written.
        now: The time of what changes.
    """
    former = {condition.type: condition for condition in stored}
    moment = time_text(now)
    new = {
        finding.concern: Condition(
            type=finding.concern,
            status=finding.state,
            reason=finding.reason,
            message=finding.message[:_MAX_MESSAGE],
            observed_generation=generation,
            last_transition_time=_since(former.get(finding.concern), finding.state) or moment,
        )
        for finding in findings
    }
    kept = former.keys() - _OPTIONAL if new else former.keys()
    return tuple(new.get(concern) or former[concern] for concern in Concern if concern in new or concern in kept)


def _since(former: Condition | None, state: State) -> str | None:
    return former.last_transition_time if former is not None and former.status == state else None
