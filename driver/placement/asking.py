"""What a pod asks for: its claims, and what of them is to be allocated together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from driver.allocator.demands import ClaimDemand, Demand, read_claim
from driver.allocator.errors import AllocationError
from driver.allocator.features import Features
from driver.api.resource_v1 import NodeSelector, ResourceClaim
from driver.explain.judge.managed_claims import asks_rootport, claim_refusal, parts_of, tolerating_request
from driver.explain.known.cluster import EXTENDED_CLAIM, ClaimState, PodState
from driver.explain.known.extended import amounts_text, extended_of
from driver.explain.known.state import ClusterState
from driver.model.managed_nodes import GATE, TAINT
from driver.placement.shapes import PodShape
from driver.placement.sizing import MANAGED_TOLERATION
from driver.wording import listed

__all__ = [
    "Asked",
    "NotPlacedError",
    "ask",
    "ask_without_claims",
    "only_node",
    "rungs",
]


class NotPlacedError(Exception):
    """Nothing is to be decided about the pod; the message says why, as :attr:`Decision.why` has it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be allocated for a pod.

    Attributes:
        claims: The claims without an allocation, in the pod's order.
        specs: The same as objects.
        demands: What each asks for.
        is_ours: Of each, whether it asks for Rootport's devices. Others are left to kube-scheduler, and count here
            only in that the pod's node has to have devices for them.
        allocated: The claims that have an allocation: they decide where the pod can be.
        nodes: The only nodes on which the pod can be, for what is allocated; None for all.
    """

    claims: tuple[ClaimState, ...]
    specs: tuple[ResourceClaim, ...]
    demands: tuple[ClaimDemand, ...]
    is_ours: tuple[bool, ...]
    allocated: tuple[ClaimState, ...]
    nodes: frozenset[str] | None

    @property
    def ours(self) -> tuple[ClaimState, ...]:
        """The claims that are to be allocated here."""
        return tuple(claim for claim, is_ours in zip(self.claims, self.is_ours, strict=True) if is_ours)


def ask(state: ClusterState, pod: PodState, features: Features, *, tolerates: bool) -> Asked:
    """Return what is to be allocated for a pod.

    Args:
        state: The cluster.
        pod: The pod.
        features: The feature gates.
        tolerates: Whether each request is taken to tolerate the taint of managed nodes' devices.

    Raises:
        NotPlacedError: Nothing is, or nothing can be.
    """
    _check(pod)
    found = list(_claims(state, pod))
    _check_extended(state, pod)
    allocated = tuple(claim for claim in found if claim.allocated)
    waiting = tuple(claim for claim in found if not claim.allocated)
    if not waiting:
        raise NotPlacedError("its claims are allocated" if found else "it has no claims")
    specs = tuple(claim.claim for claim in waiting if claim.claim is not None)
    try:
        demands = tuple(read_claim(spec, state.classes, features) for spec in specs)
    except AllocationError as error:
        raise NotPlacedError(error.message) from error
    for claim, demand in zip(waiting, demands, strict=True):
        if why := claim_refusal(claim.key, demand, on_managed=tolerates):
            raise NotPlacedError(f"not evaluated: {why}")
    if tolerates:
        demands = tuple(map(_tolerant, waiting, demands))
    is_ours = tuple(any(map(asks_rootport, parts_of(demand))) for demand in demands)
    if not any(is_ours):
        raise NotPlacedError(
            f"its claims ({_keys(waiting)}) need devices of other drivers: kube-scheduler allocates them"
        )
    bound = [name for claim in allocated if (name := only_node(claim.available_on))]
    return Asked(waiting, specs, demands, is_ours, allocated, frozenset(bound[:1]) if bound else None)


def ask_without_claims(state: ClusterState, pod: PodState) -> PodShape:
    """Return how large a pod is that has no claims.

    Raises:
        NotPlacedError: Something about it is not evaluated.
    """
    _check(pod)
    _check_extended(state, pod)
    requests = pod.needs.requests
    return PodShape(cpu_milli=requests.get("cpu", 0), memory=requests.get("memory", 0), gpus=0, gpu_milli=0)


def _check(pod: PodState) -> None:
    """Refuse a pod that waits for something else, or of which not all is known.

    Raises:
        NotPlacedError: It does.
    """
    if not pod.is_waiting:
        raise NotPlacedError("it waits for no node")
    others = [gate for gate in pod.gates if gate != GATE]
    if others:
        raise NotPlacedError(f"it has scheduling gates of others: {listed(others)}")
    if pod.has_more_claims:
        raise NotPlacedError(f"not evaluated: it names more than {len(pod.claims)} claims")
    if pod.has_more_resources:
        raise NotPlacedError("not evaluated: its containers name more resources than are looked at")
    if pod.needs.not_evaluated:
        raise NotPlacedError(f"not evaluated: {listed(pod.needs.not_evaluated)}")


def _claims(state: ClusterState, pod: PodState) -> Iterator[ClaimState]:
    for entry in pod.claims:
        if entry.needs_none or entry.name == EXTENDED_CLAIM:
            continue
        if not entry.claim:
            raise NotPlacedError(f"the claim of its template {entry.template} is not made yet")
        key = f"{pod.namespace}/{entry.claim}"
        claim = state.claim(key)
        if claim is None:
            raise NotPlacedError(f"claim {key} is not there")
        if claim.unreadable:
            raise NotPlacedError(f"claim {key} cannot be read: {claim.unreadable}")
        if claim.deleting:
            raise NotPlacedError(f"claim {key} is being deleted")
        if claim.reserved_full and not claim.is_reserved_for(pod):
            raise NotPlacedError(f"claim {key} is reserved for as many pods as may share it")
        if entry.template and claim.owner_pod not in {None, (pod.name, pod.uid)}:
            raise NotPlacedError(f"claim {key} was not made for it")
        yield claim


def _check_extended(state: ClusterState, pod: PodState) -> None:
    """Refuse a pod for whose extended resources kube-scheduler makes a claim: none of it exists before it binds.

    Raises:
        NotPlacedError: It is such a pod.
    """
    extended = extended_of(pod, state.classes, is_made=False)
    if extended.classes:
        asked = amounts_text({name: extended.amounts[name] for name in extended.classes})
        raise NotPlacedError(f"not evaluated: kube-scheduler makes a claim of {asked}, and allocates it itself")


def _keys(claims: Iterable[ClaimState]) -> str:
    return listed([claim.key for claim in claims])


def only_node(selector: NodeSelector | None) -> str:
    """Return the node that a selector names and nothing else; empty where it is of another form."""
    if selector is None or len(selector.node_selector_terms) != 1:
        return ""
    term = selector.node_selector_terms[0]
    if term.match_expressions or len(term.match_fields) != 1:
        return ""
    field = term.match_fields[0]
    return field.values[0] if (field.key, field.operator, len(field.values)) == ("metadata.name", "In", 1) else ""


def _tolerant(claim: ClaimState, demand: ClaimDemand) -> ClaimDemand:
    """Return what is asked for, as if each request tolerated the taint of managed nodes' devices.

    Raises:
        NotPlacedError: One does so by itself, so that kube-scheduler allocates the claim: it would have two writers.
            Admin access takes no device from anybody, and may tolerate anything.
    """
    if tolerating_request(demand) is not None:
        raise NotPlacedError(f"claim {claim.key} tolerates the taint {TAINT} by itself: kube-scheduler allocates it")
    requests = tuple(
        replace(request, alternatives=tuple(map(_tolerating, request.alternatives))) for request in demand.requests
    )
    return replace(demand, requests=requests)


def _tolerating(demand: Demand) -> Demand:
    if MANAGED_TOLERATION in demand.tolerations:
        return demand
    # Also beside one that tolerates everything: by its key the result is known for one of placement.
    return replace(demand, tolerations=(*demand.tolerations, MANAGED_TOLERATION))


def rungs(demands: Sequence[ClaimDemand]) -> Iterator[tuple[ClaimDemand, ...]]:
    """Yield the demands with more and more of the alternatives of their requests: first with the best ones alone."""
    most = max((len(request.alternatives) for claim in demands for request in claim.requests), default=1)
    for count in range(1, most + 1):
        if count == most:
            yield tuple(demands)
        else:
            yield tuple(
                replace(
                    claim,
                    requests=tuple(
                        replace(request, alternatives=request.alternatives[:count]) for request in claim.requests
                    ),
                )
                for claim in demands
            )
