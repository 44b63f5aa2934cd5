"""Finds what is pending in a cluster: pods that wait for devices, and claims that no pod waits for."""

from __future__ import annotations

from collections.abc import Iterator

from driver.explain.explanation import ObjectRef
from driver.explain.judge.checks import prepare_problem
from driver.explain.known.cluster import PodState
from driver.explain.known.state import ClusterState

__all__ = ["pending_subjects"]


def pending_subjects(state: ClusterState, *, namespace: str | None = None, kind: str = "") -> tuple[ObjectRef, ...]:
    """Return the objects to explain for everything that is pending: pods first, by namespace and name.

    Args:
        state: The cluster.
        namespace: Of these; None for all.
        kind: ``Pod`` or ``ResourceClaim`` for all of these alone; empty for pods, and claims that none of them names.
    """
    pods = [pod.ref for pod in _of(state, namespace) if _waits(state, pod)]
    claims = [
        claim.ref
        for key in state.pending()
        if (claim := state.claim(key)) is not None and namespace in {None, claim.namespace}
        if kind or not any(_waits(state, pod) for pod in state.pods_of(key))
    ]
    return tuple(ref for ref in (*pods, *claims) if kind in {"", ref.kind})


def _of(state: ClusterState, namespace: str | None) -> Iterator[PodState]:
    for key in sorted(state.pod_keys()):
        pod = state.pod(key)
        if pod is not None and (namespace is None or pod.namespace == namespace):
            yield pod


def _waits(state: ClusterState, pod: PodState) -> bool:
    """Whether a pod waits for a node and has something to do with devices, or its node cannot prepare them."""
    if pod.ended or pod.deleting or not (pod.claims or pod.containers or pod.has_more_resources):
        return False
    return not pod.node or prepare_problem(state, pod) != ""
