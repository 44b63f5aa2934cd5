"""Makes one answer for every claim of a call, even if others fail. Independent of gRPC.

Rules (k8s.io/kubernetes v1.36.3, pkg/kubelet/cm/dra/manager.go): a claim without an entry, or an entry that was not
asked for, fails the whole pod; an error text is that claim's alone, and the kubelet puts it into the pod's events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from driver.api.claim_reference import ClaimReference
from driver.api.validation import names
from driver.api.validation.errors import shown
from driver.errors import InputError, NodeError, RootportError
from kubeletplugin.internal_errors import internal_error
from kubeletplugin.operation import current_operation, log_line

__all__ = ["MAX_CLAIMS", "answer_each", "error_text"]

MAX_CLAIMS: Final = 1024
"""Claims in one call. Kubernetes sets no limit for a pod's claims, but one for the size of the pod that names them."""

_MAX_ERROR: Final = 2048
"""Bytes of one error: with MAX_CLAIMS of them an answer stays below the 4 MiB that a Go client accepts."""

_LOG: Final = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
_Answers = Mapping[str, _Answer | RootportError]


def answer_each(
    asked: Sequence[ClaimReference], call: Callable[[Sequence[ClaimReference]], _Answers[_Answer]]
) -> dict[str, _Answer | RootportError]:
    """Ask ``call`` for every claim once.

    Args:
        asked: The claims as the kubelet named them: maybe several times, maybe in a wrong form.
        call: Takes claims, every UID once, and answers by UID. It must be idempotent: where it fails unexpectedly, it
            is called again for each claim alone, so that only the claim that it stumbles over fails.

    Returns:
        By UID, an entry for every claim asked for and for no other.
    """
    answers: dict[str, _Answer | RootportError] = {}
    sound: dict[str, ClaimReference] = {}
    for claim in asked:
        known = sound.get(claim.uid)
        if (problem := _problem(claim, known)) is not None:
            answers[claim.uid] = problem
        elif known is None:
            sound[claim.uid] = claim
    claims = [claim for uid, claim in sound.items() if uid not in answers]
    found = _call(claims, call)
    return answers | {claim.uid: found.get(claim.uid, _no_answer(claim)) for claim in claims}


def error_text(error: RootportError) -> str:
    """Return one line for a pod's events: what is wrong, what to do next, and whether a retry may help."""
    outlook = (
        "the kubelet tries again, and that may help"
        if error.retry_helps
        else "the kubelet tries again, but only a change helps"
    )
    parts = [part for part in (error.message, error.hint) if part]
    text = "; ".join(" ".join(part.splitlines()) for part in parts)
    room = _MAX_ERROR - len(outlook) - 2
    return f"{_cut(text, room)}; {outlook}"


def _problem(claim: ClaimReference, known: ClaimReference | None) -> RootportError | None:
    fields = (
        *names.label("namespace", claim.namespace),
        *names.subdomain("name", claim.name),
        *names.label("uid", claim.uid),
    )
    if fields:
        reasons = ", ".join(str(field) for field in fields)
        return InputError(
            f"claim {shown(claim.namespace)}/{shown(claim.name)} (uid {shown(claim.uid)}): {reasons}",
            hint="the kubelet sent what the API server would not store: look at the kubelet",
        )
    if known is not None and known != claim:
        return InputError(f"claims {known} and {claim} have one uid", hint="look at the kubelet: a uid is given once")
    return None


def _call(
    claims: Sequence[ClaimReference], call: Callable[[Sequence[ClaimReference]], _Answers[_Answer]]
) -> _Answers[_Answer]:
    if not claims:
        return {}
    try:
        return call(claims)
    except RootportError as error:
        return dict.fromkeys((claim.uid for claim in claims), error)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told as the claim's error and logged
        if len(claims) == 1:
            return {claims[0].uid: internal_error("kubelet call", f"claim {claims[0]}", error)}
        fields = {"op": current_operation(), "claims": len(claims)}
        _LOG.exception("%s", log_line(event="service-raised", **fields))
    found: dict[str, _Answer | RootportError] = {}
    for claim in claims:
        found.update(_call([claim], call))
    return found


def _no_answer(claim: ClaimReference) -> RootportError:
    return NodeError(
        f"claim {claim}: the driver's plugin gave no answer", hint="this is a fault of the plugin: report it"
    )


def _cut(text: str, room: int) -> str:
    data = text.encode(errors="backslashreplace")
    return (data if len(data) <= room else data[: room - 3] + b"...").decode(errors="ignore")
