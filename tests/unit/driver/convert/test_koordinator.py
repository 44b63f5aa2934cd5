"""Koordinator's requests: how many GPUs, NICs and FPGAs they are, how large, and what has no equal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driver.convert import Outcome
from tests.unit.driver.convert.conversions import converted, fields, pod, request, requests

JOINT = "scheduling.koordinator.sh/device-joint-allocate"
HINT = "scheduling.koordinator.sh/device-allocate-hint"
PARTITION = "scheduling.koordinator.sh/gpu-partition-spec"


def annotated(resources: dict[str, Any], **annotations: Any) -> dict[str, Any]:
    names = {"joint": JOINT, "hint": HINT, "partition": PARTITION}
    made = pod(resources)
    made["metadata"]["annotations"] = {names[key]: json.dumps(value) for key, value in annotations.items()}
    return made


@pytest.mark.parametrize("domain", ["koordinator.sh", "kubernetes.io"])
@pytest.mark.parametrize(
    ("resources", "claim"),
    [
        ({"gpu": "100"}, "gpu 1"),
        ({"gpu": "50"}, "gpu-ratio 1 core=50 memoryRatio=50"),
        ({"gpu": "200"}, "gpu 2"),
        ({"gpu": 800}, "gpu 8"),
        ({"gpu-core": "100", "gpu-memory-ratio": "100"}, "gpu 1"),
        ({"gpu-core": "50", "gpu-memory-ratio": "40"}, "gpu-ratio 1 core=50 memoryRatio=40"),
        ({"gpu-core": "200", "gpu-memory-ratio": "200"}, "gpu 2"),
        ({"gpu-core": "100", "gpu-memory-ratio": "200"}, "gpu-ratio 2 core=50 memoryRatio=100"),
        ({"gpu-core": "100", "gpu-memory": "16Mi"}, "gpu 1 core=100 memory=16Mi"),
        ({"gpu-core": "50", "gpu-memory": "20Gi"}, "gpu 1 core=50 memory=20Gi"),
        ({"gpu-core": "200", "gpu-memory": "60Gi"}, "gpu 2 core=100 memory=30Gi"),
        ({"gpu-memory-ratio": "100"}, "gpu 1"),
        ({"gpu-memory-ratio": "300"}, "gpu 3"),
        ({"gpu-memory-ratio": "50"}, "gpu-ratio 1 memoryRatio=50"),
        ({"gpu-memory": "20Gi"}, "gpu 1 memory=20Gi"),
        ({"gpu-core": "0", "gpu-memory": "20Gi"}, "gpu 1 memory=20Gi"),
        ({"gpu.shared": "2", "gpu-core": "100", "gpu-memory-ratio": "60"}, "gpu-ratio 2 core=50 memoryRatio=30"),
        ({"gpu.shared": "2", "gpu-core": "50", "gpu-memory": "20Gi"}, "gpu 2 core=25 memory=10Gi"),
        ({"gpu.shared": "1", "gpu-memory": "20Gi"}, "gpu 1 memory=20Gi"),
        ({"gpu.shared": "2", "gpu-memory-ratio": "50"}, "gpu-ratio 2 memoryRatio=25"),
        ({"gpu.shared": "2", "gpu-memory-ratio": "200"}, "gpu 2"),
        ({"rdma": "100"}, "rdma 1"),
        ({"rdma": "200"}, "rdma 2"),
        ({"rdma": "25"}, "rdma 1 bandwidthRatio=25"),
        ({"fpga": "100"}, "fpga 1"),
        ({"fpga": "300"}, "fpga 3"),
        ({"fpga": "50"}, "fpga 1"),
    ],
    ids=lambda value: "+".join(f"{name}={amount}" for name, amount in value.items()) if isinstance(value, dict) else "",
)
def test_a_request_becomes_as_many_devices_as_its_scheduler_gives(
    domain: str, resources: dict[str, Any], claim: str
) -> None:
    conversion = converted(pod({f"{domain}/{name}": amount for name, amount in resources.items()}))
    assert conversion.outcome in (Outcome.CONVERTED, Outcome.NOTED)
    assert request(conversion) == claim
    assert {finding.field for finding in conversion.findings} == {
        f"spec.containers[0].resources.limits[{domain}/{name}]" for name in resources
    }


@pytest.mark.parametrize(
    ("resources", "field", "words"),
    [
        ({"gpu": "50", "gpu-core": "50"}, "gpu", "a request for koordinator.sh/gpu, koordinator.sh/gpu-core"),
        ({"gpu-core": "50"}, "gpu-core", "write gpu alone, or gpu-memory"),
        ({"gpu.shared": "2"}, "gpu.shared", "does not schedule"),
        ({"gpu-memory": "1Gi", "gpu-memory-ratio": "50"}, "gpu-memory", "does not schedule"),
        ({"gpu": "150"}, "gpu", "150 percent: above 100 expected a multiple of 100"),
        ({"gpu-core": "100", "gpu-memory-ratio": "150"}, "gpu-memory-ratio", "above 100 expected a multiple of 100"),
        ({"gpu-core": "150", "gpu-memory-ratio": "100"}, "gpu-core", "above 100 expected a multiple of 100"),
        ({"gpu-core": "200", "gpu-memory-ratio": "100"}, "gpu-core", "200 percent of one GPU"),
        ({"gpu.shared": "2", "gpu-core": "75", "gpu-memory": "2Gi"}, "gpu-core", "spread over 2 GPUs"),
        ({"gpu.shared": "2", "gpu-core": "300", "gpu-memory": "2Gi"}, "gpu-core", "150 percent of one GPU"),
        ({"gpu": "3300"}, "gpu", "33 devices for one container: a claim can have 32"),
        ({"gpu-memory": "16", "gpu-core": "10"}, "gpu-memory", "did you mean 16Gi?"),
        ({"rdma": "150"}, "rdma", "150 percent"),
        ({"fpga": "101"}, "fpga", "101 percent"),
        ({"gpu": "half"}, "gpu", "'half' is not a quantity"),
        ({"gpu": "0.5"}, "gpu", "has a fraction"),
        ({"gpu": -100}, "gpu", "is negative"),
        ({"gpu": True}, "gpu", "expected a whole number"),
        ({"gpu": ["100"]}, "gpu", "expected a whole number"),
        ({"gpu": 10**30}, "gpu", "too large a number"),
    ],
)  # fmt: skip
def test_what_its_scheduler_refuses_is_refused_with_its_field(
    resources: dict[str, Any], field: str, words: str
) -> None:
    conversion = converted(pod({f"koordinator.sh/{name}": amount for name, amount in resources.items()}))
    assert conversion.outcome is Outcome.REFUSED
    refused = fields(conversion, Outcome.REFUSED)
    assert words in refused[f"spec.containers[0].resources.limits[koordinator.sh/{field}]"]
    assert {finding.container for finding in conversion.findings} == {"main"}


def test_a_limit_unlike_the_request_is_refused() -> None:
    data = pod({"koordinator.sh/gpu": "100"})
    data["spec"]["containers"][0]["resources"]["requests"]["koordinator.sh/gpu"] = "50"
    refused = fields(converted(data), Outcome.REFUSED)
    (text,) = refused.values()
    assert "the limit is 100 and the request 50" in text


def test_both_names_of_one_resource_are_refused() -> None:
    conversion = converted(pod({"koordinator.sh/rdma": "100", "kubernetes.io/rdma": "100"}))
    assert fields(conversion, Outcome.REFUSED) == {
        "spec.containers[0].resources.limits[kubernetes.io/rdma]": (
            "asks for the same as koordinator.sh/rdma: write one of them"
        )
    }


def test_requests_without_limits_convert() -> None:
    """As Koordinator's documentation writes them: names of kubernetes.io need no limits."""
    conversion = converted(
        """
        kind: Pod
        spec:
          containers:
          - name: main
            resources: {requests: {cpu: 40m, kubernetes.io/gpu: "100"}}
        """
    )
    assert request(conversion) == "gpu 1"
    assert conversion.object["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "40m"},
        "claims": [{"name": "gpu"}],
    }


