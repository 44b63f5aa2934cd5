"""Claims with a change made, and the change as a JSON Patch (RFC 6902).

``add`` is used where a member may or may not be there (it replaces it then): the patch fits the claim in the cluster
and the manifest from which it was made, which lacks the API server's defaults. Nothing is ever inserted into a list,
and what is removed from lists is removed last and from their ends, so that every path means the place in the claim
as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from driver.api.resource_v1 import ResourceClaim
from driver.explain.explanation import ClaimPatch
from driver.explain.known.cluster import ClaimState
from driver.explain.propose.nearest.options import Change, Operation

__all__ = ["DEVICES", "claim_patches", "demand_path", "drop", "edited", "pointer", "put"]

DEVICES: Final = "/spec/devices"

_Json = dict[str, Any] | list[Any]


def pointer(*tokens: str | int) -> str:
    """Return a JSON pointer (RFC 6901) into a claim, from ``/spec/devices`` on."""
    escaped = (str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
    return "/".join((DEVICES, *escaped))


def demand_path(claim: ResourceClaim, request: int, alternative: int) -> tuple[str | int, ...]:
    """Return where a request, or one of its alternatives, stands in a claim."""
    if claim.spec.devices.requests[request].first_available:
        return ("requests", request, "firstAvailable", alternative)
    return ("requests", request, "exactly")


def put(value: object, *tokens: str | int) -> Operation:
    """Set a member, whether it is there or not."""
    return {"op": "add", "path": pointer(*tokens), "value": value}


def drop(*tokens: str | int) -> Operation:
    """Take a member or an item of a list out."""
    return {"op": "remove", "path": pointer(*tokens)}


def claim_patches(claims: Sequence[ClaimState], changes: Iterable[Change]) -> tuple[ClaimPatch, ...]:
    """Return the patches of the claims that change, in the claims' order."""
    return tuple(
        ClaimPatch(
            claim=claim.ref,
            operations=operations,
        )
        for place, claim in enumerate(claims)
        if (operations := _ordered(place, changes))
    )


def edited(claims: Sequence[ResourceClaim], changes: Iterable[Change]) -> tuple[ResourceClaim, ...]:
    """Return the claims with the changes made.

    Raises:
        ValueError: What comes out is no claim.
    """
    return tuple(
        _applied(claim, operations) if (operations := _ordered(place, changes)) else claim
        for place, claim in enumerate(claims)
    )


def _ordered(place: int, changes: Iterable[Change]) -> tuple[Operation, ...]:
    """Return the operations on one claim; removals at the end, the last item of a list first."""
    of_claim = [item for change in changes if change.place == place for item in change.operations]
    sets = [item for item in of_claim if item["op"] != "remove"]
    removals = [item for item in of_claim if item["op"] == "remove"]
    removals.sort(key=lambda item: [_token(part) for part in item["path"].split("/")], reverse=True)
    return (*sets, *removals)


def _token(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdecimal() else (-1, part)


def _applied(claim: ResourceClaim, operations: Sequence[Operation]) -> ResourceClaim:
    wire = claim.to_wire()
    for item in operations:
        *way, last = (token.replace("~1", "/").replace("~0", "~") for token in item["path"].split("/")[1:])
        at: _Json = wire
        for token in way:
            at = cast("_Json", at[int(token)] if isinstance(at, list) else at.setdefault(token, {}))
        if item["op"] == "remove":
            del at[int(last) if isinstance(at, list) else last]  # type: ignore[arg-type]
        elif isinstance(at, list):
            at[int(last)] = item["value"]
        else:
            at[last] = item["value"]
    return ResourceClaim.model_validate(wire)
