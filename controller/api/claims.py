"""``GET /api/v1/claims/pending``: what waits, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.api.access import Answer
from controller.explanations.pending import PendingClaim
from controller.serving.callers import Caller
from controller.serving.exchange import Request, Response

__all__ = ["pending_answer"]


def pending_answer(pending: Callable[[], Iterable[PendingClaim]]) -> Answer:
    """Answers with all pending claims, by namespace and name.

    Args:
        pending: The claims; of no more than a few thousand.
    """

    def answer(_request: Request, _caller: Caller) -> Response:
        return Response.of_json({"claims": [claim.to_wire() for claim in pending()]})

    return answer