def test_nvidias_gpus_under_its_scheduler_are_nvidias_alone() -> None:
    conversion = converted(pod({"nvidia.com/gpu": "2"}, schedulerName="koord-scheduler"))
    assert request(conversion) == "gpu 2"
    ((selector,),) = (item["exactly"]["selectors"] for item in requests(conversion))
    assert selector["cel"]["expression"] == 'device.attributes["rootport.dev"].vendor == "nvidia"'
    assert "schedulerName" not in conversion.object["spec"]
    assert {finding.dialect for finding in conversion.findings} == {"Koordinator"}
    assert "koord-scheduler did beside" in fields(conversion, Outcome.NOTED)["spec.schedulerName"]


SAME_PCIE = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
PREFERRED = {"deviceTypes": ["gpu", "rdma"]}


def test_same_pcie_is_a_pair_under_a_switch() -> None:
    conversion = converted(annotated({"koordinator.sh/gpu": "100", "koordinator.sh/rdma": "100"}, joint=SAME_PCIE))
    assert conversion.outcome is Outcome.CONVERTED
    (template,) = conversion.templates
    assert template["spec"]["spec"]["devices"] == {
        "requests": [
            {"name": "nic-0", "exactly": {"deviceClassName": "rdma.rootport.dev"}},
            {"name": "gpu-0", "exactly": {"deviceClassName": "gpu.rootport.dev"}},
        ],
        "constraints": [{"requests": ["gpu-0", "nic-0"], "matchAttribute": "rootport.dev/pcieSwitch"}],
    }
    assert "annotations" not in conversion.object["metadata"]


