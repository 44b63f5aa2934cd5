"""Parameters that read well and that no node would prepare, told by the rules of prepare itself."""

from __future__ import annotations

from typing import Any

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.adapters.manifests.claims import read_manifest_text
from driver.allocator import Allocator
from driver.api.gpu_policies import GpuPolicies
from driver.api.resource_v1 import DeviceClass, Node, ResourceClaim, ResourceClaimStatus
from driver.api.validation.defaults import with_defaults
from driver.errors import InputError
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.layout.slices import resource_slices
from driver.lint import LintFinding, lint_claim, lint_class
from driver.plan import IsolationHost, decide
from resourceclasses import device_classes_text
from tests.support.topologies import machine_file

CLASSES = {
    item.device_class.metadata.name: item.device_class
    for item in read_manifest_text(device_classes_text(), "resourceclasses").classes
}
MACHINE = read_topology(machine_file("azure-nd-h100-v5"), node="a", hardware=HardwareFacts(gpu_model="H100"))
PARAMETERS = "spec.devices.config[0].opaque.parameters"
POLICIES = {
    "apiVersion": "rootport.dev/v1alpha1",
    "kind": "GpuPolicies",
    "policies": [
        {"pciAddresses": ["0001:*", "0002:*"], "strategy": "mps"},
        {"pciAddresses": ["0003:*", "0008:*"], "strategy": "hamiCore"},
    ],
}
HALF = {"core": "50", "memory": "39Gi"}
MPS_ON_TWO = "strategy mps with several GPUs in one request"


