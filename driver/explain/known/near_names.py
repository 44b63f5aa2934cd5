"""Makes the error for a claim or pod that is not there: which one may be meant."""

from __future__ import annotations

from typing import Final

from driver.errors import InputError
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.spelling import close_matches

__all__ = ["not_there"]

_NAMES: Final = 3
_COMMANDS: Final = {Kind.CLAIM: "claim", Kind.POD: "pod"}
_RESOURCES: Final = {Kind.CLAIM: "resourceclaims", Kind.POD: "pods"}


def not_there(state: ClusterState, kind: Kind, key: str) -> InputError:
    """Return the error for a claim or pod that is not there, with a hint.

    Args:
        state: The cluster.
        kind: A claim or a pod.
        key: ``namespace/name``.
    """
    namespace, _, name = key.partition("/")
    keys = {Kind.CLAIM: state.claim_keys(), Kind.POD: state.pod_keys()}
    other = Kind.POD if kind is Kind.CLAIM else Kind.CLAIM
    known = sorted(keys[kind])
    near = close_matches(key, known, count=_NAMES)
    near += [each for each in known if each.partition("/")[2] == name and each not in near][:_NAMES]
    if key in keys[other]:
        hint = f"there is a {_COMMANDS[other]} of that name: explain {_COMMANDS[other]} {key}"
    elif near:
        hint = f"did you mean {', '.join(near)}?"
    else:
        hint = f"look with: kubectl get {_RESOURCES[kind]} -n {namespace or 'default'}"
    return InputError(f"there is no {_COMMANDS[kind]} {key}", hint=hint)
