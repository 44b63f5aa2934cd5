"""``GET /api/v1/claims/pending``: the pending claims, with their reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from controller.api.access import Answer
from controller.explanations.pending_claims import PendingClaim
from controller.serving.callers import Caller
from driver.adapters.http.exchange import Request, Response

__all__ = ["pending_answer"]


def pending_answer(pending: Callable[[], Iterable[PendingClaim]], *, may_list_pods: Callable[[Caller], bool]) -> Answer:
    """Return what answers with all pending claims, by namespace and name.

    The pods that wait for a claim are not part of the claim, so they are left out for callers who may only list claims.

    Args:
        pending: Returns the claims, a few thousand at most.
        may_list_pods: Returns whether a caller may list pods in all namespaces. It may raise ApiServerError.
    """

    def answer(_request: Request, caller: Caller) -> Response:
        claims = pending()
        if not may_list_pods(caller):
            claims = (replace(claim, pods=()) for claim in claims)
        return Response.of_json({"claims": [claim.to_wire() for claim in claims]})

    return answer