def part(kind: str, capacity: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    sized = {"capacity": {"requests": capacity}} if capacity else {}
    return {"deviceClassName": f"{kind}.rootport.dev", **sized, **fields}


def config(kind: str, *requests: str, **fields: Any) -> dict[str, Any]:
    parameters = {"apiVersion": "rootport.dev/v1alpha1", "kind": kind, **fields}
    return {"requests": list(requests), "opaque": {"driver": "rootport.dev", "parameters": parameters}}


def sharing(strategy: str, **settings: Any) -> dict[str, Any]:
    return config("GpuConfig", "gpu", sharing={"strategy": strategy, **settings})


def mps(**settings: Any) -> dict[str, Any]:
    return sharing("mps", mps=settings)


def found(
    asked: dict[str, Any] | list[dict[str, Any]],
    *configs: dict[str, Any],
    classes: dict[str, DeviceClass] = CLASSES,
    state: ClusterState | None = None,
) -> list[LintFinding]:
    """What is said of the parameters of such a claim."""
    findings = lint_claim(claim_of(asked, *configs), classes=classes, state=state)
    return [finding for finding in findings if finding.code == "parameters-invalid"]


def claim_of(asked: dict[str, Any] | list[dict[str, Any]], *configs: Any) -> ResourceClaim:
    """A claim with a request ``gpu``; a list is its alternatives a, b, …"""
    if isinstance(asked, list):
        parts = [{"name": name, **each} for name, each in zip("abcdefgh", asked, strict=False)]
        request = {"name": "gpu", "firstAvailable": parts}
    else:
        request = {"name": "gpu", "exactly": asked}
    devices = {"requests": [request], "config": list(configs)}
    metadata = {"name": "c", "namespace": "ml", "uid": "0b5f2a6e-9a4e-4c7b-8a53-3f1a53f0c1de"}
    return with_defaults(ResourceClaim.model_validate({"metadata": metadata, "spec": {"devices": devices}}))


REFUSED = {
    "exclusive-share": (part("gpu", HALF), sharing("exclusive"), "sharing", "does not fit a share of 50 %"),
    "exclusive-memory-alone": (
        part("gpu", {"memory": "10Gi"}),
        sharing("exclusive"),
        "sharing",
        "does not fit a share of 10Gi of memory",
    ),
    "exclusive-ratio": (
        part("gpu-ratio", {"core": "25", "memoryRatio": "25"}),
        sharing("exclusive"),
        "sharing",
        "does not fit a share of 25 %",
    ),
    "threads": (
        part("gpu-mps", HALF),
        mps(activeThreadPercentage=60),
        "sharing",
        "activeThreadPercentage 60 is above the share's core of 50 %",
    ),
    "memory": (
        part("gpu-mps", HALF),
        mps(pinnedDeviceMemoryLimit="40Gi"),
        "sharing",
        "pinnedDeviceMemoryLimit 40Gi is above the share's memory of 39Gi",
    ),
    "no-unit": (
        part("gpu-mps", HALF),
        mps(pinnedDeviceMemoryLimit="8"),
        "sharing.mps.pinnedDeviceMemoryLimit",
        "this is 8 bytes; did you mean 8Gi?",
    ),
    "mps-on-whole-gpus": (part("gpu", count=2), mps(), "sharing", MPS_ON_TWO),
    "mps-on-two-halves": (part("gpu-mps", HALF, count=2), mps(), "sharing", MPS_ON_TWO),
    "another-strategy": (part("gpu", HALF), mps(), "sharing", "mps does not fit class gpu.rootport.dev"),
    "another-strategy-by-percent": (
        part("gpu-ratio-hami-core", {"core": "25", "memoryRatio": "25"}),
        sharing("timeSlicing"),
        "sharing",
        "timeSlicing does not fit class gpu-ratio-hami-core.rootport.dev",
    ),
    "gpu-for-mig": (
        part("mig"),
        config("GpuConfig", "gpu"),
        "kind",
        "devices of class mig.rootport.dev take MigConfig",
    ),
    "mig-for-gpu": (part("gpu"), config("MigConfig", "gpu"), "kind", "take GpuConfig"),
    "rdma-for-gpu": (part("gpu"), config("RdmaConfig", "gpu"), "kind", "take GpuConfig"),
    "fpga-for-nic": (part("rdma"), config("FpgaConfig", "gpu"), "kind", "take RdmaConfig"),
    "vf-of-claim": (part("rdma"), config("RdmaConfig", vf={"vlan": 5}), "vf", "expected in a DeviceClass alone"),
    "all-alternatives": ([part("mig"), part("rdma")], config("GpuConfig", "gpu"), "kind", "request gpu/a"),
}


@pytest.mark.parametrize(("asked", "parameters", "field", "words"), REFUSED.values(), ids=REFUSED)
def test_what_no_node_would_prepare_is_an_error(asked: Any, parameters: Any, field: str, words: str) -> None:
    first, *_ = findings = found(asked, parameters)
    assert {finding.severity for finding in findings} == {"error"}
    assert first.path == f"{PARAMETERS}.{field}"
    assert words in first.message


PERHAPS = {
    "all-gpus-may-be-one": (
        part("gpu", allocationMode="All"),
        mps(),
        "on nodes with more than one GPU, this is refused",
    ),
    "one-alternative": ([part("gpu"), part("mig")], config("GpuConfig", "gpu"), "where alternative gpu/b is taken"),
    "a-share-as-alternative": ([part("gpu"), part("gpu", HALF)], sharing("exclusive"), "where alternative gpu/b"),
    "for-nobody": (part("gpu"), config("MigConfig"), "MigConfig has no effect: the devices that the claim asks for"),
}


@pytest.mark.parametrize(("asked", "parameters", "words"), PERHAPS.values(), ids=PERHAPS)
def test_what_some_nodes_would_prepare_is_a_warning(asked: Any, parameters: Any, words: str) -> None:
    (finding,) = found(asked, parameters)
    assert finding.severity == "warning"
    assert words in finding.message


RIGHT = {
    "exclusive": (part("gpu"), sharing("exclusive")),
    "exclusive-all-of-the-memory": (part("gpu", {"core": "10"}), sharing("exclusive")),
    "exclusive-all-of-the-memory-by-percent": (part("gpu-ratio", {"memoryRatio": "100"}), sharing("exclusive")),
    "within-the-share": (part("gpu-mps", HALF), mps(activeThreadPercentage=50, pinnedDeviceMemoryLimit="39Gi")),
    "time-slicing-of-two": (part("gpu", HALF, count=2), sharing("timeSlicing")),
    "watched-over": (part("gpu", adminAccess=True, count=2), mps()),
    "for-the-right-alternative": ([part("gpu"), part("mig")], config("GpuConfig", "gpu/a")),
    "another-drivers-class": ({"deviceClassName": "gpu.example.com"}, config("GpuConfig", "gpu")),
    "nic": (part("rdma"), config("RdmaConfig", "gpu", rdmaCM=False)),
}


PREPARED = {name: (asked, given, False) for name, (asked, given, *_) in REFUSED.items()} | {
    name: (asked, given, True)
    for name, (asked, given) in RIGHT.items()
    if name not in {"another-drivers-class", "watched-over"}
}


@pytest.mark.parametrize(("asked", "parameters", "prepared"), PREPARED.values(), ids=PREPARED)
def test_prepare_says_the_same(asked: Any, parameters: Any, prepared: bool) -> None:
    claim = claim_of(asked, parameters)
    node = Node.model_validate({"metadata": {"name": "a"}})
    policies = GpuPolicies.model_validate(POLICIES)
    results = Allocator(resource_slices(MACHINE, policies=policies), CLASSES.values()).allocate(node, [claim])
    assert results is not None
    claim = claim.model_copy(update={"status": ResourceClaimStatus(allocation=results[0])})
    try:
        decide(claim, MACHINE, assume_minors=True, host=IsolationHost(simulated=True, policies=policies))
    except InputError:
        assert not prepared
    else:
        assert prepared


@pytest.mark.parametrize(("asked", "parameters"), RIGHT.values(), ids=RIGHT)
def test_nothing_is_said_of_parameters_that_fit(asked: Any, parameters: Any) -> None:
    assert found(asked, parameters) == []


def test_a_later_entry_replaces_an_earlier_one_here_as_well() -> None:
    assert found(part("gpu-mps", HALF), sharing("exclusive"), mps()) == []


def class_with(parameters: dict[str, Any], kind: str = "gpu") -> DeviceClass:
    wire = CLASSES[f"{kind}.rootport.dev"].to_wire()
    wire["spec"]["config"] = [{"opaque": parameters["opaque"]}]
    return DeviceClass.model_validate(wire)


def test_parameters_of_the_class_are_held_against_the_share_as_well() -> None:
    classes = CLASSES | {"gpu-mps.rootport.dev": class_with(sharing("exclusive"), "gpu-mps")}
    (finding,) = found(part("gpu-mps", HALF), classes=classes)
    assert (finding.severity, finding.path) == ("error", "spec.devices.requests[0].exactly.deviceClassName")
    assert found(part("gpu-mps", HALF), mps(), classes=classes) == []


def test_a_class_whose_devices_take_other_parameters_is_an_error() -> None:
    (finding,) = lint_class(class_with(config("GpuConfig"), "mig"))
    assert (finding.code, finding.severity, finding.path) == (
        "parameters-invalid",
        "error",
        "spec.config[0].opaque.parameters.kind",
    )


@pytest.mark.parametrize(("core", "findings"), [({"minimum": 10, "step": 10}, 0), ({"minimum": 1, "step": 1}, 1)])
def test_where_it_is_known_that_shares_are_rounded_up_the_rounded_one_counts(
    core: dict[str, int], findings: int
) -> None:
    policies = GpuPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [{"core": core, "strategy": "mps"}]}
    )
    state = ClusterState()
    for device_class in CLASSES.values():
        state.put(Kind.CLASS, device_class.to_wire())
    state.put(Kind.NODE, {"metadata": {"name": "a", "labels": {"kubernetes.io/hostname": "a"}}})
    for each in resource_slices(MACHINE, policies=policies):
        state.put(Kind.SLICE, each.to_wire())
    asked = part("gpu-mps", {"core": "55", "memory": "39Gi"})
    assert len(found(asked, mps(activeThreadPercentage=60), state=state)) == findings


