"""What a pod takes of its node beside devices, and which other pods it wants near it or far from it.

Read from the API's JSON by :mod:`driver.explain.known.needs_reading`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["NO_NEEDS", "HostPort", "LabelRequirement", "LabelSelector", "PodNeeds", "PodTerm", "SpreadRule"]


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """A requirement of a label selector (``matchExpressions`` of meta/v1).

    Attributes:
        key: The label.
        operator: ``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``.
        values: For the first two.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether something with these labels meets it."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A label selector that is there: without requirements it selects everything."""

    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it selects something with these labels."""
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A required term of pod affinity or anti-affinity.

    Attributes:
        selector: Selects pods; None selects none.
        namespaces: Of the pods; None for all namespaces.
        topology: The node label whose values are the places in which pods are near each other.
    """

    selector: LabelSelector | None
    namespaces: frozenset[str] | None
    topology: str

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it is about a pod of that namespace with these labels."""
        if self.selector is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """A constraint of ``topologySpreadConstraints`` that keeps a pod from nodes (``DoNotSchedule``).

    Attributes:
        topology: The node label whose values are the places over which pods are spread.
        selector: Selects the pods that are counted, of the pod's namespace; None selects none.
        most_skew: By how many pods a place may have more than the one that has the fewest.
        least_places: With fewer places, the fewest is taken for 0.
        by_affinity: Whether only nodes count that the pod's node selector and affinity allow.
        by_taints: Whether only nodes count whose taints the pod tolerates.
    """

    topology: str
    selector: LabelSelector | None
    most_skew: int
    least_places: int = 1
    by_affinity: bool = True
    by_taints: bool = False


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a container takes.

    Attributes:
        address: The node's address; ``0.0.0.0`` for all.
        protocol: ``TCP``, ``UDP`` or ``SCTP``.
        port: The number.
    """

    address: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Whether both cannot be taken at once (HostPortInfo in k8s.io/kube-scheduler v0.37.2, framework/types.go)."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or "0.0.0.0" in {self.address, other.address}  # noqa: S104 - compared


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What a pod takes of its node beside devices, and what it wants of other pods.

    Attributes:
        requests: How much of each resource: CPU in thousandths of a core, all else in whole units.
        ports: Of the node.
        labels: Its labels, by which other pods want it near or far.
        near: Terms of pod affinity, all of which must be met.
        apart: Terms of pod anti-affinity, none of which may be.
        spread: How it is to be spread.
        not_evaluated: What else it asks for that may keep it from nodes, so that nothing can be said about it.
        unchecked: What may keep it from nodes, and mostly does not: kube-scheduler has the last word.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    not_evaluated: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


NO_NEEDS: Final = PodNeeds()