@pytest.mark.parametrize(("rdma", "is_noted"), [("100", True), ("400", False), ("800", False)])
def test_each_gpu_gets_a_nic_under_its_switch(rdma: str, is_noted: bool) -> None:
    """Koordinator raises the number of NICs to that of the PCIe switches (device_allocator.go, jointAllocate)."""
    conversion = converted(annotated({"nvidia.com/gpu": "4", "koordinator.sh/rdma": rdma}, joint=SAME_PCIE))
    found = requests(conversion)
    assert [item["name"] for item in found] == [f"{kind}-{n}" for n in range(4) for kind in ("nic", "gpu")]
    assert [item["exactly"].get("count", 1) for item in found] == [2 if rdma == "800" else 1, 1] * 4
    shares = [item["exactly"]["capacity"]["requests"] for item in found if "capacity" in item["exactly"]]
    assert shares == ([{"bandwidth": "25G"}] * 4 if is_noted else [])
    notes = fields(conversion, Outcome.NOTED)
    assert any("rootport pairs --gpus 4 --nic-per switch" in text for text in notes.values()) is is_noted


def test_gpus_across_containers_share_the_nic_of_their_switch_as_well() -> None:
    data = annotated({"koordinator.sh/gpu": "800"}, joint=SAME_PCIE)
    data["spec"]["containers"].append({"name": "nic", "resources": {"limits": {"koordinator.sh/rdma": "400"}}})
    nics = [item["exactly"] for item in requests(converted(data)) if item["name"].startswith("nic")]
    assert [nic["capacity"]["requests"] for nic in nics] == [{"bandwidth": "50G"}] * 8


def test_without_a_required_scope_the_nearest_is_preferred_and_any_will_do() -> None:
    conversion = converted(annotated({"koordinator.sh/gpu": "50", "koordinator.sh/rdma": "100"}, joint=PREFERRED))
    gpu, nic = requests(conversion)
    alternatives = ["switch", "root", "root-no-numa", "numa", "node", "node-no-numa"]
    assert [rung["name"] for rung in nic["firstAvailable"]] == alternatives
    assert {rung["deviceClassName"] for rung in gpu["firstAvailable"]} == {"gpu-ratio.rootport.dev"}
    assert all(rung["capacity"]["requests"] == {"core": "50", "memoryRatio": "50"} for rung in gpu["firstAvailable"])


def test_many_gpus_that_only_prefer_a_near_nic_come_as_they_are() -> None:
    conversion = converted(annotated({"koordinator.sh/gpu": "800", "koordinator.sh/rdma": "800"}, joint=PREFERRED))
    assert [item["exactly"]["count"] for item in requests(conversion)] == [8, 8]
    assert any("kube-scheduler searches too long" in text for text in fields(conversion, Outcome.NOTED).values())


