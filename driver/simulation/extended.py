"""Makes the claims that kube-scheduler makes of pods' extended resources, once a pod has a node."""

from __future__ import annotations

import uuid
from collections.abc import Container
from dataclasses import replace

from driver.api.resource_v1 import ObjectMeta, ResourceClaim
from driver.explain.known.cluster import EXTENDED_CLAIM, PodClaim
from driver.explain.known.extended import Extended
from driver.objects.extended_resources import CLAIM_ANNOTATION
from driver.simulation.workloads import UID_NAMESPACE, SimulatedPod

__all__ = ["claim_made_for", "with_claim"]


def claim_made_for(pod: SimulatedPod, extended: Extended, taken: Container[str]) -> ResourceClaim | None:
    """Return the claim that is made for a pod, with a name that no other has; None if none is made.

    Args:
        pod: The pod.
        extended: What it asks for.
        taken: ``namespace/name`` of all claims that there are.
    """
    asked = extended.claim.claim if extended.claim is not None else None
    if asked is None:
        return None
    namespace = pod.state.namespace
    name = base = f"{pod.state.name}-extended-resources"
    number = 1
    while f"{namespace}/{name}" in taken:
        number += 1
        name = f"{base}-{number}"
    uid = str(uuid.uuid5(UID_NAMESPACE, f"{namespace}/{name}"))
    metadata = ObjectMeta(namespace=namespace, name=name, uid=uid, annotations={CLAIM_ANNOTATION: "true"})
    return asked.model_copy(update={"metadata": metadata})


def with_claim(pod: SimulatedPod, claim: ResourceClaim) -> SimulatedPod:
    """Return the pod with a status that names the claim made for it."""
    entry = PodClaim(name=EXTENDED_CLAIM, claim=claim.metadata.name)
    return replace(pod, state=replace(pod.state, claims=(*pod.state.claims, entry)))
