"""Whether other pods keep a pod from a node: pod affinity, anti-affinity and topology spread.

Sources: k8s.io/kubernetes v1.37.2, pkg/scheduler/framework/plugins/interpodaffinity/filtering.go and
podtopologyspread/filtering.go. Only what refuses counts here, not what is merely preferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from driver.budget import check
from driver.explain.known.cluster import NodeState, PodState
from driver.explain.known.needs import PodTerm, SpreadRule
from driver.placement.node_rules.usage import Usage

__all__ = ["Others"]

_TERMS_A_CHECK: Final = 64
"""Between two looks at the budget, of terms that other pods have: there are many, and a look takes a microsecond."""

_Place = tuple[str, str]
"""A label of nodes and one of its values: what pods are near each other in."""


class Others:
    """The other pods of the cluster, as they concern one pod at one moment.

    Args:
        pod: The pod.
        usage: The others.
        nodes: All nodes by name.
        admits: Whether the pod's node selector and affinity allow a node, and whether it tolerates the node's taints.

    Raises:
        SpentError: The budget in force is spent: a pod's author writes as many terms as there is room for.
    """

    def __init__(
        self,
        pod: PodState,
        usage: Usage,
        nodes: Mapping[str, NodeState],
        admits: Callable[[NodeState], tuple[bool, bool]],
    ) -> None:
        self._pod = pod
        self._usage = usage
        self._nodes = nodes
        needs = pod.needs
        self._forbidden = self._places_of_others()
        self._apart = [(term, self._places(term)) for term in needs.apart]
        self._near = self._near_places()
        self._spread = [(rule, *self._counts(rule, admits)) for rule in needs.spread]
        self._concerned = bool(self._forbidden or self._apart or needs.near or self._spread)

    def refusal(self, node: NodeState) -> str:
        """Return why other pods keep the pod from a node; empty where they do not."""
        if not self._concerned:
            return ""
        check()
        labels = node.node.metadata.labels
        if any(labels.get(topology) in values for topology, values in self._forbidden.items()):
            return "another pod's anti-affinity"
        for term, places in self._apart:
            if term.topology in labels and places[labels[term.topology]]:
                return "the pod's anti-affinity"
        if not self._is_near(labels):
            return "the pod's affinity to other pods"
        for rule, counts, least in self._spread:
            value = labels.get(rule.topology)
            if value is None or counts[value] + self._counts_itself(rule) - least > rule.most_skew:
                return "the pod's topology spread constraints"
        return ""

    def _places_of_others(self) -> dict[str, set[str]]:
        """Return the places near pods that want none such as this one near them."""
        found: dict[str, set[str]] = {}
        namespace, labels = self._pod.namespace, self._pod.needs.labels
        for number, (term, on) in enumerate(self._usage.apart.items()):
            if not number % _TERMS_A_CHECK:
                check()
            if term.matches(namespace, labels):
                found.setdefault(term.topology, set()).update(value for value, _ in self._valued(term.topology, on))
        return found

    def _places(self, term: PodTerm) -> Counter[str]:
        places: Counter[str] = Counter()
        check()
        for group in self._usage.groups.values():
            if term.matches(group.namespace, group.labels):
                for value, count in self._valued(term.topology, group.nodes):
                    places[value] += count
        return places

    def _near_places(self) -> list[tuple[str, Counter[str]]]:
        """Return, for each term of affinity, the places where pods are that meet all terms."""
        terms = self._pod.needs.near
        found = [(term.topology, Counter[str]()) for term in terms]
        for group in self._usage.groups.values() if terms else ():
            check()
            if all(term.matches(group.namespace, group.labels) for term in terms):
                for topology, places in found:
                    for value, count in self._valued(topology, group.nodes):
                        places[value] += count
        return found

    def _is_near(self, labels: Mapping[str, str]) -> bool:
        if not self._near:
            return True
        if all(topology in labels for topology, _ in self._near):
            if all(places[labels[topology]] for topology, places in self._near):
                return True
            # The first of pods that want to be near each other.
            pod = self._pod
            alone = not any(places for _, places in self._near)
            return alone and all(term.matches(pod.namespace, pod.needs.labels) for term in pod.needs.near)
        return False

    def _counts(self, rule: SpreadRule, admits: Callable[[NodeState], tuple[bool, bool]]) -> tuple[Counter[str], int]:
        """Return how many pods each place has, and the fewest that one has."""
        keys = {other.topology for other in self._pod.needs.spread}
        counts: Counter[str] = Counter()
        counting: dict[str, str] = {}
        check()
        for name, node in self._nodes.items():
            labels = node.node.metadata.labels
            if not all(key in labels for key in keys):
                continue
            by_affinity, by_taints = admits(node) if rule.by_affinity or rule.by_taints else (True, True)
            if (by_affinity or not rule.by_affinity) and (by_taints or not rule.by_taints):
                counting[name] = labels[rule.topology]
                counts[labels[rule.topology]] += 0
        for group in self._usage.groups.values():
            if group.namespace == self._pod.namespace and rule.selector and rule.selector.matches(group.labels):
                for name, count in group.nodes.items():
                    if name in counting:
                        # Not those that are being deleted (countPodsMatchSelector, podtopologyspread/common.go).
                        counts[counting[name]] += count - group.leaving[name]
        least = min(counts.values(), default=0) if len(counts) >= rule.least_places else 0
        return counts, least

    def _counts_itself(self, rule: SpreadRule) -> int:
        return int(rule.selector is not None and rule.selector.matches(self._pod.needs.labels))

    def _valued(self, topology: str, nodes: Mapping[str, int]) -> Iterable[tuple[str, int]]:
        """Yield the values that nodes have for a label, with the number of pods."""
        for name, count in nodes.items():
            node = self._nodes.get(name)
            value = node.node.metadata.labels.get(topology) if node is not None else None
            if value is not None:
                yield value, count
