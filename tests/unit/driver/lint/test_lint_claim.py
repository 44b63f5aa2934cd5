"""What the linter finds in a claim, with and without devices to look at; and what it must not find."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.adapters.manifests.claims import read_manifest_text
from driver.api.resource_v1 import DeviceClass, ResourceClaim
from driver.api.validation.defaults import with_defaults
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.layout.slices import resource_slices
from driver.lint import LintCode, LintFinding, Severity, check_claim, lint_claim, lint_class, unread, unrecorded
from driver.pairs import PairsRequest, Scope, claim_spec
from resourceclasses import device_classes_text
from tests.support.topologies import machine_file

H100 = machine_file("azure-nd-h100-v5")
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
    return lint_claim(claim, classes=CLASSES | OTHER, state=state)


def codes(findings: tuple[LintFinding, ...]) -> list[tuple[str, str]]:
    return [(finding.code.value, finding.severity.value) for finding in findings]


EXACTLY = "spec.devices.requests[0].exactly"
SELECTOR = f"{EXACTLY}.selectors[0].cel.expression"
MEMORY = 'device.capacity["rootport.dev"].memory'
OTHER = {"other.example.com": DeviceClass.model_validate({"metadata": {"name": "other.example.com"}})}
OF_ALL_KINDS = DeviceClass.model_validate(
    {
        "metadata": {"name": "kinds.example.com"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "rootport.dev"'}}]},
    }
)
OTHER[OF_ALL_KINDS.metadata.name] = OF_ALL_KINDS
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
        "unknown-attribute", "warning", SELECTOR,
        ("nvidia.com/model, unless the administrator's policies publish it", "did you mean rootport.dev/model?"),
        id="domain",
    ),
    pytest.param(
        claim_of(request("p", "mig.rootport.dev", count=2), constraints=[match("gpu.nvidia.com/parentUUID")]),
        "constraint-attribute", "warning", "spec.devices.constraints[0].matchAttribute",
        ("never holds unless the administrator's policies publish it",),
        id="constraint-of-another-domain",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f"has({OWN}.nvlink) && {OWN}.nvlink == 1")),
        "unknown-attribute", "warning", SELECTOR, ("did you mean rootport.dev/nvlink",),
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
        "unknown-capacity", "error", SELECTOR, ("rdma, rdma-vf devices have it",),
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
        claim_of(request(capacity={"core": "10"})),
        "partial-share", "warning", f"{EXACTLY}.capacity.requests", ("all of the GPU's memory", "name memory as well"),
        id="core-without-memory",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f"{OWN}.index < '3'")),
        "selector-fails", "error", SELECTOR,
        ("no such overload", "for every device", "gives up on the pod", "rootport.dev/index is a whole number"),
        id="types-that-have-no-order",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f'{OWN}.uuid.startsWith("GPU-") || {OWN}.uuid < 5')),
        "selector-fails", "warning", SELECTOR, ("may end with an error (no such overload", "uuid is a string"),
        id="types-that-have-no-order-where-a-value-decides",
    ),
    pytest.param(
        claim_of(request("g", "gpu.rootport.dev", f'{OWN}.index == 1 || {MEMORY}.isLessThan(quantity("40GB"))')),
        "selector-fails", "warning", SELECTOR, ("'40GB' is not a quantity", "may end with an error"),
        id="no-quantity-where-a-value-decides",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f"{OWN}.index")),
        "selector-fails", "error", SELECTOR, ("could not be converted to bool", "a whole number"),
        id="selector-that-is-a-number",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f'{OWN}.type == "gpu" && 1/0 == 1')),
        "selector-fails", "error", SELECTOR, ("1/0 == 1 ends with an error", "division by zero"),
        id="division-by-zero",
    ),
    pytest.param(
        claim_of(request("g", "gpu.rootport.dev", f'{MEMORY}.compareTo(quantity("40GB")) >= 0')),
        "selector-fails", "error", f"{EXACTLY}.selectors[0].cel.expression",
        ("'40GB' is not a quantity", "did you mean 40G, or 40Gi in powers of 1024?"),
        id="no-quantity",
    ),
    pytest.param(
        claim_of(request("g", "other.example.com", 'device.capacity["x"].m.isLessThan(quantity("4 GiB"))')),
        "selector-fails", "error", SELECTOR, ("'4 GiB' is not a quantity", "did you mean 4Gi?"),
        id="no-quantity-for-a-device-of-another-driver",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f"{OWN}.model == 5")),
        "comparison-of-types", "error", SELECTOR,
        ("is never true", "rootport.dev/model is a string", "the constant is a whole number"),
        id="string-and-number",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f'{OWN}.cudaComputeCapability in ["9.0", "8.0"]')),
        "comparison-of-types", "error", SELECTOR, ("is a version", 'compareTo(semver("9.0.0"))'),
        id="version-and-strings",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f'{OWN}.model != 5 && !({OWN}.type == "x")')),
        "comparison-of-types", "warning", SELECTOR, ("is always true",),
        id="always-unlike",
    ),
    pytest.param(
        claim_of(request(capacity={"core": "50", "memory": "40"})),
        "small-amount", "warning", f"{EXACTLY}.capacity.requests[memory]", ("asks for 40 bytes; did you mean 40Gi?",),
        id="forty-bytes",
    ),
    pytest.param(
        claim_of(nic(capacity={"bandwidth": "100000"})),
        "small-amount", "warning", f"{EXACTLY}.capacity.requests[bandwidth]", ("did you mean 100000M?",),
        id="bits",
    ),
    pytest.param(
        claim_of(request("g", "gpu.rootport.dev", f'{MEMORY}.isGreaterThan(quantity("40"))')),
        "small-amount", "warning", SELECTOR, ("compares memory with 40 bytes; did you mean 40Gi?",),
        id="forty-bytes-in-a-selector",
    ),
    pytest.param(
        claim_of(), "asks-for-nothing", "warning", "spec.devices.requests", ("no request", "no device"), id="nothing"
    ),
    pytest.param(
        claim_of(
            request(), request("x", "other.example.com"),
            config=[{"requests": ["gpu"], "opaque": {"driver": "gpu.nvidia.com", "parameters": {}}}],
        ),
        "foreign-parameters", "warning", "spec.devices.config[0].opaque.driver",
        ("'gpu.nvidia.com'", "the devices of request gpu are of driver rootport.dev", "nobody reads them"),
        id="parameters-for-another-driver",
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
    assert codes(findings) == [(code, severity)]
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
        pytest.param(claim_of(request(capacity={"memory": "10Gi"})), id="memory-alone"),
        pytest.param(
            claim_of(
                request(
                    "g", "gpu.rootport.dev", f"int({OWN}.model.substring(0, 1)) + {OWN}.index > 1 || {OWN}.index == 1"
                )
            ),
            id="an-error-for-some-values-alone",
        ),
        pytest.param(
            claim_of(request("n", "rdma.rootport.dev", f'{OWN}.rdmaDevice.split("_")[1] == "3"')),
            id="a-value-in-parts-that-no-sample-has",
        ),
        pytest.param(
            claim_of(request("g", "gpu.rootport.dev", f"semver({OWN}.model).major() == 2")), id="a-value-that-is-parsed"
        ),
        pytest.param(
            claim_of(request("g", "gpu.rootport.dev", f'{OWN}.cudaComputeCapability.compareTo(semver("9.0.0")) >= 0')),
            id="versions",
        ),
        pytest.param(
            claim_of(
                request(),
                request("x", "other.example.com"),
                config=[{"opaque": {"driver": "gpu.nvidia.com", "parameters": {}}}],
            ),
            id="parameters-for-another-driver-that-has-a-part",
        ),
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
    assert not lint(claim)


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
        "capacity-unavailable", f"{EXACTLY}.capacity.requests[memory]", ("200Gi", "more than 81559Mi"),
        id="size",
    ),
    pytest.param(
        claim_of(request("n", "rdma.rootport.dev", capacity={"bandwidth": "500G"})),
        "capacity-unavailable", f"{EXACTLY}.capacity.requests[bandwidth]", ("ask for bandwidthRatio",),
        id="bandwidth",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu.rootport.dev", f"8 / {OWN}.index > 1")),
        "selector-fails", SELECTOR, ("division by zero", "gives up on the pod"),
        id="a-value-for-which-it-fails",
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
    assert codes(findings) == [(code, "error")]
    (finding,) = findings
    assert finding.path == path
    for word in words:
        assert word in f"{finding.message} ({finding.hint})"


def test_a_percentage_of_nics_of_known_speed_leads_to_as_much_bandwidth() -> None:
    inventory = read_topology(H100, node="a", hardware=HardwareFacts(gpu_model="H100"))
    state = state_of("a")
    for part in resource_slices(inventory):
        wire = part.to_wire()
        for device in wire["spec"].get("devices", []):
            if device["attributes"].get("type") == {"string": "rdma"}:
                device["capacity"] = {"bandwidth": {"value": "400G"}}
        state.put(Kind.SLICE, wire)
    (finding,) = lint(claim_of(request("n", "rdma.rootport.dev", capacity={"bandwidthRatio": "20"})), state)
    assert finding.code is LintCode.CAPACITY_UNAVAILABLE
    assert finding.hint == "ask for bandwidth 80G: that is 20 percent of NICs of 400G"


def test_where_it_is_known_what_is_published_an_attribute_of_another_domain_is_there_or_not(
    cluster: ClusterState,
) -> None:
    selector = 'device.attributes["gpu.nvidia.com"].productName == "x"'
    claim = claim_of(request("p", "gpu.rootport.dev", selector, count=2), constraints=[match("gpu.nvidia.com/uuid")])
    found = {finding.code.value: finding.severity.value for finding in lint(claim, cluster)}
    assert (found["unknown-attribute"], found["constraint-attribute"]) == ("error", "error")


def test_where_not_all_slices_could_be_read_an_attribute_of_another_domain_may_be_there() -> None:
    selector = 'device.attributes["gpu.nvidia.com"].productName == "x"'
    constraints = [match("gpu.nvidia.com/uuid"), match("rootport.dev/nothing")]
    claim = claim_of(request("p", "gpu.rootport.dev", selector, count=2), constraints=constraints)
    state = state_of("a")
    state.leave_out(Kind.SLICE, "b-0", "the dump has it as resource.k8s.io/v1beta1")
    found = lint_claim(claim, classes=CLASSES, state=state, unrecorded=unread(state))
    severities = {(finding.code.value, finding.path): finding.severity.value for finding in found}
    assert severities["unknown-attribute", SELECTOR] == "warning"
    assert severities["constraint-attribute", "spec.devices.constraints[0].matchAttribute"] == "warning"
    assert severities["constraint-attribute", "spec.devices.constraints[1].matchAttribute"] == "error"


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
        pytest.param(PairsRequest(gpus=3, nics=3, scope=Scope.LADDER), False, id="ladder-of-three"),
        pytest.param(PairsRequest(gpus=4, nics=4, scope=Scope.LADDER), True, id="ladder-of-four"),
        pytest.param(PairsRequest(gpus=4, nics=4, farthest=Scope.NUMA), False, id="ladder-of-four-to-numa"),
        pytest.param(PairsRequest(gpus=5, nics=5, farthest=Scope.NUMA), True, id="ladder-of-five-to-numa"),
        pytest.param(PairsRequest(gpus=8, nics=8, scope=Scope.SWITCH), False, id="eight-pairs"),
        pytest.param(PairsRequest(gpus=10, nics=10, scope=Scope.SWITCH), True, id="ten-pairs"),
    ],
)
def test_a_search_of_more_than_a_second_is_told(wish: PairsRequest, slow: bool) -> None:
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


@pytest.mark.parametrize("name", ["gpu.nvidia.com", "dranet.net", "imex.nvidia.com", "gpu.example.com", "gpu"])
def test_where_classes_may_be_missing_a_foreign_one_is_a_note(name: str) -> None:
    (finding,) = lint_claim(claim_of(request("x", name)), classes=CLASSES, classes_are_all=False)
    assert (finding.code, finding.severity) == (LintCode.UNKNOWN_CLASS, Severity.NOTE)
    assert "nothing is checked of what it selects" in finding.message
    assert "did you mean" not in finding.message + finding.hint
    assert not list(check_claim(claim_of(request("x", name)), CLASSES))


@pytest.mark.parametrize("name", ["gpu.rootport.de", "gpus.rootport.dev", "Gpu.rootport.dev", "rdma-fv.rootport.dev"])
def test_a_slip_in_the_name_of_one_of_rootports_classes_is_an_error_everywhere(name: str) -> None:
    claim = claim_of(request("x", name))
    (finding,) = lint_claim(claim, classes=CLASSES, classes_are_all=False)
    assert (finding.code, finding.severity) == (LintCode.UNKNOWN_CLASS, Severity.ERROR)
    assert "did you mean" in finding.message
    (error,) = check_claim(claim, CLASSES)
    assert error.path == f"{EXACTLY}.deviceClassName"


def test_on_a_cluster_a_class_that_is_not_there_is_an_error() -> None:
    (finding,) = lint(claim_of(request("x", "gpu.nvidia.com")))
    assert (finding.code, finding.severity) == (LintCode.UNKNOWN_CLASS, Severity.ERROR)
    assert finding.message.startswith("there is no DeviceClass 'gpu.nvidia.com'; known: fpga.rootport.dev, ")


def test_a_class_with_parameters_for_another_driver_is_told() -> None:
    wire = CLASSES["gpu.rootport.dev"].to_wire()
    wire["spec"]["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": {}}}]
    (finding,) = lint_class(DeviceClass.model_validate(wire))
    assert (finding.code, finding.path) == (LintCode.FOREIGN_PARAMETERS, "spec.config[0].opaque.driver")


UNRECORDED = [
    pytest.param(
        claim_of(request(capacity={"core": "50", "memory": "40Gi"})),
        "capacity-unavailable", "the GPUs' memory is not recorded", id="memory",
    ),
    pytest.param(
        claim_of(request("g", "gpu.rootport.dev", f'{OWN}.model == "NVIDIA H100 80GB HBM3"')),
        "selector-fails", "the GPUs' model is not recorded", id="model",
    ),
    pytest.param(
        claim_of(request(count=4), constraints=[match("rootport.dev/nvlinkDomain")]),
        "never-fits", "no NVLinks are recorded", id="nvlinks",
    ),
    pytest.param(
        claim_of(request(), nic(), constraints=[match("resource.kubernetes.io/pcieRoot")]),
        "never-fits", "PCIe roots are not recorded", id="roots",
    ),
    pytest.param(
        claim_of(request("vf", "rdma-vf.rootport.dev")), "selects-too-few", "a topology file records no VFs", id="vfs"
    ),
    pytest.param(
        claim_of(request("mig", "mig.rootport.dev")), "selects-too-few", "the GPUs' model is not recorded", id="mig"
    ),
    pytest.param(
        claim_of(nic("n", selectors=[{"cel": {"expression": f'"rail" in {OWN} && {OWN}.rail == 12'}}])),
        "selects-too-few", "a topology file does not record rails", id="rails",
    ),
    pytest.param(
        claim_of(request("gpu", "gpu-ratio.rootport.dev", capacity={"core": "50", "memoryRatio": "50"})),
        "selects-too-few", "the GPUs' memory is not recorded", id="gpu-ratio",
    ),
    pytest.param(
        claim_of(request("gpu", "kinds.example.com", f'{OWN}.type == "gpu-ratio"')),
        "selects-too-few", "the GPUs' memory is not recorded", id="gpu-ratio-by-selector",
    ),
    pytest.param(
        claim_of(request("gpu", "kinds.example.com", '"memoryRatio" in device.capacity["rootport.dev"]')),
        "selects-too-few", "the GPUs' memory is not recorded", id="memory-ratio-by-selector",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "code", "because"), UNRECORDED)
def test_what_follows_from_what_a_topology_file_does_not_record_is_no_error(
    claim: ResourceClaim, code: str, because: str
) -> None:
    inventory = read_topology(H100, node="a")
    state = state_of("a", hardware=HardwareFacts())
    assert codes(lint(claim, state)) == [(code, "error")]
    (finding,) = lint_claim(claim, classes=CLASSES | OTHER, state=state, unrecorded=unrecorded([inventory]))
    assert (finding.code.value, finding.severity) == (code, Severity.WARNING)
    assert finding.message.endswith("so it may fit")
    assert because in finding.message


@pytest.mark.parametrize(
    ("claim", "code", "because"),
    [
        pytest.param(
            claim_of(request(capacity={"core": "50", "memory": "60Gi"})),
            "capacity-unavailable", "the GPUs' memory is not recorded", id="memory",
        ),
        pytest.param(
            claim_of(request("a", capacity={"core": "50", "memory": "30Gi"}, count=5), request("b", count=5)),
            "never-fits", "the GPUs' memory is not recorded", id="all-of-it",
        ),
        pytest.param(
            claim_of(request("g", "gpu.rootport.dev", f'{OWN}.numaNode > 7 || {OWN}.?uuid.orValue("") == "x"')),
            "selects-too-few", "the GPUs' driver was not asked", id="selector",
        ),
    ],
)  # fmt: skip
def test_of_several_machines_each_may_have_what_it_does_not_record(
    claim: ResourceClaim, code: str, because: str
) -> None:
    known = HardwareFacts(gpu_memory_bytes=40 * 2**30)
    machines = [read_topology(H100, node="a", hardware=known), read_topology(H100, node="b")]
    state = state_of("a", hardware=known)
    state.put(Kind.NODE, {"metadata": {"name": "b"}})
    for part_of_b in resource_slices(machines[1]):
        state.put(Kind.SLICE, part_of_b.to_wire())
    assert codes(lint(claim, state)) == [(code, "error")]
    findings = lint_claim(claim, classes=CLASSES, state=state, unrecorded=unrecorded(machines))
    assert codes(findings) == [(code, "warning")]
    assert because in findings[0].message


def test_what_a_topology_file_records_stays_an_error() -> None:
    left_out = unrecorded([read_topology(H100, node="a")])
    state = state_of("a", hardware=HardwareFacts())
    for claim, code in (
        (claim_of(request(count=9)), "selects-too-few"),
        (claim_of(request("n", "rdma.rootport.dev", f'{OWN}.linkType == "ethernet"')), "selects-too-few"),
        (claim_of(request(count=8), nic(), constraints=[match("rootport.dev/numaNode")]), "never-fits"),
    ):
        assert codes(lint_claim(claim, classes=CLASSES, state=state, unrecorded=left_out)) == [(code, "error")]


MISNAMED = [
    pytest.param(request(capacity={"core": "50", "memoryRatio": "50"}), "gpu-ratio devices have it", id="other-kind"),
    pytest.param(
        request(capacity={"core": "50", "memoryratio": "50"}),
        "did you mean memoryRatio? gpu-ratio devices have it", id="other-kind-misspelled",
    ),
    pytest.param(
        request("gpu", "gpu-ratio.rootport.dev", capacity={"core": "50", "memoryratio": "50"}),
        "did you mean memoryRatio?", id="misspelled",
    ),
    pytest.param(
        request("gpu", "gpu.rootport.dev", 'device.capacity["rootport.dev"].memoryRatio.isGreaterThan(quantity("1"))'),
        "gpu-ratio devices have it", id="in-a-selector",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "hint"), MISNAMED)
def test_a_wrong_capacity_is_told_once_and_with_its_hint_whatever_is_published(
    cluster: ClusterState, asked: dict[str, Any], hint: str
) -> None:
    for state in (None, cluster):
        errors = [item for item in lint(claim_of(asked), state) if item.severity is Severity.ERROR]
        assert [(item.code, item.hint) for item in errors] == [(LintCode.UNKNOWN_CAPACITY, hint)]


@pytest.mark.parametrize(
    ("toleration", "hint"),
    [
        ({"key": "rootport.dev/managed", "operator": "Exists"}, "leave it out"),
        ({"key": "rootport.dev/managed", "operator": "Equal", "effect": "NoSchedule"}, "leave it out"),
        ({"operator": "Exists"}, "name the keys of the taints that are meant"),
    ],
    ids=["by its key", "by its empty value", "with every other"],
)
def test_who_tolerates_the_taint_of_managed_nodes_is_warned(toleration: dict[str, str], hint: str) -> None:
    other = {"key": "rootport.dev/unhealthy", "operator": "Exists"}
    request = {"name": "g", "exactly": {"deviceClassName": "gpu.rootport.dev", "tolerations": [other, toleration]}}
    (found,) = lint_claim(claim_of(request), classes=CLASSES)
    assert (found.code, found.severity) == (LintCode.MANAGED_TAINT_TOLERATED, Severity.WARNING)
    assert found.path == "spec.devices.requests[0].exactly.tolerations[1]"
    assert found.hint == hint


@pytest.mark.parametrize(
    "fields",
    [
        {"tolerations": [{"key": "rootport.dev/managed", "operator": "Equal", "value": "other"}]},
        {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
        {"tolerations": [{"operator": "Exists"}], "adminAccess": True},
    ],
    ids=["another value", "another effect", "admin access"],
)
def test_who_does_not_take_devices_of_managed_nodes_by_it_may_tolerate(fields: dict[str, Any]) -> None:
    request = {"name": "g", "exactly": {"deviceClassName": "gpu.rootport.dev", **fields}}
    assert lint_claim(claim_of(request), classes=CLASSES) == ()
