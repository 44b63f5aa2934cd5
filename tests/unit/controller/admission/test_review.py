"""AdmissionReviews answered, without an API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.admission.envelope import BadReviewError, invalid, read_review
from controller.admission.review import review
from driver.api.validation.errors import FieldError
from tests.support.installation import claim

_API = "rootport.dev/v1alpha1"
_WRONG = {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": "never"}}


def asked(body: Any, operation: str = "CREATE", old: Any = None) -> dict[str, Any]:
    request = {
        "uid": "u1",
        "operation": operation,
        "name": "",
        "namespace": "default",
        "object": body,
        "oldObject": old,
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = review(json.dumps(document).encode())
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = answer["response"]
    assert response["uid"] == "u1"
    return response


def test_mistakes_come_with_their_fields_as_the_api_servers_own_do() -> None:
    status = asked(claim("a", config=(_WRONG,)))["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["details"]["kind"] == "ResourceClaim"
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "spec.devices.config[0].opaque.parameters.sharing.strategy"
    assert "'never' is not known: expected 'exclusive', 'timeSlicing', 'mps' or 'hamiCore'" in cause["message"]
    assert status["message"].startswith("ResourceClaim default/a has a mistake in what it says to rootport.dev: spec.")


def test_a_generated_name_is_shown_by_its_beginning() -> None:
    body = claim("a", config=(_WRONG,))
    body["metadata"] = {"generateName": "train-"}
    assert "ResourceClaim default/train- has" in asked(body)["status"]["message"]


@pytest.mark.parametrize(
    ("operation", "changed", "allowed"),
    [
        pytest.param("CREATE", False, False, id="create"),
        pytest.param("UPDATE", True, False, id="changed"),
        pytest.param("UPDATE", False, True, id="same-specification"),
        pytest.param("DELETE", False, True, id="delete"),
    ],
)
def test_only_what_is_new_is_checked(operation: str, changed: bool, allowed: bool) -> None:
    body = claim("a", config=(_WRONG,))
    old = claim("a") if changed else claim("a", config=(_WRONG,))
    assert asked(body, operation, old)["allowed"] is allowed


def test_an_entry_keeps_its_place_among_those_of_other_drivers() -> None:
    body = claim("a", config=(_WRONG, _WRONG))
    body["spec"]["devices"]["config"].insert(0, {"opaque": {"driver": "gpu.example.com", "parameters": _WRONG}})
    body["spec"]["devices"]["config"].insert(1, {"newInKubernetes": {}})
    fields = [cause["field"] for cause in asked(body)["status"]["details"]["causes"]]
    assert fields == [f"spec.devices.config[{index}].opaque.parameters.sharing.strategy" for index in (2, 3)]


def test_a_long_mistake_is_cut_wherever_it_is_written() -> None:
    request = read_review(json.dumps({"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u"}}).encode())
    status = invalid(request, "", "is wrong", [FieldError("spec." + "f" * 10**6, "m" * 10**6)])
    assert len(json.dumps(status)) < 5000


def test_a_long_list_of_mistakes_is_cut_and_counted() -> None:
    parts = {"apiVersion": _API, "kind": "GpuConfig"} | {f"field{index}": 1 for index in range(40)}
    status = asked(claim("a", config=(parts,)))["status"]
    assert len(status["details"]["causes"]) == 32
    assert "has 40 mistakes" in status["message"]
    assert status["message"].endswith("; and 8 more")


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param({"memory": "0.5"}, id="another-drivers-memory"),
        pytest.param({"rootport.dev/core": "many"}, id="no-quantity"),
        pytest.param(["core"], id="no-object"),
    ],
)
def test_what_the_api_server_or_another_driver_judges_is_let_through(requests: Any) -> None:
    part = {"deviceClassName": "gpu.example.com", "capacity": {"requests": requests}}
    assert asked(claim("a", {"name": "gpu", "exactly": part}))["allowed"] is True


@pytest.mark.parametrize(
    "body",
    [
        None,
        7,
        "x",
        [],
        {},
        {"kind": "ResourceClaim"},
        {"kind": "ResourceClaim", "spec": {"devices": {"config": [7, {}]}}},
    ],
    ids=repr,
)
def test_an_object_of_another_shape_is_let_through(body: Any) -> None:
    assert asked(body)["allowed"] is True


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 200_000,
        b"\xff",
        b"7",
        b'{"request": {"uid": "u"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "request": {"uid": 7}}',
        b'{"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "u"}}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_what_is_no_review_is_no_answer(body: bytes) -> None:
    with pytest.raises(BadReviewError):
        review(body)


def test_advice_is_given_to_what_is_right_and_kept_short() -> None:
    request = {"uid": "u", "operation": "CREATE", "object": claim("a")}
    document = json.dumps({"apiVersion": "admission.k8s.io/v1", "request": request}).encode()
    warnings = review(document, lambda body: [f"{body['metadata']['name']}\n" + "x" * 300] * 20)["response"]["warnings"]
    assert len(warnings) == 12
    assert warnings[0].startswith("a xxx")
    assert {len(text) for text in warnings} == {256}
    assert "warnings" not in review(document)["response"]