def requests_of(*asked: dict[str, Any]) -> ResourceClaim:
    requests = [{"name": name, "exactly": each} for name, each in zip("abcdefgh", asked, strict=False)]
    wire = {"metadata": {"name": "c", "namespace": "ml"}, "spec": {"devices": {"requests": requests}}}
    return with_defaults(ResourceClaim.model_validate(wire))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        pytest.param((part("gpu-mps", HALF), part("gpu-mps", HALF)), "use MPS on one GPU only", id="two by MPS"),
        pytest.param(
            (part("gpu-hami-core", HALF), part("gpu-hami-core", HALF | {"core": "20"})),
            "requests a and b are for unlike shares",
            id="unequal shares",
        ),
        pytest.param((part("gpu-hami-core", HALF), part("gpu-hami-core", HALF)), "", id="equal shares"),
        pytest.param((part("gpu-hami-core", HALF), part("gpu-hami-core")), "", id="a share and a whole GPU"),
        pytest.param((part("gpu-mps", HALF), part("gpu", HALF)), "", id="two strategies"),
    ],
)
def test_shares_that_cannot_be_in_one_claim_are_errors(asked: tuple[dict[str, Any], ...], words: str) -> None:
    findings = [item for item in lint_claim(requests_of(*asked), classes=CLASSES) if item.code == "parameters-invalid"]
    assert [(item.severity, item.path, words in item.message) for item in findings] == (
        [("error", "spec.devices.requests[1].exactly", True)] if words else []
    )
