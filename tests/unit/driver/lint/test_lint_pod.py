"""How pods use the claims of the same files, and what a pod that asks device plugins would ask for in a claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from driver.adapters.manifests.claims import read_manifest_text
from driver.api.pod_templates import PodSpec, pod_specs
from driver.api.resource_v1 import ResourceClaim
from driver.budget import Budget
from driver.lint import KnownClaims, LintFinding, lint_claim, lint_pod
from driver.lint.findings import LintCode
from resourceclasses import device_classes_text

CLASSES = {
    item.device_class.metadata.name: item.device_class
    for item in read_manifest_text(device_classes_text(), "resourceclasses").classes
}


def claim_for(kind: str) -> ResourceClaim:
    request = {"name": "r", "exactly": {"deviceClassName": f"{kind}.rootport.dev"}}
    return ResourceClaim.model_validate({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})


OWN = 'device.attributes["rootport.dev"]'
SPEC = """\
resourceClaims:
- {name: gpu, resourceClaimTemplateName: train}
containers:
- name: main
  resources: {claims: [{name: gpu}]}
"""
KNOWN = KnownClaims(
    {
        ("ResourceClaimTemplate", "default", "train"): claim_for("gpu"),
        ("ResourceClaimTemplate", "default", "nic"): claim_for("rdma"),
        ("ResourceClaim", "default", "shared"): claim_for("gpu"),
        ("ResourceClaimTemplate", "ml", "other"): claim_for("gpu"),
    },
    CLASSES,
)


def lint(spec: str, known: KnownClaims = KNOWN, namespace: str = "default") -> list[LintFinding]:
    return list(lint_pod(PodSpec(("spec",), yaml.safe_load(spec)), namespace, known))


def codes(findings: list[LintFinding]) -> list[tuple[str, str, str]]:
    return [(finding.code.value, finding.severity.value, finding.path) for finding in findings]


def test_nothing_is_said_of_a_pod_that_is_right() -> None:
    assert not lint(SPEC)


@pytest.mark.parametrize(
    ("old", "new", "code", "severity", "path", "hint"),
    [
        pytest.param(
            "claims: [{name: gpu}]", "claims: [{name: gpu}, {name: gpuu}]", "pod-claim-name", "error",
            "spec.containers[0].resources.claims[1].name", "did you mean gpu?", id="name",
        ),
        pytest.param(
            "resourceClaimTemplateName: train", "resourceClaimTemplateName: trian", "pod-claim-missing", "warning",
            "spec.resourceClaims[0].resourceClaimTemplateName", "did you mean train?", id="template",
        ),
        pytest.param(
            "resourceClaimTemplateName: train", "resourceClaimTemplateName: shared", "pod-claim-missing", "warning",
            "spec.resourceClaims[0].resourceClaimTemplateName",
            "shared is a ResourceClaim: write resourceClaimName", id="claim-for-a-template",
        ),
        pytest.param(
            "resourceClaimTemplateName: train", "resourceClaimTemplateName: other", "pod-claim-missing", "warning",
            "spec.resourceClaims[0].resourceClaimTemplateName", "there is one in namespace ml", id="namespace",
        ),
        pytest.param(
            "{name: gpu, resourceClaimTemplateName: train}", "{name: gpu}", "pod-claim-source", "error",
            "spec.resourceClaims[0]", "write one of", id="no-source",
        ),
        pytest.param(
            "- {name: gpu,", "- {name: gpu, resourceClaimName: shared}\n- {name: gpu,", "pod-claim-name", "error",
            "spec.resourceClaims[1].name", "another name", id="twice",
        ),
        pytest.param(
            "claims: [{name: gpu}]", "limits: {cpu: 1}", "pod-claim-unused", "warning", "spec.resourceClaims[0]",
            "resources.claims: [{name: gpu}]", id="unused",
        ),
    ],
)  # fmt: skip
def test_a_claim_that_is_used_wrongly_is_told(
    old: str, new: str, code: str, severity: str, path: str, hint: str
) -> None:
    (finding,) = lint(SPEC.replace(old, new))
    assert codes([finding]) == [(code, severity, path)]
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ("resourceClaims: {}", "spec.resourceClaims", "expected a list of objects"),
        ("resourceClaims: [gpu]", "spec.resourceClaims[0]", "expected an object with a name"),
        ("resourceClaims: [{name: 5}]", "spec.resourceClaims[0]", "expected an object with a name"),
        (
            "resourceClaims: [{name: a, resourceClaimName: [b]}]", "spec.resourceClaims[0].resourceClaimName",
            "expected a string",
        ),
        ("initContainers: [{resources: {claims: {}}}]", "spec.initContainers[0].resources.claims", "expected a list"),
    ],
)  # fmt: skip
def test_claims_of_another_type_are_told_as_such(spec: str, path: str, message: str) -> None:
    wire = yaml.safe_load(f"spec: {{{spec}, containers: [{{name: main}}]}}")
    (pod,) = pod_specs(wire)
    assert pod.asks_for_devices
    (finding,) = lint_pod(pod, "default", KNOWN)
    assert codes([finding]) == [("invalid-object", "error", path)]
    assert message in finding.message


@pytest.mark.parametrize(
    ("name", "is_on_cluster", "severity", "words"),
    [
        ("gpu.rootport.de", False, "error", "did you mean gpu.rootport.dev?"),
        ("gpu.example.com", False, "note", "it is taken to be on the cluster"),
        ("gpu.example.com", True, "error", "there is no DeviceClass 'gpu.example.com'; known: fpga.rootport.dev"),
    ],
)
def test_an_extended_resource_of_a_class_that_is_not_there_is_told(
    name: str, is_on_cluster: bool, severity: str, words: str
) -> None:
    resource = f"deviceclass.resource.kubernetes.io/{name}"
    spec = f"containers: [{{name: main, resources: {{limits: {{{resource}: 1}}}}}}]"
    (finding,) = lint(spec, KnownClaims(classes=CLASSES, classes_are_all=is_on_cluster))
    assert codes([finding]) == [("unknown-class", severity, f"spec.containers[0].resources.limits[{resource}]")]
    assert words in finding.message
    assert not lint(spec.replace(name, "gpu.rootport.dev"))


def test_a_template_that_may_be_on_the_cluster_is_not_missed() -> None:
    assert not lint(SPEC, KnownClaims(classes=CLASSES))
    assert not lint(SPEC.replace("train", "elsewhere"), namespace="other")


def test_the_nic_of_a_pod_need_not_be_used_by_a_container() -> None:
    assert not lint(SPEC.replace("Name: train", "Name: nic").replace("claims: [{name: gpu}]", "limits: {cpu: 1}"))


@pytest.mark.parametrize(
    ("resources", "claim"),
    [
        (
            {"nvidia.com/gpu": "2"},
            [f'deviceClassName: gpu.rootport.dev, count: 2, selector {OWN}.vendor == "nvidia"'],
        ),
        (
            {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "40"},
            ["deviceClassName: gpu-ratio.rootport.dev, count: 1, capacity.requests: {core: 50, memoryRatio: 40}"],
        ),
        ({"koordinator.sh/gpu": "200"}, ["deviceClassName: gpu.rootport.dev, count: 2"]),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
            [
                (
                    "deviceClassName: gpu.rootport.dev, count: 1, capacity.requests: {core: 30, memory: 3000Mi}, "
                    f'selector {OWN}.vendor == "nvidia"'
                )
            ],
        ),
        (
            {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "20Gi"},
            ["deviceClassName: gpu.rootport.dev, count: 1, capacity.requests: {core: 50, memory: 20Gi}"],
        ),
        (
            {"nvidia.com/mig-1g.10gb": "1"},
            [f'deviceClassName: mig.rootport.dev, count: 1, selector {OWN}.profile == "1g.10gb"'],
        ),
        (
            {"koordinator.sh/gpu": "100", "koordinator.sh/rdma": "100"},
            [
                "deviceClassName: gpu.rootport.dev, count: 1",
                "deviceClassName: rdma.rootport.dev, count: 1",
                (
                    "constraints: each GPU with the nearest NIC: under its PCIe switch, else its PCIe root, else its"
                    " NUMA node, else any"
                ),
            ],
        ),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_what_a_claim_would_say_in_place_of_a_device_plugins_resources(
    resources: dict[str, str], claim: list[str]
) -> None:
    (finding,) = lint_resources({"cpu": "4", "vendor.example/x": "1", **resources})
    assert (finding.code.value, finding.severity.value) == ("device-plugin-resource", "note")
    asked, _, lines = finding.message.partition("; as a claim: ")
    assert lines.split("; ") == claim
    assert all(name in asked for name in resources)
    found = lint_claim(claim_of(claim), classes=CLASSES)
    assert all(finding.code is LintCode.UNPAIRED_DEVICES for finding in found) if "nearest" in lines else not found


def lint_resources(resources: dict[str, Any]) -> list[LintFinding]:
    container = {"name": "c", "resources": {"limits": resources}}
    return list(lint_pod(PodSpec(("spec",), {"containers": [container]}), "default", KNOWN))


def claim_of(lines: Sequence[str]) -> ResourceClaim:
    """The claim that the lines describe, as their reader would write it."""
    requests, constraints = [], []
    for line in lines:
        if line.startswith("constraints: each "):
            continue
        text, _, expression = line.partition(", selector ")
        fields = yaml.safe_load(f"{{{text}}}")
        constraints += fields.pop("constraints", [])
        if not fields:
            continue
        amounts = {key: str(amount) for key, amount in fields.pop("capacity.requests", {}).items()}
        fields |= {"capacity": {"requests": amounts}} if amounts else {}
        fields |= {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
        requests.append({"name": f"r{len(requests)}", "exactly": fields})
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    return ResourceClaim.model_validate({"metadata": {"name": "c"}, "spec": spec})


def test_what_is_to_be_known_of_the_claim_is_the_hint() -> None:
    (finding,) = lint_resources({"koordinator.sh/gpu-memory": "3Gi"})
    assert finding.hint.startswith("Koordinator neither counts nor limits compute here")
    assert finding.hint.endswith("docs/user/migrate.md")


@pytest.mark.parametrize(
    ("limits", "spec", "annotations", "field"),
    [
        pytest.param({"koordinator.sh/gpu": "100"}, {"nodeName": "node-a"}, {}, "spec.nodeName", id="placed"),
        pytest.param(
            {"koordinator.sh/gpu": "100"},
            {},
            {"scheduling.koordinator.sh/device-joint-allocate": "{"},
            "metadata.annotations[scheduling.koordinator.sh/device-joint-allocate]",
            id="no-json",
        ),
        pytest.param(
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"},
            {},
            {"nvidia.com/vgpu-mode": "mig"},
            "metadata.annotations[nvidia.com/vgpu-mode]",
            id="mode",
        ),
    ],
)
def test_a_pod_that_does_not_convert_is_not_told_that_convert_writes_its_claim(
    limits: dict[str, str], spec: dict[str, Any], annotations: dict[str, str], field: str
) -> None:
    container = {"name": "c", "resources": {"limits": limits}}
    pod = PodSpec(("spec",), {"containers": [container], **spec}, {"annotations": annotations})
    (finding,) = lint_pod(pod, "default", KNOWN)
    assert "; as a claim: deviceClassName: gpu.rootport.dev" in finding.message
    assert "writes that claim" not in finding.hint
    assert f"`rootport convert` leaves the pod as it is; {field} does not convert: " in finding.hint


def test_a_pod_of_too_many_containers_is_told_once() -> None:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    (finding,) = lint_pod(PodSpec(("spec",), {"containers": [container] * 300}), "default", KNOWN)
    assert "for which there is no claim: 300 containers" in finding.message


def test_what_no_claim_says_is_told_with_the_reason() -> None:
    (finding,) = lint_resources({"koordinator.sh/gpu": "150"})
    assert "asks Koordinator for koordinator.sh/gpu, for which there is no claim: 150 percent" in finding.message
    assert finding.path == "spec.containers[0].resources.limits[koordinator.sh/gpu]"


@pytest.mark.parametrize(
    "resources", [{"nvidia.com/gpu": "0"}, {f"nvidia.com/{'r' * 400}": "1"}], ids=["none", "no-name"]
)
def test_a_pod_that_asks_for_no_such_resource_asks_no_device_plugin(resources: dict[str, str]) -> None:
    assert lint_resources(resources) == []


def test_a_resource_that_a_device_class_stands_for_is_no_device_plugins() -> None:
    spec = "containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]"
    assert [finding.code.value for finding in lint(spec)] == ["device-plugin-resource"]
    by_class = CLASSES["gpu.rootport.dev"]
    extended = by_class.model_copy(
        update={"spec": by_class.spec.model_copy(update={"extended_resource_name": "nvidia.com/gpu"})}
    )
    assert not lint(spec, KnownClaims(classes={"gpu.rootport.dev": extended}))


@pytest.mark.parametrize(
    ("wire", "steps"),
    [
        ({"kind": "Pod", "spec": {"containers": [{}]}}, [("spec",)]),
        (
            {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{}]}}}}}},
            [("spec", "jobTemplate", "spec", "template", "spec")],
        ),
        (
            {"kind": "PyTorchJob", "spec": {"specs": [{"template": {"spec": {"containers": [{}]}}}] * 2}},
            [("spec", "specs", 0, "template", "spec"), ("spec", "specs", 1, "template", "spec")],
        ),
        ({"kind": "CustomResourceDefinition", "spec": {"containers": {"type": "array"}}}, []),
    ],
)
def test_pods_are_found_in_objects_of_any_kind(wire: dict[str, Any], steps: list[tuple[str, ...]]) -> None:
    assert [pod.steps for pod in pod_specs(wire)] == steps


def test_without_time_a_pod_gets_what_was_found_and_a_word_on_the_rest() -> None:
    spec = SPEC.replace("claims: [{name: gpu}]", "limits: {nvidia.com/gpu: 1}")
    with Budget(0).in_force():
        assert [finding.code.value for finding in lint(spec)] == ["not-looked-at"]
