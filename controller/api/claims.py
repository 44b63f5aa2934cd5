"""``GET /api/v1/claims/pending``: what waits, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from controller.api.access import Answer
from controller.explanations.pending_claims import PendingClaim
from controller.serving.callers import Caller
from driver.adapters.http.exchange import Request, Response

__all__ = ["pending_answer"]


def pending_answer(pending: Callable[[], Iterable[PendingClaim]], *, may_list_pods: Callable[[Caller], bool]) -> Answer:
    """Answers with all pending claims, by namespace and name.

    A claim itself does not say which pods wait for it, so who may list claims alone is not told.

    Args:
        pending: The claims; of no more than a few thousand.
        may_list_pods: Whether a caller may, in all namespaces. It may raise ApiServerError.
    """

    def answer(_request: Request, caller: Caller) -> Response:
        claims = pending()
        if not may_list_pods(caller):
            claims = (replace(claim, pods=()) for claim in claims)
        return Response.of_json({"claims": [claim.to_wire() for claim in claims]})

    return answer
