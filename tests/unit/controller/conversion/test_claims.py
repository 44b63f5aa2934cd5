"""Claims with percentages are admitted in every case, with a patch where they can be lists of amounts."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from controller.admission.envelope import BadReviewError
from controller.conversion.claims import ClaimReviews
from controller.conversion.counts import ConversionCounter
from controller.conversion.known_sizes import KnownSizes
from driver.adapters.kubernetes.errors import ApiServerError
from driver.ratios import NO_SIZES, SizeCounter, Sizes
from tests.support.json_patch import patched

Fields = dict[str, Any]


def sizes(memory: str) -> Sizes:
    counter = SizeCounter()
    policy = {"validRange": {"min": "1Mi", "step": "1Mi", "max": memory}}
    counter.add(
        {
            "attributes": {"type": {"string": "gpu"}},
            "capacity": {"memory": {"value": memory, "requestPolicy": policy}},
            "allowMultipleAllocations": True,
        }
    )
    return counter.sizes()


def claim(**asked: Any) -> Fields:
    exactly = {
        "deviceClassName": "gpu-ratio.rootport.dev",
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"memoryRatio": "25"}},
    } | asked
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "quarter"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def review(body: Fields, *, old: Fields | None = None, **request: Any) -> bytes:
    asked = {
        "uid": "u",
        "operation": "UPDATE" if old else "CREATE",
        "namespace": "ml",
        "object": body,
        "oldObject": old,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "request": asked | request}).encode()


def answer(known: Sizes, body: bytes, counts: ConversionCounter | None = None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = ClaimReviews(lambda: known, counts or ConversionCounter())(body)["response"]
    assert (found["uid"], found["allowed"]) == ("u", True)
    return found


def after(body: Fields, response: Mapping[str, Any]) -> Fields:
    found: Fields = patched(body, json.loads(base64.b64decode(response["patch"])))
    return found


def test_a_percentage_becomes_a_list_by_a_patch_of_nothing_else() -> None:
    counts = ConversionCounter()
    body = claim()
    response = answer(sizes("80Gi"), review(body), counts)
    found = after(body, response)
    (request,) = found["spec"]["devices"]["requests"]
    assert [part["deviceClassName"] for part in request["firstAvailable"]] == [
        "gpu.rootport.dev",
        "gpu-ratio.rootport.dev",
    ]
    assert request["firstAvailable"][0]["capacity"]["requests"] == {"memory": "20Gi"}
    assert "exactly" not in request
    assert found["metadata"] == body["metadata"]
    assert "warnings" not in response
    assert counts.so_far().claims["converted"] == 1


def test_a_dry_run_is_answered_alike_and_not_counted() -> None:
    counts = ConversionCounter()
    assert answer(sizes("80Gi"), review(claim(), dryRun=True), counts) == answer(sizes("80Gi"), review(claim()))
    assert not any(counts.so_far().claims.values())


def test_the_claim_as_it_was_written_is_no_change_of_the_list_that_is_stored() -> None:
    stored = after(claim(), answer(sizes("80Gi"), review(claim())))
    # Meanwhile the cluster has other GPUs.
    response = answer(sizes("40Gi"), review(claim(), old=stored))
    assert after(claim(), response)["spec"] == stored["spec"]
    other = claim(capacity={"requests": {"memoryRatio": "50"}})
    assert "patch" not in answer(sizes("40Gi"), review(other, old=stored))
    assert "patch" not in answer(sizes("40Gi"), review(stored, old=stored))


@pytest.mark.parametrize(
    "body",
    [
        review(claim(capacity={"requests": {"core": "25"}})),
        review(claim() | {"kind": "Pod"}),
        review(claim(), operation="DELETE"),
        review(claim(), subResource="status"),
        review(claim() | {"spec": None}),
        review(claim() | {"spec": {"devices": [1]}}),
    ],
)
def test_all_else_is_admitted_as_it_is(body: bytes) -> None:
    assert answer(sizes("80Gi"), body) == {"uid": "u", "allowed": True}


def test_what_stays_a_percentage_is_admitted_with_a_warning() -> None:
    counts = ConversionCounter()
    response = answer(sizes("80Gi"), review(claim(allocationMode="All")), counts)
    assert "patch" not in response
    (warning,) = response["warnings"]
    assert warning.startswith("spec.devices.requests[0].exactly: memoryRatio stays a percentage: allocationMode All")
    assert counts.so_far().claims["noted"] == 1


def test_an_error_of_ours_admits_the_claim_as_it_is() -> None:
    def broken() -> Sizes:
        raise ZeroDivisionError

    counts = ConversionCounter()
    response = ClaimReviews(broken, counts)(review(claim()))["response"]
    assert response == {"uid": "u", "allowed": True}
    assert counts.so_far().claims["failed"] == 1


def test_what_is_no_review_is_refused() -> None:
    with pytest.raises(BadReviewError):
        ClaimReviews(lambda: NO_SIZES, ConversionCounter())(b"{}")


def test_sizes_are_read_again_after_a_failure_and_kept_while_one_lasts() -> None:
    stop = threading.Event()
    answers: list[Sizes | ApiServerError] = [ApiServerError("away"), sizes("80Gi"), ApiServerError("away")]

    def read() -> Sizes:
        if not answers:
            stop.set()
            raise ApiServerError("away")
        found = answers.pop(0)
        if isinstance(found, ApiServerError):
            raise found
        return found

    known = KnownSizes(read, every_s=0.01)
    assert known.sizes() is NO_SIZES
    known.start(stop).join(20)
    assert stop.is_set()
    assert known.sizes() == sizes("80Gi")
