"""What the plan refuses, by which error, and that the message says claim, request, device and what to do."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import ObjectMeta, ResourceClaim
from driver.errors import InputError, NodeError, UnsupportedError
from driver.model.inventory import Inventory
from driver.plan import claim_uid_of, prepare_plan, spec_file_name
from tests.support.plan.builders import UID, claim, config, fpga, given, gpu, nic, node, parameters

GPU = "gpu-0000-10-00-0"
NODE = node(gpu(0), gpu(1), nic(0))
CLAIM = f"claim ml/train (uid {UID})"
HUGE = pytest.param("a" * 10_000_000, id="huge")
HOSTILE = ["", "../../../etc/cron.d/x", "a/b", "A", "-a", "a-", "a b", "a\n", "x" * 64, "a_b", "é", ".."]


def refusal(of: ResourceClaim, kind: type[InputError | NodeError], inventory: Inventory = NODE) -> str:
    with pytest.raises(kind) as caught:
        prepare_plan(of, inventory)
    assert type(caught.value) is kind
    assert caught.value.hint or "cannot come from Kubernetes" in caught.value.message
    assert "\n" not in str(caught.value)
    return caught.value.message


def test_a_claim_that_is_not_allocated() -> None:
    unallocated = ResourceClaim(metadata=ObjectMeta(name="train", namespace="ml", uid=UID))
    assert refusal(unallocated, InputError) == f"{CLAIM} is not allocated"


def test_a_device_that_has_left_the_node() -> None:
    message = refusal(claim(given("gpu", "gpu-0000-77-00-0")), NodeError)
    assert message == f"{CLAIM}, request gpu, device 'gpu-0000-77-00-0' is not among the 3 devices of node node-a"


def test_a_claim_that_was_allocated_on_another_node() -> None:
    message = refusal(claim(given("gpu", GPU, pool="node-b")), InputError)
    assert message == f"{CLAIM}, request gpu, device '{GPU}' of pool 'node-b' is not on node node-a"


@pytest.mark.parametrize("admin", [False, True], ids=["plain", "admin-access"])
def test_a_device_given_twice_to_one_request(admin: bool) -> None:
    message = refusal(claim(given("gpu", GPU), given("gpu", GPU, adminAccess=admin)), InputError)
    assert message == f"{CLAIM}, request gpu, device {GPU} is allocated twice to one request"


def test_a_device_given_to_two_requests() -> None:
    message = refusal(claim(given("a", GPU), given("b", GPU, adminAccess=True), given("c", GPU)), InputError)
    assert message == f"{CLAIM}, request c, device {GPU} is allocated to request a as well"


def test_wrong_parameters_are_all_told_at_once() -> None:
    configs = (config(parameters("GpuConfig", x=1)), config(parameters("RdmaConfig"), "gpu"))
    message = refusal(claim(given("gpu", GPU), configs=configs), InputError)
    assert message == (
        f"{CLAIM}: status.allocation.devices.config[0].opaque.parameters.x: unknown field; known are apiVersion, kind, "
        f"sharing; status.allocation.devices.config[1]: RdmaConfig does not fit request gpu, which was given {GPU}, a "
        "device of type gpu: expected GpuConfig"
    )


def test_a_misfit_is_told_once_for_a_request_and_a_flood_of_mistakes_is_cut() -> None:
    both = claim(
        given("gpu", GPU), given("gpu", "gpu-0000-11-00-0"), configs=(config(parameters("RdmaConfig"), "gpu"),)
    )
    assert refusal(both, InputError).count("does not fit") == 1
    flood = config(parameters("GpuConfig", **{f"x{index}": 0 for index in range(900)}))
    message = refusal(claim(given("gpu", GPU), configs=(flood,)), InputError)
    assert message.endswith("; and 880 more")
    assert len(message) < 3500


@pytest.mark.parametrize(
    ("device", "part"),
    [
        (gpu(0, minor=None), "names no device node of this GPU"),
        (gpu(0, minor=None, vendor="amd"), "names no device node of this GPU"),
        (nic(0, verbs_minor=None), "names no /dev/infiniband/uverbs node"),
        (fpga(0, device_paths=()), "names no device node of this FPGA"),
        (fpga(0, device_paths=("/dev/../etc/shadow",)), "is not the path of a device node"),
        (fpga(0, device_paths=("/etc/shadow",)), "is not the path of a device node"),
        (fpga(0, device_paths=("/dev/a\nb",)), "is not the path of a device node"),
        (fpga(0, device_paths=("/dev/",)), "is not the path of a device node"),
    ],
    ids=["nvidia", "amd", "nic", "fpga", "dots", "outside-dev", "line-break", "dev-itself"],
)
def test_device_nodes_that_the_inventory_does_not_tell(device: object, part: str) -> None:
    message = refusal(claim(given("r", device.name)), NodeError, node(device))
    assert message.startswith(f"{CLAIM}, request r, device {device.name}: ")
    assert part in message


def test_a_gpu_of_a_vendor_without_known_device_nodes() -> None:
    message = refusal(claim(given("gpu", GPU)), UnsupportedError, node(gpu(0, vendor="0x1234")))
    assert "vendor 0x1234" in message


@pytest.mark.parametrize("uid", HOSTILE)
def test_a_uid_that_is_none_never_becomes_a_file_name(uid: str) -> None:
    with pytest.raises(InputError, match="is not a claim's UID"):
        spec_file_name(uid)
    refused = claim(given("gpu", GPU), uid=uid)
    with pytest.raises(InputError, match="is not a claim's UID"):
        prepare_plan(refused, NODE)


@pytest.mark.parametrize("text", [*(text for text in HOSTILE if text), HUGE])
@pytest.mark.parametrize("form", ["{}/gpu", "gpu/{}", "{}/{}"], ids=["request", "subrequest", "both"])
def test_a_request_that_kubernetes_would_refuse_is_refused(form: str, text: str) -> None:
    message = refusal(claim(given(form.format(text, text), GPU)), InputError)
    assert message.startswith(f"{CLAIM}: an allocation result cannot come from Kubernetes: ")
    assert len(message) < 400


@pytest.mark.parametrize("text", [*(text for text in HOSTILE if text), HUGE])
def test_a_namespace_that_kubernetes_would_refuse_is_refused(text: str) -> None:
    assert "metadata.namespace" in refusal(claim(given("gpu", GPU), namespace=text), InputError)


@pytest.mark.parametrize("request_name", ["", "/", "gpu/", "/gpu"])
def test_a_request_without_a_name_is_refused(request_name: str) -> None:
    assert "is required" in refusal(claim(given(request_name, GPU)), InputError)


@pytest.mark.parametrize("text", ["", "../x", "a b", "a\n", "x" * 254, "A"])
def test_a_claims_name_that_kubernetes_would_refuse_is_refused(text: str) -> None:
    assert "metadata.name" in refusal(claim(given("gpu", GPU), name=text), InputError)


@pytest.mark.parametrize("text", [*HOSTILE, HUGE])
def test_a_hostile_device_or_pool_name_is_quoted_and_cut(text: str) -> None:
    assert len(refusal(claim(given("gpu", text)), NodeError)) < 400
    assert len(refusal(claim(given("gpu", GPU, pool=text)), InputError)) < 400


def test_a_file_name_tells_the_claim_and_others_tell_none() -> None:
    assert claim_uid_of(spec_file_name(UID)) == UID
    ours = f"rootport.dev-claim_{UID}"
    for name in ("nvidia.yaml", f"{ours}.yaml", f".{ours}.json.x1.tmp", f"{ours}.json\n", "rootport.dev-claim_.json"):
        assert claim_uid_of(name) is None
