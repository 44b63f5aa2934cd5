"""The device metadata files of KEP-5304: the bytes of Kubernetes' own helper, where the pod's author looks for them."""

from __future__ import annotations

import json

import pytest

from driver.layout.slices import resource_slices
from driver.plan import PreparePlan, prepare_plan
from tests.support.paths import REPO
from tests.support.plan.builders import UID, claim, given, gpu, nic, node

ROOT = "/var/lib/kubelet/plugins/rootport.dev/device-metadata"
IN_CONTAINER = "/var/run/kubernetes.io/dra-device-attributes"
GOLDEN = REPO / "tests" / "data" / "device-metadata" / "template-claim.json"
NODE = node(gpu(0, model="NVIDIA H100 80GB HBM3 é", driver_version="580.95.05"), gpu(1), nic(0))
ANNOTATION = "resource.kubernetes.io/pod-claim-name"


def mounts(plan: PreparePlan) -> list[list[tuple[str, str]]]:
    """The mounts of each CDI device: host path and container path."""
    assert plan.spec is not None
    return [[(mount.host_path, mount.container_path) for mount in device.mounts] for device in plan.spec.devices]


def test_the_file_has_the_bytes_that_kubernetes_own_helper_writes() -> None:
    of = claim(
        given("gpu/large", "gpu-0000-10-00-0"),
        given("gpu/large", "gpu-0000-11-00-0"),
        name="train-gpus-x7k2p",
        annotations={ANNOTATION: "gpus"},
    )
    (file,) = prepare_plan(of, NODE, metadata_root=ROOT).files
    assert file.relative_path == f"{UID}/gpu.json"
    assert file.content == GOLDEN.read_bytes()


def test_each_requests_first_device_brings_its_file() -> None:
    of = claim(
        given("gpu", "gpu-0000-10-00-0"),
        given("nic", "rdma-0000-40-00-0"),
        given("gpu", "gpu-0000-11-00-0"),
    )
    plan = prepare_plan(of, NODE, metadata_root=ROOT)
    assert mounts(plan) == [
        [(f"{ROOT}/{UID}/gpu.json", f"{IN_CONTAINER}/resourceclaims/train/gpu/rootport.dev-metadata.json")],
        [(f"{ROOT}/{UID}/nic.json", f"{IN_CONTAINER}/resourceclaims/train/nic/rootport.dev-metadata.json")],
        [],
    ]
    assert plan.spec is not None
    assert plan.spec.devices[0].mounts[0].options == ("ro", "bind")
    assert [file.relative_path for file in plan.files] == [f"{UID}/gpu.json", f"{UID}/nic.json"]


def test_a_claim_from_a_template_is_found_by_the_pods_name_for_it() -> None:
    of = claim(given("gpu/large", "gpu-0000-10-00-0"), annotations={ANNOTATION: "gpus"})
    plan = prepare_plan(of, NODE, metadata_root=ROOT)
    assert mounts(plan)[0][0][1] == f"{IN_CONTAINER}/resourceclaimtemplates/gpus/gpu/rootport.dev-metadata.json"


@pytest.mark.parametrize("value", ["../../../etc", "a/b", "", "..", "A", "x" * 64])
def test_an_annotation_that_is_no_name_never_becomes_a_path(value: str) -> None:
    of = claim(given("gpu", "gpu-0000-10-00-0"), annotations={ANNOTATION: value})
    plan = prepare_plan(of, NODE, metadata_root=ROOT)
    assert mounts(plan)[0][0][1] == f"{IN_CONTAINER}/resourceclaims/train/gpu/rootport.dev-metadata.json"
    assert "podClaimName" not in json.loads(plan.files[0].content)


def test_a_container_is_not_told_a_rail_because_policies_may_have_published_another() -> None:
    plan = prepare_plan(claim(given("nic", "rdma-0000-40-00-0")), node(nic(0, rail=3)), metadata_root=ROOT)
    (device,) = json.loads(plan.files[0].content)["requests"][0]["devices"]
    assert "type" in device["attributes"]
    assert "rail" not in device["attributes"]


def test_the_attributes_are_those_of_the_published_slices() -> None:
    published = {
        device.name: device.to_wire()["attributes"] for item in resource_slices(NODE) for device in item.spec.devices
    }
    for attributes in published.values():
        attributes.pop("sharingStrategy", None)  # of the GpuPolicies
    plan = prepare_plan(claim(*(given("all", name) for name in published)), NODE, metadata_root=ROOT)
    (request,) = json.loads(plan.files[0].content)["requests"]
    told = {device["name"]: device["attributes"] for device in request["devices"]}
    assert {device: {key: value for key, value in told[device].items() if key != "distances"} for device in told} == (
        published
    )


def test_a_device_that_is_not_published_has_those_that_it_would_have() -> None:
    bare = node(gpu(0, minor=None))
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0")), bare, assume_minors=True, metadata_root=ROOT)
    (request,) = json.loads(plan.files[0].content)["requests"]
    assert request["devices"][0]["attributes"]["uuid"] == {"string": "GPU-00000000"}


def test_no_root_and_no_device_mean_no_file() -> None:
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0")), NODE)
    assert (plan.files, mounts(plan)) == ((), [[]])
    other = claim(given("tpu", "tpu-0", driver="tpu.example.com", pool="elsewhere"))
    assert prepare_plan(other, NODE, metadata_root=ROOT).files == ()
