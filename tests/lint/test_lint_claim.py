"""What the linter finds in a claim, with and without devices to look at; and what it must not find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.manifests import read_manifest_text
from driver.adapters.nccl import read_topology
from driver.api.resource_v1 import DeviceClass, ResourceClaim
from driver.api.validation import with_defaults
from driver.explain.cluster import Kind
from driver.explain.state import ClusterState
from driver.layout import resource_slices
from driver.lint import LintCode, LintFinding, Severity, lint_claim, lint_class
from driver.pairs import PairsWish, Scope, claim_spec
from resourceclasses import device_classes_text

H100 = Path(__file__).parents[2] / "examples" / "topologies" / "azure-nd-h100-v5.xml"
CLASSES = {
    item.device_class.metadata.name: item.device_class
    for item in read_manifest_text(device_classes_text(), "resourceclasses").classes
}
OWN = 'device.attributes["rootport.dev"]'


def state_of(*nodes: str, hardware: HardwareFacts | None = None, drop: tuple[str, ...] = ()) -> ClusterState:
    """Nodes like one real machine; ``drop`` leaves attributes out of the first GPU."""
    state = ClusterState()
    for device_class in CLASSES.values():
        state.put(Kind.CLASS, device_class.to_wire())
    for node in nodes:
        inventory = read_topology(H100, node=node, hardware=hardware or HardwareFacts(gpu_model="H100"))
        state.put(Kind.NODE, {"metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}}})
        for part in resource_slices(inventory):
            wire = part.to_wire()
            for device in wire["spec"].get("devices", [])[:1]:
                for name in drop:
                    device["attributes"].pop(name, None)
            state.put(Kind.SLICE, wire)
    return state


@pytest.fixture(scope="module")
def cluster() -> ClusterState:
    return state_of("a", "b")


def claim_of(*requests: dict[str, Any], constraints: list[Any] | None = None, config: Any = ()) -> ResourceClaim:
    devices = {"requests": list(requests), "constraints": constraints or [], "config": list(config)}
    wire = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": devices},
    }
    return with_defaults(ResourceClaim.model_validate(wire))


def request(
    name: str = "gpu", device_class: str = "gpu.rootport.dev", *expressions: str, capacity: Any = None, **spec: Any
) -> dict[str, Any]:
    return {"name": name, "exactly": part(device_class, *expressions, capacity=capacity, **spec)}


def part(device_class: str, *expressions: str, capacity: Any = None, **spec: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    sized = {"capacity": {"requests": capacity}} if capacity else {}
    return {"deviceClassName": device_class, "selectors": selectors, **sized, **spec}


def nic(name: str = "nic", **spec: Any) -> dict[str, Any]:
    return request(name, "rdma.rootport.dev", **spec)


def match(attribute: str, *requests: str) -> dict[str, Any]:
    return {"matchAttribute": attribute, "requests": list(requests)}


def parameters(**values: Any) -> list[dict[str, Any]]:
    given = {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuConfig", **values}
    return [{"opaque": {"driver": "rootport.dev", "parameters": given}}]


def lint(claim: ResourceClaim, state: ClusterState | None = None) -> tuple[LintFinding, ...]:
    return lint_claim(claim, classes=CLASSES, state=state)


def told(findings: tuple[LintFinding, ...]) -> list[tuple[str, str]]:
    return [(finding.code.value, finding.severity.value) for finding in findings]


EXACTLY = "spec.devices.requests[0].exactly"
SELECTOR = f"{EXACTLY}.selectors[0].cel.expression"
STATIC = [
    pytest.param(
        claim_of(request(device_class="gpu.rootport.com")),
        "unknown-class", "error", f"{EXACTLY}.deviceClassName", ("did you mean gpu.rootport.dev?",),
        id="class",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", "device.driver == ")),
        "selector-invalid", "error", SELECTOR, ("Syntax error",),
        id="not-cel",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", "lists.range(100000).all(x, lists.range(1000).all(y, x > y))")),
        "selector-too-costly", "error", SELECTOR, ("the limit is 1000000",),
        id="cost",
    ),
    pytest.param(
        claim_of(request(), config=parameters(sharing={"what": 1})),
        "parameters-invalid", "error", "spec.devices.config[0].opaque.parameters.sharing.what", ("unknown field",),
        id="parameters",
    ),
    pytest.param(
        claim_of(request(capacity={"core": "500", "memory": "1Gi"})),
        "capacity-invalid", "error", f"{EXACTLY}.capacity.requests[core]", ("not a percentage",),
        id="percent",
    ),
    pytest.param(
        claim_of(request(count=20), nic(count=13), constraints=[match("rootport.dev/numaNode")]),
        "too-many-devices", "error", "spec.devices.requests", ("33 devices", "at most 32"),
        id="33-devices",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f'{OWN}.gpuModel == "x"')),
        "unknown-attribute", "error", SELECTOR, ("rootport.dev/gpuModel", "did you mean rootport.dev/model?"),
        id="attribute",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", 'device.attributes["nvidia.com"].model == "x"')),
        "unknown-attribute", "error", SELECTOR, ("nvidia.com/model", "did you mean rootport.dev/model?"),
        id="domain",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f"has({OWN}.nvlink) && {OWN}.nvlink == 1")),
        "unknown-attribute", "warning", SELECTOR, ("did you mean rootport.dev/nvlinkDomain?",),
        id="attribute-that-is-asked-for-first",
    ),
    pytest.param(
        claim_of(request("n", "rdma.rootport.dev", f'{OWN}.uuid == "x"')),
        "unknown-attribute", "error", SELECTOR, ("devices of this class have no attribute", "gpu-ratio devices have"),
        id="attribute-of-another-kind",
    ),
    pytest.param(
        claim_of(request(capacity={"core": "50", "memroy": "1Gi"})),
        "unknown-capacity", "error", f"{EXACTLY}.capacity.requests[memroy]", ("did you mean memory?",),
        id="capacity",
    ),
    pytest.param(
        claim_of(request(capacity={"core": "50", "rootport.dev/memory": "1Gi"})),
        "unknown-capacity", "error", f"{EXACTLY}.capacity.requests[rootport.dev/memory]", ("write memory",),
        id="capacity-with-its-domain",
    ),
    pytest.param(
        claim_of(
            request("g", "gpu.rootport.dev", 'device.capacity["rootport.dev"].bandwidth.isGreaterThan(quantity("1"))')
        ),
        "unknown-capacity", "error", SELECTOR, ("rdma devices have it",),
        id="capacity-of-another-kind",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f'{OWN}.pcieSwitch == "x"')),
        "unguarded-attribute", "warning", SELECTOR, ("rootport.dev/pcieSwitch", 'begin with: "pcieSwitch" in'),
        id="guard",
    ),
    pytest.param(
        claim_of(request(), nic(), constraints=[match("rootport.dev/nvlinkDomain")]),
        "constraint-attribute", "error", "spec.devices.constraints[0].matchAttribute", ("request nic", "gpu"),
        id="constraint-on-what-one-lacks",
    ),
    pytest.param(
        claim_of(request(), nic(), constraints=[match("rootport.dev/pcie-switch")]),
        "constraint-attribute", "error", "spec.devices.constraints[0].matchAttribute",
        ("did you mean rootport.dev/pcieSwitch?",),
        id="constraint-typo",
    ),
    pytest.param(
        claim_of(request(), constraints=[match("rootport.dev/numaNode")]),
        "constraint-without-effect", "warning", "spec.devices.constraints[0]", ("one device alone",),
        id="constraint-on-one",
    ),
    pytest.param(
        claim_of(request(), nic()),
        "unpaired-devices", "warning", "spec.devices.requests[1]", ("(gpu)", "(nic)", "matchAttribute"),
        id="no-pair",
    ),
    pytest.param(
        claim_of(
            {"name": "gpu", "firstAvailable": [{"name": name, **part("gpu.rootport.dev")} for name in ("a", "b")]}
        ),
        "redundant-alternative", "warning", "spec.devices.requests[0].firstAvailable[1]", ("gpu/b", "gpu/a"),
        id="alternative",
    ),
    pytest.param(
        claim_of(request(capacity={"memory": "10Gi"})),
        "partial-share", "warning", f"{EXACTLY}.capacity.requests", ("all of the GPU's core",),
        id="memory-without-core",
    ),
    pytest.param(
        claim_of(*(request(f"gpu-{index}") for index in range(12))),
        "slow-search", "warning", "spec.devices.requests", ("479,001,600 combinations",),
        id="many-alike-requests",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "code", "severity", "path", "words"), STATIC)
def test_what_is_wrong_on_every_cluster_is_told(
    claim: ResourceClaim, code: str, severity: str, path: str, words: tuple[str, ...]
) -> None:
    findings = lint(claim)
    assert told(findings) == [(code, severity)]
    (finding,) = findings
    assert finding.path == path
    for word in words:
        assert word in f"{finding.message} ({finding.hint})"


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(claim_of(request()), id="one-gpu"),
        pytest.param(claim_of(request("gpu", "gpu.rootport.dev", f'{OWN}.model == "x"')), id="model"),
        pytest.param(
            claim_of(request("n", "rdma.rootport.dev", f'"rail" in {OWN} && {OWN}.rail == 1')), id="guarded-by-in"
        ),
        pytest.param(
            claim_of(request("n", "rdma.rootport.dev", f"has({OWN}.rail)", f"{OWN}.rail == 1")),
            id="guarded-by-an-earlier-selector",
        ),
        pytest.param(claim_of(request("n", "rdma.rootport.dev", f"{OWN}.?rail.orValue(1) == 1")), id="optional"),
        pytest.param(claim_of(request(), nic(), constraints=[match("rootport.dev/pcieSwitch")]), id="pair"),
        pytest.param(
            claim_of(request(allocationMode="All"), nic(allocationMode="All")), id="all-devices-need-no-pairs"
        ),
        pytest.param(claim_of(request(count=8), constraints=[match("rootport.dev/numaNode")]), id="count"),
        pytest.param(claim_of(request(capacity={"core": "50", "memory": "10Gi"})), id="share"),
        pytest.param(
            claim_of(request("x", "other.example.com", 'device.attributes["o"].x == 1', capacity={"mem": "1"})),
            id="another-drivers-class",
        ),
        pytest.param(
            claim_of(
                {
                    "name": "x",
                    "firstAvailable": [
                        {"name": "mig", **part("mig.rootport.dev")},
                        {"name": "gpu", **part("gpu.rootport.dev")},
                    ],
                },
                nic(),
                constraints=[match("rootport.dev/numaNode"), match("rootport.dev/pcieSwitch")],
            ),
            id="one-alternative-lacks-the-attribute",
        ),
    ],
)
def test_nothing_is_said_of_what_is_right(claim: ResourceClaim) -> None:
    other = DeviceClass.model_validate({"metadata": {"name": "other.example.com"}})
    assert not lint_claim(claim, classes=CLASSES | {"other.example.com": other})


PUBLISHED = [
    pytest.param(
        claim_of(request(count=9)),
        "selects-too-few", f"{EXACTLY}.count", ("no node has more than 8", "ask for 8"),
        id="count",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f'{OWN}.type == "gpu" && {OWN}.model == "nvidia-h100-80gb-hbm3"')),
        "selects-too-few", SELECTOR,
        ("none of the 16", f"{OWN}.model ==", "is false for 16", "did you mean 'NVIDIA H100 80GB HBM3'?"),
        id="value",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f"{OWN}.numaNode == 0", count=5)),
        "selects-too-few", SELECTOR, ("at most 4 on a node of the 16", "is 1"),
        id="selector-and-count",
    ),
    pytest.param(
        claim_of(request("fpga", "fpga.rootport.dev")),
        "selects-too-few", EXACTLY, ("no node has any",),
        id="kind",
    ),
    pytest.param(
        claim_of(request(capacity={"core": "10", "memory": "200Gi"})),
        "capacity-unavailable", f"{EXACTLY}.capacity.requests[memory]", ("200Gi", "more than 80Gi"),
        id="size",
    ),
    pytest.param(
        claim_of(request("n", "rdma.rootport.dev", capacity={"bandwidth": "500G"})),
        "capacity-unavailable", f"{EXACTLY}.capacity.requests[bandwidth]", ("bandwidth",),
        id="bandwidth",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f"{OWN}.index < '3'")),
        "selector-fails", SELECTOR, ("no such overload", "gives up on the pod"),
        id="type-of-value",
    ),
    pytest.param(
        claim_of(request(count=8), nic(), constraints=[match("rootport.dev/numaNode")]),
        "never-fits", "spec.devices.constraints[0]", ("the same rootport.dev/numaNode", "without this constraint"),
        id="constraint",
    ),
    pytest.param(
        claim_of(request("a", count=5), request("b", count=5)),
        "never-fits", "spec.devices", ("together",),
        id="together",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "code", "path", "words"), PUBLISHED)
def test_what_fits_no_published_device_is_told(
    cluster: ClusterState, claim: ResourceClaim, code: str, path: str, words: tuple[str, ...]
) -> None:
    assert LintCode(code) not in {finding.code for finding in lint(claim)}, "told without devices as well"
    findings = lint(claim, cluster)
    assert told(findings) == [(code, "error")]
    (finding,) = findings
    assert finding.path == path
    for word in words:
        assert word in f"{finding.message} ({finding.hint})"


def test_what_is_in_use_does_not_count(cluster: ClusterState) -> None:
    claim = claim_of(request(count=8))
    allocated = {
        "metadata": {"name": "other", "namespace": "x", "uid": "u"},
        "spec": {"devices": {"requests": [request()]}},
        "status": {
            "allocation": {
                "devices": {
                    "results": [{"request": "gpu", "driver": "rootport.dev", "pool": "c", "device": "gpu-0001-00-00-0"}]
                }
            }
        },
    }
    state = state_of("c")
    state.put(Kind.CLAIM, allocated)
    assert state.held_on("c")
    assert not lint(claim, state)


def test_a_selector_that_only_some_devices_answer_is_an_error() -> None:
    state = state_of("a", drop=("model",))
    (finding,) = lint(claim_of(request("gpu", "gpu.rootport.dev", f'{OWN}.model.contains("H100")')), state)
    assert (finding.code, finding.severity) == (LintCode.SELECTOR_FAILS, Severity.ERROR)
    assert "no such key: model" in finding.message


def test_an_alternative_that_finds_nothing_is_no_matter_where_another_does(cluster: ClusterState) -> None:
    alternatives = [{"name": "fpga", **part("fpga.rootport.dev")}, {"name": "gpu", **part("gpu.rootport.dev")}]
    assert not lint(claim_of({"name": "any", "firstAvailable": alternatives}), cluster)
    alternatives[1]["count"] = 9
    findings = lint(claim_of({"name": "any", "firstAvailable": alternatives}), cluster)
    assert [finding.path for finding in findings] == [
        "spec.devices.requests[0].firstAvailable[0]",
        "spec.devices.requests[0].firstAvailable[1].count",
    ]


def test_without_classes_rootports_own_are_known_by_name() -> None:
    findings = lint_claim(claim_of(request(capacity={"core": "50", "memroy": "1Gi"}), request("x", "no.such.class")))
    assert [finding.code for finding in findings] == [LintCode.UNKNOWN_CAPACITY]


@pytest.mark.parametrize(
    ("wish", "slow"),
    [
        # What kube-scheduler's allocator was measured to take (docs/user/joint-allocation.md): 0.17 s, 1.9 s, 0.29 s.
        pytest.param(PairsWish(gpus=4, nics=4, scope=Scope.LADDER), False, id="ladder-of-four"),
        pytest.param(PairsWish(gpus=5, nics=5, scope=Scope.LADDER), True, id="ladder-of-five"),
        pytest.param(PairsWish(gpus=8, nics=8, scope=Scope.SWITCH), False, id="eight-pairs"),
        pytest.param(PairsWish(gpus=10, nics=10, scope=Scope.SWITCH), True, id="ten-pairs"),
    ],
)
def test_a_search_of_more_than_a_second_is_told(wish: PairsWish, slow: bool) -> None:
    wire = {"metadata": {"name": "c", "namespace": "d"}, "spec": claim_spec(wish).to_wire()}
    claim = with_defaults(ResourceClaim.model_validate(wire))
    assert {finding.code for finding in lint(claim)} == ({LintCode.SLOW_SEARCH} if slow else set())


@pytest.mark.parametrize("name", CLASSES)
def test_rootports_own_classes_are_right(name: str) -> None:
    assert not lint_class(CLASSES[name])


def test_a_class_that_fails_for_devices_of_other_drivers_is_told() -> None:
    expression = f'{OWN}.type == "gpu" && device.driver == "rootport.dev" || {OWN}.type == "x"'
    wire = yaml.safe_load(f"metadata: {{name: c}}\nspec: {{selectors: [{{cel: {{expression: '{expression}'}}}}]}}")
    (finding,) = lint_class(DeviceClass.model_validate(wire))
    assert finding.code is LintCode.UNGUARDED_ATTRIBUTE
    assert finding.path == "spec.selectors[0].cel.expression"
    assert 'begin with: device.driver == "rootport.dev" &&' in finding.hint
