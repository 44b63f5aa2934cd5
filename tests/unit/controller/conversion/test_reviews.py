"""Reviews of pods answered: what is changed, what is created, and what the user is told."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.admission.envelope import BadReviewError
from controller.conversion import reviews
from controller.conversion.counts import ConversionCounter
from controller.conversion.reviews import PodReviews
from driver.budget import SpentError
from driver.convert import DEFAULT, convert
from tests.support.json_patch import patched
from tests.unit.controller.conversion.stored_api import RefusedError
from tests.unit.controller.conversion.world import NAMESPACE, World

_GPU = {"nvidia.com/gpu": "1"}
_CONTRADICTION = {"koordinator.sh/gpu": "50", "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}


def pod(limits: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A pod as the API server sends it: with its defaults, and a generated name to come."""
    container = {"name": "main", "image": "none", "resources": {"limits": limits, "requests": dict(limits)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "train-", "creationTimestamp": None, "labels": {"app": "train"}},
        "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
        "status": {},
    }


def review(body: Any, **request: Any) -> bytes:
    asked = {"uid": "u1", "operation": "CREATE", "name": "", "namespace": NAMESPACE, "object": body} | request
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    return json.dumps(document).encode()


class Asked:
    """The reviews of one replica, beside an API server in memory."""

    def __init__(self) -> None:
        self.world = World()
        self.counts: ConversionCounter = self.world.counts
        self.options: dict[str, Any] = {"on_refusal": "deny", "failure_policy": "Fail"}

    def __call__(self, body: Any, **request: Any) -> dict[str, Any]:
        answer = PodReviews(self.world.templates, self.counts, lambda: DEFAULT, **self.options)(review(body, **request))
        response: dict[str, Any] = answer["response"]
        assert response["uid"] == "u1"
        return response

    def converted(self, body: Any, **request: Any) -> Any:
        response = self(body, **request)
        assert response["allowed"], response
        assert response["patchType"] == "JSONPatch"
        return patched(body, json.loads(base64.b64decode(response["patch"])))

    @property
    def outcomes(self) -> dict[str, int]:
        return {outcome: number for outcome, number in self.counts.so_far().pods.items() if number}


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_the_patch_makes_what_the_converter_makes_and_nothing_else(asked: Asked) -> None:
    body = pod(_GPU)
    made = asked.converted(body)
    assert made == convert(body).object
    assert "namespace" not in made["metadata"]
    (claim,) = made["spec"]["resourceClaims"]
    assert list(asked.world.server.templates()) == [f"{NAMESPACE}/{claim['resourceClaimTemplateName']}"]
    assert asked.outcomes == {"converted": 1}


def test_a_converted_pod_is_not_changed_again(asked: Asked) -> None:
    made = asked.converted(pod(_GPU))
    assert asked(made) == {"uid": "u1", "allowed": True}
    assert asked.outcomes == {"converted": 1, "unchanged": 1}


def test_a_container_that_a_later_webhook_added_is_converted_as_well(asked: Asked) -> None:
    made = asked.converted(pod(_GPU))
    made["spec"]["containers"].append({"name": "late", "image": "none", "resources": {"limits": dict(_GPU)}})
    again = asked.converted(made)
    assert [claim["name"] for claim in again["spec"]["resourceClaims"]] == ["gpu", "gpu-2"]
    assert len(asked.world.server.templates()) == 1  # both ask for the same


def test_ephemeral_containers_stay_as_they_are(asked: Asked) -> None:
    shell = {"name": "shell", "image": "none", "targetContainerName": "main"}
    made = asked.converted(pod(_GPU, ephemeralContainers=[shell]))
    assert made["spec"]["ephemeralContainers"] == [shell]


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        pytest.param(pod({"cpu": "1"}), {}, id="no-device"),
        pytest.param(pod({"example.com/dongle": "1"}), {}, id="a-device-of-somebody-else"),
        pytest.param(pod(_GPU), {"operation": "UPDATE"}, id="update"),
        pytest.param(pod(_GPU), {"operation": "DELETE"}, id="delete"),
        pytest.param(pod(_GPU), {"subResource": "ephemeralcontainers"}, id="subresource"),
        pytest.param(pod(_GPU), {"namespace": ""}, id="no-namespace"),
        pytest.param(pod(_GPU) | {"kind": "PodTemplate"}, {}, id="another-kind"),
        pytest.param(
            pod(_GPU) | {"metadata": {"name": "a", "annotations": {"kubernetes.io/config.mirror": "x"}}},
            {},
            id="mirror-of-a-static-pod",
        ),
        pytest.param(None, {}, id="no-object"),
    ],
)
def test_what_is_no_pod_to_convert_stays_as_it_is(asked: Asked, body: Any, request_: dict[str, Any]) -> None:
    assert asked(body, **request_) == {"uid": "u1", "allowed": True}
    assert asked.world.server.requests == []


def test_a_dry_run_shows_the_same_and_creates_nothing(asked: Asked) -> None:
    body = pod(_GPU)
    assert asked.converted(body, dryRun=True) == convert(body).object
    assert asked.world.server.templates() == {}
    assert asked.outcomes == {}


def test_the_namespace_is_the_requests(asked: Asked) -> None:
    body = pod(_GPU)
    body["metadata"]["namespace"] = "somewhere-else"
    asked.converted(body)
    assert [key.partition("/")[0] for key in asked.world.server.templates()] == [NAMESPACE]