@pytest.mark.parametrize(
    ("gpu", "rdma", "uses"),
    [("100", "100", ["gpu-0", "nic-0"]), ("200", "100", [None, None]), ("100", "200", ["gpu-0", "nic-0"])],
)
def test_joint_allocation_over_containers_is_one_claim_of_the_pod(gpu: str, rdma: str, uses: list[str | None]) -> None:
    data = annotated({"koordinator.sh/gpu": gpu}, joint=SAME_PCIE)
    data["spec"]["containers"].append({"name": "nic", "resources": {"limits": {"koordinator.sh/rdma": rdma}}})
    conversion = converted(data)
    assert [claim["name"] for claim in conversion.object["spec"]["resourceClaims"]] == ["gpu"]
    named = [item["resources"]["claims"] for item in conversion.object["spec"]["containers"]]
    assert [[entry.get("request") for entry in entries] for entries in named] == [[use] for use in uses]
    told = any("sees all of its devices" in text for text in fields(conversion, Outcome.NOTED).values())
    assert told is (uses[0] is None)


@pytest.mark.parametrize(
    ("resources", "hint", "claim"),
    [
        ({"rdma": "100"}, {"rdma": {"vfSelector": {}}}, "rdma-vf 1"),
        ({"rdma": "1"}, {"rdma": {"vfSelector": {}}}, "rdma-vf 1"),
        ({"rdma": "2"}, {"rdma": {"vfSelector": {}, "allocateStrategy": "RequestsAsCount"}}, "rdma-vf 2"),
        ({"rdma": "2"}, {"rdma": {"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "DeviceLevel"}}, "rdma 2"),
        ({"rdma": "2"}, {"rdma": {"allocateStrategy": "RequestsAsCount"}}, "rdma 2 bandwidthRatio=1"),
        ({"rdma": "100"}, {"rdma": {"allocateStrategy": "ApplyForAll"}}, "rdma all"),
        ({"fpga": "100"}, {"fpga": {"allocateStrategy": "ApplyForAll"}}, "fpga all"),
        ({"gpu": "200"}, {"gpu": None}, "gpu 2"),
    ],
)  # fmt: skip
def test_a_hint_decides_how_many_and_of_what_kind(resources: dict[str, str], hint: dict[str, Any], claim: str) -> None:
    conversion = converted(annotated({f"koordinator.sh/{key}": text for key, text in resources.items()}, hint=hint))
    assert request(conversion) == claim


@pytest.mark.parametrize(
    ("annotation", "value", "attribute"),
    [
        ("hint", {"gpu": {"requiredTopologyScope": "PCIe"}}, "rootport.dev/pcieSwitch"),
        ("hint", {"gpu": {"requiredTopologyScope": "NUMANode"}}, "rootport.dev/numaNode"),
        ("hint", {"gpu": {"requiredTopologyScope": "Node"}}, None),
        ("partition", {"allocatePolicy": "Restricted"}, "rootport.dev/nvlinkDomain"),
        ("partition", {"ringBusBandwidth": "400Gi"}, None),
    ],
)
def test_gpus_that_belong_together_have_an_attribute_in_common(
    annotation: str, value: dict[str, Any], attribute: str | None
) -> None:
    conversion = converted(annotated({"koordinator.sh/gpu": "400"}, **{annotation: value}))
    constraints = conversion.templates[0]["spec"]["spec"]["devices"].get("constraints", [])
    assert [item["matchAttribute"] for item in constraints] == ([attribute] if attribute else [])
    assert conversion.outcome is (Outcome.NOTED if annotation == "partition" else Outcome.CONVERTED)


@pytest.mark.parametrize(
    ("annotation", "text", "words"),
    [
        (JOINT, "{", "cannot be read as JSON: "),
        (JOINT, "[]", "expected a JSON object"),
        (JOINT, '{"deviceTypes": "gpu"}', "expected a list of gpu, rdma, fpga"),
        (JOINT, '{"deviceTypes": ["gpu", "tpu"]}', "expected a list of gpu, rdma, fpga"),
        (JOINT, '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SameNUMA"}', "expected SamePCIe"),
        (HINT, "null", "expected a JSON object"),
        (HINT, '{"tpu": {}}', "'tpu' is no type of device"),
        (HINT, '{"rdma": []}', "rdma: expected an object"),
        (HINT, '{"rdma": {"selector": {"matchLabels": {"type": "a"}}}}', "rdma.selector selects by labels"),
        (HINT, '{"rdma": {"vfSelector": {"matchLabels": {"type": "a"}}}}', "rdma.vfSelector selects by labels"),
        (HINT, '{"rdma": {"allocateStrategy": "Some"}}', "expected ApplyForAll or RequestsAsCount"),
        (HINT, '{"rdma": {"exclusivePolicy": {}}}', "expected DeviceLevel or PCIeLevel"),
        (HINT, '{"gpu": {"requiredTopologyScope": "Device"}}', "expected PCIe, NUMANode, Node"),
        (PARTITION, '{"allocatePolicy": "Any"}', "expected BestEffort or Restricted"),
        (HINT, '{"gpu": "' + "x" * 20_000 + '"}', "cannot be read as JSON: "),
        (HINT, "[" * 10_000, "cannot be read as JSON: "),
    ],
)  # fmt: skip
def test_an_annotation_that_cannot_be_read_is_refused(annotation: str, text: str, words: str) -> None:
    data = pod({"koordinator.sh/gpu": "100"})
    data["metadata"]["annotations"] = {annotation: text}
    conversion = converted(data)
    refused = fields(conversion, Outcome.REFUSED)
    assert list(refused) == [f"metadata.annotations[{annotation}]"]
    assert words in refused[f"metadata.annotations[{annotation}]"]
    assert all(len(finding.value) <= 80 for finding in conversion.findings)


@pytest.mark.parametrize("provider", ["HAMi-core", "hami-core"])
@pytest.mark.parametrize(
    ("resources", "device_class", "sharing"),
    [
        ({"koordinator.sh/gpu": "50"}, "gpu-ratio-hami-core.rootport.dev", None),
        ({"koordinator.sh/gpu-memory": "4Gi"}, "gpu-hami-core.rootport.dev", None),
        ({"koordinator.sh/gpu": "100"}, "gpu.rootport.dev", None),
    ],
)
def test_the_isolation_label_is_the_strategy_of_shares(
    provider: str, resources: dict[str, str], device_class: str, sharing: dict[str, Any] | None
) -> None:
    data = pod(resources)
    data["metadata"]["labels"] = {"koordinator.sh/gpu-isolation-provider": provider, "app": "x"}
    conversion = converted(data)
    devices = conversion.templates[0]["spec"]["spec"]["devices"]
    assert [request["exactly"]["deviceClassName"] for request in devices["requests"]] == [device_class]
    config = devices.get("config", [])
    assert [entry["opaque"]["parameters"]["sharing"] for entry in config] == ([sharing] if sharing else [])
    assert conversion.object["metadata"]["labels"] == data["metadata"]["labels"]


@pytest.mark.parametrize(
    ("where", "name", "words"),
    [
        ("labels", "quota.scheduling.koordinator.sh/name", "ResourceQuota (gpu., gpu-ratio. and mig.rootport.dev"),
        ("annotations", "gang.scheduling.koordinator.sh/min-available", "Kueue"),
        ("labels", "pod-group.scheduling.sigs.k8s.io", "Kueue"),
        ("labels", "pod-group.scheduling.sigs.k8s.io/name", "Kueue"),
        ("annotations", "scheduling.koordinator.sh/reservation-affinity", "ResourceClaim"),
        ("labels", "scheduling.koordinator.sh/reservation-ignored", "ResourceClaim"),
        ("labels", "koordinator.sh/qosClass", "koordlet"),
        ("labels", "koordinator.sh/priority", "PriorityClass"),
        ("labels", "scheduling.koordinator.sh/preemption-policy", "PriorityClass"),
        ("labels", "quota.scheduling.koordinator.sh/preemptible", "preempts by PriorityClass"),
    ],
)
def test_what_has_no_equal_stays_with_a_note_of_what_to_do_instead(where: str, name: str, words: str) -> None:
    data = pod({"koordinator.sh/gpu": "100"})
    data["metadata"][where] = {name: "x"}
    conversion = converted(data)
    assert conversion.outcome is Outcome.NOTED
    notes = [finding for finding in conversion.findings if finding.outcome is Outcome.NOTED]
    assert [(finding.value, words in finding.text) for finding in notes] == [("x", True)]
    assert conversion.object["metadata"][where] == {name: "x"}


def test_nothing_is_said_of_a_pod_without_devices() -> None:
    data = pod({}, schedulerName="koord-scheduler")
    data["metadata"]["labels"] = {"koordinator.sh/qosClass": "LS"}
    assert converted(data).outcome is Outcome.UNCHANGED


def test_what_the_scheduler_allocated_is_dropped() -> None:
    data = pod({"koordinator.sh/gpu": "100"})
    data["metadata"]["annotations"] = {"scheduling.koordinator.sh/device-allocated": '{"gpu": []}', "kept": "yes"}
    assert converted(data).object["metadata"]["annotations"] == {"kept": "yes"}


@pytest.mark.parametrize(("others", "is_told"), [(0, False), (1, True)])
def test_that_a_container_sees_its_own_gpus_alone_is_told_where_there_are_others(others: int, is_told: bool) -> None:
    data = pod({"koordinator.sh/gpu": "100"})
    data["spec"]["containers"] += [{"name": "other"}] * others
    conversion = converted(data)
    told = [text for text in fields(conversion, Outcome.NOTED).values() if "every container" in text]
    assert bool(told) is is_told
    data = pod({"nvidia.com/gpu": "1"})
    data["spec"]["containers"].append({"name": "other"})
    assert converted(data).outcome is Outcome.CONVERTED


def test_a_label_of_its_own_does_not_take_the_gpus_of_another_systems_pod() -> None:
    data = pod({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
    data["metadata"]["labels"] = {"koordinator.sh/qosClass": "LS"}
    conversion = converted(data)
    assert request(conversion) == "gpu 1 memory=3000Mi"
    assert {finding.dialect for finding in conversion.findings} == {"HAMi"}


@pytest.mark.parametrize(("joint", "outcome"), [(SAME_PCIE, Outcome.REFUSED), (PREFERRED, Outcome.NOTED)])
@pytest.mark.parametrize(
    ("first", "others"),
    [
        ({"koordinator.sh/gpu": "100"}, [{"koordinator.sh/rdma": "100"}, {"koordinator.sh/rdma": "100"}]),
        ({"koordinator.sh/gpu": "100"}, [{"koordinator.sh/gpu": "50"}, {"koordinator.sh/rdma": "100"}]),
        ({"koordinator.sh/gpu": "100"}, [{"nvidia.com/mig-1g.10gb": "1"}, {"koordinator.sh/rdma": "100"}]),
    ],
)
def test_joint_allocation_that_no_claim_of_the_pod_says_is_told(
    first: dict[str, str], others: list[dict[str, str]], joint: dict[str, Any], outcome: Outcome
) -> None:
    data = annotated(first, joint=joint)
    data["spec"]["containers"] += [{"name": f"c{n}", "resources": {"limits": each}} for n, each in enumerate(others)]
    conversion = converted(data)
    assert conversion.outcome is outcome
    told = [finding.outcome for finding in conversion.findings if "of different containers" in finding.text]
    assert told == [outcome]


def test_a_reservation_reserves_nothing_with_claims() -> None:
    template = {"spec": pod({"koordinator.sh/gpu": "100"})["spec"]}
    reservation = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "spec": {"template": template},
    }
    (refusal,) = fields(converted(reservation), Outcome.REFUSED).items()
    assert refusal[0] == "kind"
    assert "reservations hold no claims" in refusal[1]
    assert "delete it" in refusal[1]
    assert converted({**reservation, "apiVersion": "example.com/v1"}).outcome is not Outcome.REFUSED
    assert converted({**reservation, "spec": {"template": {"spec": pod({})["spec"]}}}).outcome is Outcome.UNCHANGED
