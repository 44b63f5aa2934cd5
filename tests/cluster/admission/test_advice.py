"""Warnings to who makes a claim that is legal but suspicious."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.admission.advice import Advisor
from controller.admission.webhook import Webhook
from driver.adapters.kubernetes.api import KubernetesApi
from tests.cluster.admission.reviewed_cluster import Cluster
from tests.support.installation import claim
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go


def asked(device_class: str, expression: str = "") -> dict[str, Any]:
    part: dict[str, Any] = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    if expression:
        part["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": device_class.partition(".")[0], "exactly": part}


_PAIR = (asked("gpu.rootport.dev"), asked("rdma.rootport.dev"))
_TYPO = asked("gpu.rootport.dev", 'device.attributes["rootport.dev"].gpuModel == "H100"')


@pytest.fixture(scope="module")
def advisor(kubeconfig: Path) -> Advisor:
    advisor = Advisor(KubernetesApi.connect(kubeconfig=kubeconfig))
    advisor.read_classes()
    return advisor


def test_what_is_good_gets_no_advice(advisor: Advisor) -> None:
    assert advisor(claim("a", asked("gpu.rootport.dev"))) == ()


@pytest.mark.parametrize(("kind", "path"), [("ResourceClaim", "spec."), ("ResourceClaimTemplate", "spec.spec.")])
def test_advice_names_the_field(advisor: Advisor, kind: str, path: str) -> None:
    (line,) = advisor(claim("a", *_PAIR, kind=kind))
    assert line.startswith(f"{path}devices.requests[1]: asks for a GPU (gpu) and an RDMA NIC (rdma)")
    (line,) = advisor(claim("a", _TYPO, kind=kind))
    assert "(did you mean rootport.dev/model?)" in line


def test_a_mistake_of_the_linter_keeps_no_claim_out(advisor: Advisor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("controller.admission.advice.lint_claim", fail)
    assert advisor(claim("a", *_PAIR)) == ()
    monkeypatch.undo()
    assert advisor(claim("a", *_PAIR))


def test_a_part_of_a_gpu_is_left_to_the_policy_that_warns_anyway(advisor: Advisor) -> None:
    part = {"deviceClassName": "gpu.rootport.dev", "capacity": {"requests": {"memory": "1Gi"}}}
    assert advisor(claim("a", {"name": "gpu", "exactly": part})) == ()


@pytest.mark.parametrize(
    "body",
    [
        claim("a", {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev", "newInKubernetes": 1}}),
        claim("a", asked("gpu.rootport.dev", f"{_TYPO['exactly']['selectors'][0]['cel']['expression']}{' ' * 9000}")),
        {"kind": "ResourceClaimTemplate", "spec": None},
        {"kind": "DeviceClass", "spec": {}},
    ],
    ids=["newer-field", "very-long", "empty", "class"],
)
def test_what_cannot_be_judged_soon_gets_no_advice(advisor: Advisor, body: dict[str, Any]) -> None:
    assert advisor(body) == ()


def test_classes_are_read_beside_the_answer(kubeconfig: Path) -> None:
    advisor = Advisor(KubernetesApi.connect(kubeconfig=kubeconfig))
    unknown = claim("a", asked("gpus.rootport.dev"))
    advisor(unknown)
    eventually("the classes", lambda: "did you mean gpu.rootport.dev" in "".join(advisor(unknown)))


def test_the_user_is_warned_and_the_claim_is_made(
    cluster: Cluster, start: Callable[..., Webhook], advisor: Advisor
) -> None:
    start(advise=advisor)
    said = cluster.until_made(claim("a", *_PAIR), "Warning: spec.devices.requests[1]: asks for a GPU")
    assert "resourceclaim.resource.k8s.io/a created (server dry run)" in said