def test_a_refusal_names_container_field_and_what_to_write(asked: Asked) -> None:
    response = asked(pod(_CONTRADICTION))
    status = response["status"]
    assert not response["allowed"]
    assert (status["code"], status["reason"], status["details"]["kind"]) == (422, "Invalid", "Pod")
    assert status["message"].startswith(f"Pod {NAMESPACE}/train- asks for devices in a way that cannot be converted")
    (cause, *_) = status["details"]["causes"]
    assert cause["field"].startswith("spec.containers[0].resources.limits[koordinator.sh/gpu")
    assert cause["message"].startswith("container 'main': ")
    assert cause["message"] in status["message"]
    assert asked.world.server.requests == []
    assert asked.outcomes == {"refused": 1}


def test_by_an_option_a_refused_pod_passes_with_warnings(asked: Asked) -> None:
    asked.options["on_refusal"] = "admit"
    response = asked(pod(_CONTRADICTION))
    assert response["allowed"]
    assert "patch" not in response
    assert response["warnings"][0].startswith("not converted: spec.containers[0].resources.limits[koordinator.sh/gpu")
    assert asked.outcomes == {"refused": 1}


def test_a_pod_that_names_its_node_is_refused(asked: Asked) -> None:
    (cause,) = asked(pod(_GPU, nodeName="n1"))["status"]["details"]["causes"]
    assert cause["field"] == "spec.nodeName"
    assert asked(pod({"cpu": "1"}, nodeName="n1"))["allowed"]


def test_notes_are_warnings_that_the_api_server_passes_on(asked: Asked) -> None:
    body = pod({"koordinator.sh/gpu": "50"}, schedulerName="koord-scheduler")
    body["metadata"]["labels"] |= {f"quota.scheduling.koordinator.sh/{'n' * 50}-{index}": "x" for index in range(50)}
    warnings = asked(body)["warnings"]
    assert len(warnings) == 12
    assert warnings[-1] == "and 40 more"
    assert all(len(line) <= 256 for line in warnings)
    assert asked.outcomes == {"noted": 1}


def _refuse(asked: Asked) -> None:
    asked.world.server.refusal = RefusedError(503, "ServiceUnavailable")


def _break(asked: Asked) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("ours")

    asked.world.templates.ensure = fail  # type: ignore[method-assign]


@pytest.mark.parametrize("fail", [_refuse, _break], ids=["api-server-away", "mistake-of-ours"])
@pytest.mark.parametrize(("policy", "allowed"), [("Fail", False), ("Ignore", True)])
def test_what_cannot_be_created_now_is_as_if_no_webhook_answered(
    asked: Asked, fail: Callable[[Asked], None], policy: str, allowed: bool
) -> None:
    asked.options["failure_policy"] = policy
    fail(asked)
    response = asked(pod(_GPU))
    assert response["allowed"] is allowed
    assert "patch" not in response
    if allowed:
        assert response["warnings"][0].startswith("not converted: ")
    else:
        assert response["status"]["code"] == 503
        assert "try again" in response["status"]["message"]
    assert asked.outcomes == {"failed": 1}


def test_a_taken_name_is_refused_whatever_happens_to_failures(asked: Asked) -> None:
    made = asked.converted(pod(_GPU))
    (key,) = asked.world.server.templates()
    stored = asked.world.server.templates()[key]
    stored["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 8
    asked.options["failure_policy"] = "Ignore"
    status = asked(pod(_GPU))["status"]
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert made["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] in status["message"]


def test_too_many_different_claims_of_one_pod_are_refused(asked: Asked) -> None:
    shares = ({"koordinator.sh/gpu-core": str(at), "koordinator.sh/gpu-memory-ratio": str(at)} for at in range(1, 34))
    containers = [
        {"name": f"c{at}", "image": "none", "resources": {"limits": limits}} for at, limits in enumerate(shares)
    ]
    body = pod(_GPU, containers=containers)
    assert "the pod needs 33 different claims: at most 32" in asked(body)["status"]["message"]
    assert asked.world.server.templates() == {}
    body["spec"]["containers"].pop()
    asked.converted(body)
    assert len(asked.world.server.templates()) == 32


def test_what_takes_too_long_is_refused(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def spend(*_: object) -> None:
        raise SpentError

    monkeypatch.setattr(reviews, "decide", spend)
    assert "it has too many containers" in asked(pod(_GPU))["status"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        review(pod(_GPU)).replace(b"v1", b"v2", 1),
        review(pod(_GPU) | {"deep": json.loads("[" * 150 + "]" * 150)}).replace(b"[[]]", b"[" * 100 + b"]" * 100),
        review(pod(_GPU)).replace(b"train", b"tr\xffin"),
    ],
    ids=["empty", "list", "no-review", "another-version", "deep", "no-utf-8"],
)
def test_what_is_no_review_of_an_api_server_is_not_answered(asked: Asked, body: bytes) -> None:
    with pytest.raises(BadReviewError):
        PodReviews(asked.world.templates, asked.counts, lambda: DEFAULT, **asked.options)(body)
    assert asked.world.server.requests == []


def test_an_api_server_that_is_slow_is_not_waited_for_beyond_its_own_patience(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews, "_WALL_S", 0.0)
    assert "takes too long" in asked(pod(_GPU))["status"]["message"]
    assert asked.outcomes == {"failed": 1}
