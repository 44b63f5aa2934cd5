"""Shares of a GPU: what a claim was given of it, and what is refused."""

from __future__ import annotations

import timeit
from dataclasses import replace

import pytest
from hypothesis import given as every
from hypothesis import strategies as st

from driver.api.gpu_policies import GpuPolicies
from driver.api.resource_v1 import DeviceAllocationConfiguration, DeviceRequestAllocationResult, ResourceClaim
from driver.errors import InputError, NodeError, RootportError
from driver.model.devices import DeviceName, DeviceType
from driver.model.inventory import Inventory
from driver.plan import GpuUse, HamiCoreLibrary, IsolationHost, PreparePlan, decide, prepare_plan
from driver.plan.effects import RunMpsDaemon, SetTimeSlice
from tests.support.paths import REPO
from tests.support.plan.builders import (
    GIB,
    SHARE_IDS,
    UID,
    claim,
    config,
    fpga,
    given,
    gpu,
    h100,
    nic,
    node,
    parameters,
    share,
)
from tests.support.plan.driver_files import FILES
from tests.support.plan.policies import policies_of

GPU = "gpu-0000-10-00-0"
OTHER = "gpu-0000-11-00-0"
RATIO = "gpu-ratio-0000-10-00-0"
NODE = node(h100(0), h100(1), nic(0), fpga(0))
CLAIM = f"claim ml/train (uid {UID})"
GOLDEN = REPO / "tests" / "data" / "cdi"
HOST = IsolationHost(
    driver_version="580.95.05",
    nvidia_smi="/usr/bin/nvidia-smi",
    mps_control="/usr/bin/nvidia-cuda-mps-control",
    hami_core=HamiCoreLibrary(host_path="/opt/hami/libvgpu.so", version="0123456789ab"),
    files_root="/var/lib/files",
)


def strategy(name: str, *requests: str, **settings: object) -> DeviceAllocationConfiguration:
    return config(parameters("GpuConfig", sharing={"strategy": name, **settings}), *requests)


def host_for(of: ResourceClaim, host: IsolationHost = HOST) -> IsolationHost:
    return replace(host, policies=policies_of(of))


def plan_of(of: ResourceClaim, inventory: Inventory = NODE) -> PreparePlan:
    return prepare_plan(of, inventory, host=host_for(of))


def refusal(of: ResourceClaim, kind: type[RootportError] = InputError, inventory: Inventory = NODE) -> str:
    with pytest.raises(kind) as caught:
        decide(of, inventory, host=host_for(of))
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return caught.value.message


def half(request: str = "gpu", number: int = 0, device: str = GPU) -> DeviceRequestAllocationResult:
    return share(request, device, number, core=50, memory="40Gi")


def test_half_a_gpu_has_the_files_that_it_always_had() -> None:
    of = claim(half(), configs=(strategy("hamiCore"),))
    plan = prepare_plan(of, NODE, host=host_for(of), metadata_root="/var/lib/files")
    assert plan.spec is not None
    assert plan.spec.to_json() == (GOLDEN / "half-a-gpu.json").read_bytes()
    assert [file.relative_path for file in plan.files] == [
        f"{UID}/gpu.json",
        f"{UID}/hami-core.preload",
        f"{UID}/hami-core.env",
    ]


def test_a_share_is_told_to_the_kubelet_with_its_id_and_to_the_user_with_its_isolation() -> None:
    (device,) = plan_of(claim(half())).devices
    assert device.share_id == SHARE_IDS[0]
    assert device.cdi_device_ids == (f"rootport.dev/claim={UID}_gpu_{GPU}_{SHARE_IDS[0]}",)
    assert device.use == GpuUse(
        gpu=DeviceName(GPU),
        mode=DeviceType.GPU,
        whole=False,
        sharing="timeSlicing interval=Default",
        core=50,
        memory_bytes=40 * GIB,
        gpu_memory_bytes=80 * GIB,
    )
    assert device.isolation is not None
    assert (device.isolation.enforced, device.isolation.by) == (False, "time-slicing")


def test_percent_of_memory_become_bytes_and_are_rounded_down() -> None:
    odd = node(h100(0, memory_bytes=1001))
    (use,) = decide(claim(share("gpu", RATIO, core=10, memoryRatio=33)), odd).uses
    assert (use.gpu, use.mode, use.core, use.memory_bytes) == (GPU, DeviceType.GPU_RATIO, 10, 330)


@pytest.mark.parametrize(
    "consumed",
    [
        {"core": "50", "memory": "40Gi"},
        {"rootport.dev/core": "50", "rootport.dev/memory": "40Gi"},
        {"core": "5e1", "rootport.dev/memory": str(40 * GIB), "shares": "1"},
    ],
    ids=["plain", "with-domain", "mixed"],
)
def test_capacities_are_known_with_and_without_the_drivers_domain(consumed: dict[str, object]) -> None:
    (use,) = decide(claim(share("gpu", GPU, **consumed)), NODE).uses
    assert (use.core, use.memory_bytes) == (50, 40 * GIB)


@pytest.mark.parametrize(
    "result",
    [
        given("gpu", GPU),
        given("gpu", RATIO),
        share("gpu", GPU, core=100, memory="80Gi"),
        share("gpu", GPU, core=100),
        share("gpu", GPU, core=0, memory="80Gi"),
        share("gpu", GPU, core=30, memory="80Gi"),
        share("gpu", RATIO, core=0, memoryRatio=100),
    ],
    ids=[
        "older-slices",
        "without-the-gate",
        "all-of-it",
        "memory-not-told",
        "all-of-the-memory",
        "some-core-and-all-of-the-memory",
        "100-percent-of-the-memory",
    ],
)
def test_a_whole_gpu_is_whole_however_it_is_written(result: DeviceRequestAllocationResult) -> None:
    decision = decide(claim(result), NODE)
    (use,) = decision.uses
    assert (use.whole, use.memory_bytes, use.sharing) == (True, 80 * GIB, "exclusive")
    (device,) = prepare_plan(claim(result), NODE).devices
    assert device.isolation is not None
    assert (device.isolation.enforced, device.isolation.by) == (True, "device")


@pytest.mark.parametrize(("device", "core", "memory"), [(GPU, 100, "79Gi"), (GPU, 0, "1Gi"), (RATIO, 100, 99)])
def test_a_share_is_one_whatever_its_core(device: str, core: int, memory: object) -> None:
    amount = {"memoryRatio" if device == RATIO else "memory": memory}
    (use,) = decide(claim(share("gpu", device, core=core, **amount)), NODE).uses
    assert (use.whole, use.core, use.sharing) == (False, core, "timeSlicing interval=Default")


@pytest.mark.parametrize(("memory", "whole"), [("73Gi", True), ("63Gi", False)])
def test_all_of_the_memory_is_the_most_that_the_policies_let_a_share_have(memory: str, whole: bool) -> None:
    policies = GpuPolicies.model_validate(
        {
            "apiVersion": "rootport.dev/v1alpha1",
            "kind": "GpuPolicies",
            "policies": [{"memory": {"minimum": "3Gi", "step": "10Gi"}}],
        }
    )
    (use,) = decide(claim(share("gpu", GPU, core=0, memory=memory)), NODE, host=IsolationHost(policies=policies)).uses
    assert use.whole is whole


def test_a_gpu_whose_memory_is_not_known_is_shared_by_core_alone() -> None:
    (use,) = decide(claim(share("gpu", GPU, core=30)), node(gpu(0))).uses
    assert (use.core, use.memory_bytes) == (30, None)


@pytest.mark.parametrize(
    ("device", "consumed", "field", "message"),
    [
        (GPU, {"core": "101", "memory": "1Gi"}, "core", "'101': expected a whole number of percent from 0 to 100"),
        (GPU, {"core": "33.3", "memory": "1Gi"}, "core", "'33300m': expected a whole number of percent"),
        (GPU, {"core": "-5", "memory": "1Gi"}, "core", "'-5': expected"),
        (GPU, {"core": "5", "memory": "0"}, "memory", "'0': expected a whole number of bytes from 1 to 85899345920"),
        (GPU, {"core": "5", "memory": "100m"}, "memory", "'100m': expected a whole number of bytes"),
        (GPU, {"core": "5", "memory": "81Gi"}, "memory", "'81Gi': expected a whole number of bytes"),
        (GPU, {"core": "100", "memory": "9e30"}, "memory", "'9e30': expected a whole number of bytes"),
        (GPU, {"core": "5"}, "memory", "is missing"),
        (GPU, {"memory": "1Gi"}, "core", "is missing"),
        (GPU, {"core": "5", "memory": "1Gi", "memoryRatio": "5"}, "memoryRatio", "'5': a device of type gpu has core"),
        (GPU, {"core": "5", "memory": "1Gi", "rootport.dev/core": "5"}, "rootport.dev/core", "core is named twice"),
        (GPU, {"core": "5", "memory": "1Gi", "shares": "2"}, "shares", "'2': expected 1"),
        (GPU, {"core": "5", "memory": "1Gi", "other.dev/core": "5"}, "other.dev/core", "to consume"),
        (RATIO, {"core": "5", "memory": "1Gi"}, "memoryRatio", "is missing"),
        (RATIO, {"core": "5", "memoryRatio": "101"}, "memoryRatio", "'101': expected a whole number of percent"),
        (RATIO, {"core": "5", "memoryRatio": "0.5"}, "memoryRatio", "'500m': expected a whole number of percent"),
        (
            "rdma-0000-40-00-0",
            {"core": "5"},
            "core",
            "a device of type rdma has bandwidth or bandwidthRatio to consume",
        ),
        ("fpga-0000-80-00-0", {"core": "5"}, "core", "devices of type fpga have no capacity to consume"),
        ("mig-0000-10-00-0-1g-10gb-0", {"core": "5"}, "core", "devices of type mig have no capacity to consume"),
    ],
)
def test_an_amount_that_is_none_is_refused_with_field_and_value(
    device: str, consumed: dict[str, object], field: str, message: str
) -> None:
    told = refusal(claim(share("gpu", device, **consumed)))
    assert told.startswith(f"{CLAIM}: ")
    assert f"status.allocation.devices.results[0].consumedCapacity[{field}]: " in told
    assert message in told
    assert f"(request gpu, device {device})" in told


def test_a_share_without_an_id_and_an_id_without_a_share_are_refused() -> None:
    without = refusal(claim(given("gpu", GPU, consumedCapacity={"core": "50", "memory": "40Gi"})))
    assert "results[0].shareID: is missing" in without
    alone = refusal(claim(given("gpu", GPU, shareID=SHARE_IDS[0])))
    assert "results[0].consumedCapacity: is missing" in alone
    of_fpga = refusal(claim(given("fpga", "fpga-0000-80-00-0", shareID=SHARE_IDS[0])))
    assert "devices of type fpga are not given in shares" in of_fpga


@pytest.mark.parametrize("share_id", ["", "../x", "a_b", "A", "x" * 64, "a\n"])
def test_a_share_id_that_is_none_never_becomes_a_name(share_id: str) -> None:
    bad = given("gpu", GPU, shareID=share_id, consumedCapacity={"core": "50", "memory": "40Gi"})
    with pytest.raises(InputError, match="shareID"):
        decide(claim(bad), NODE)


def test_what_the_claim_asked_for_is_checked_with_all_errors_at_once() -> None:
    """A request policy rounds, so the allocation alone looks right."""
    of = claim(
        share("a", GPU, core=34, memory="1Gi"),
        share("b/small", OTHER, core=1, memory="80Gi"),
        configs=(config(parameters("GpuConfig", x=1)),),
        requests=(
            {"name": "a", "exactly": {"deviceClassName": "g", "capacity": {"requests": {"core": "33.3"}}}},
            {
                "name": "b",
                "firstAvailable": [
                    {"name": "large", "deviceClassName": "g", "capacity": {"requests": {"core": "900"}}},
                    {
                        "name": "small",
                        "deviceClassName": "g",
                        "capacity": {"requests": {"core": "0", "rootport.dev/memory": "200Gi"}},
                    },
                ],
            },
            {"name": "other", "exactly": {"deviceClassName": "g", "capacity": {"requests": {"core": "900"}}}},
        ),
    )
    told = refusal(of)
    assert "spec.devices.requests[0].exactly.capacity.requests[core]: 33300m is not a percentage" in told
    where = "spec.devices.requests[1].firstAvailable[1].capacity.requests"
    assert f"{where}[core]: 0 is not a percentage" in told
    assert f"{where}[rootport.dev/memory]: '200Gi' is more than {OTHER} has (80Gi)" in told
    assert "config[0].opaque.parameters.x: unknown field" in told
    assert "900" not in told


def test_shares_of_one_gpu_have_cdi_devices_of_their_own() -> None:
    of = claim(half("a", 0), half("b", 1), share("b", OTHER, 2, core=20, memory="10Gi"))
    plan = plan_of(of)
    ids = [device.cdi_device_ids[0] for device in plan.devices]
    assert len(set(ids)) == 3
    assert plan.spec is not None
    assert plan.spec.devices[1].env[-4:] == (
        "ROOTPORT_TRAIN__B_PCI=0000:10:00.0,0000:11:00.0",
        "ROOTPORT_TRAIN__B_UUID=GPU-00000000,GPU-00000001",
        "ROOTPORT_TRAIN__B_CORE=50,20",
        f"ROOTPORT_TRAIN__B_MEMORY={40 * GIB},{10 * GIB}",
    )


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ((half("a", 0), half("b", 0)), f"request b, device {GPU} is allocated to request a as well"),
        ((half("a", 0), half("a", 0)), f"request a, device {GPU} is allocated twice to one request"),
        ((half("a", 0), given("b", GPU)), f"request b, device {GPU} is allocated to request a as well"),
        (
            (half("a", 0), share("b", GPU, 1, core=1, memory=40 * GIB + 1)),
            f"request b, device {GPU}: the claim's shares of this GPU are {80 * GIB + 1} of its 80Gi of memory",
        ),
        (
            (half("a", 0), share("b", RATIO, 1, core=1, memoryRatio=1)),
            f"request b, device {RATIO} excludes {GPU}, which is allocated to request a: both are of one GPU",
        ),
    ],
    ids=["one-share-twice", "twice-to-a-request", "share-and-whole", "memory", "modes"],
)
def test_a_claim_that_was_given_more_than_there_is_is_refused(
    results: tuple[DeviceRequestAllocationResult, ...], message: str
) -> None:
    assert refusal(claim(*results)) == f"{CLAIM}, {message}"


def test_admin_access_is_no_use_of_a_gpu() -> None:
    watcher = given(
        "watch", GPU, adminAccess=True, shareID=SHARE_IDS[3], consumedCapacity={"core": 100, "memory": "80Gi"}
    )
    plan = plan_of(claim(half("a", 0), half("b", 1), watcher, configs=(strategy("mps", "a", "b"),)))
    assert [device.use is None for device in plan.devices] == [False, False, True]
    assert (plan.devices[2].isolation, plan.devices[2].share_id) == (None, SHARE_IDS[3])
    assert plan.spec is not None
    assert not any("MPS" in variable for variable in plan.spec.devices[2].env)
    assert not any("_CORE" in variable for variable in plan.spec.devices[2].env)


def test_an_effect_of_several_shares_is_named_once() -> None:
    short = strategy("timeSlicing", timeSlicing={"interval": "Short"})
    decision = decide(claim(half("a", 0), half("b", 1), configs=(short,)), NODE, host=HOST)
    assert decision.effects == (SetTimeSlice(gpu=GPU, uuid="GPU-00000000", interval="Short"),)
    plan = plan_of(claim(half("a", 0), half("b", 1), configs=(strategy("mps"),)))
    assert [type(effect) for effect in plan.effects] == [RunMpsDaemon]


def test_shares_of_one_gpu_with_two_strategies_are_refused() -> None:
    told = refusal(claim(half("a", 0), half("b", 1), configs=(strategy("timeSlicing", "a"), strategy("mps", "b"))))
    assert told == (
        f"{CLAIM}, request a, device {GPU}: the claim asks for sharing.strategy timeSlicing, and this GPU is shared by "
        "mps"
    )


def test_a_second_interval_of_one_gpu_follows_the_first() -> None:
    long, short = (strategy("timeSlicing", name.lower(), timeSlicing={"interval": name}) for name in ("Long", "Short"))
    plan = plan_of(claim(half("long", 0), half("short", 1), configs=(long, short)))
    assert plan.effects == (SetTimeSlice(gpu=GPU, uuid="GPU-00000000", interval="Long"),)
    told = [device.isolation.message for device in plan.devices if device.isolation is not None]
    assert "time slice is" not in told[0]
    assert told[1].endswith("; the time slice is Long, not Short: another share has set it")


def test_two_shares_that_need_one_variable_twice_are_refused_and_equal_ones_are_not() -> None:
    differing = claim(
        share("a", GPU, 0, core=20, memory="10Gi"),
        share("b", OTHER, 1, core=20, memory="20Gi"),
        configs=(strategy("hamiCore"),),
    )
    told = refusal(differing)
    assert told == (
        f"{CLAIM}: request a (device {GPU}) and request b (device {OTHER}) need different contents of the environment "
        "variable CUDA_DEVICE_MEMORY_LIMIT"
    )
    equal = claim(half("a", 0), half("b", 1, OTHER), half("b", 2), configs=(strategy("hamiCore"),))
    plan = plan_of(equal)
    assert len(plan.files) == 2
    assert plan.spec is not None
    of_a, first_of_b, second_of_b = plan.spec.devices
    assert of_a.mounts == first_of_b.mounts
    assert len(of_a.mounts) == 4
    assert second_of_b.mounts == ()


def test_a_share_that_is_not_whole_cannot_be_exclusive() -> None:
    assert "does not fit a share of 50 %" in refusal(claim(half(), configs=(strategy("exclusive"),)))


def test_a_means_of_isolation_that_the_node_lacks_is_the_nodes_fault() -> None:
    of = claim(half(), configs=(strategy("mps"),))
    with pytest.raises(NodeError, match="nvidia-cuda-mps-control"):
        decide(of, NODE, host=host_for(of, IsolationHost()))


def test_a_simulated_node_has_all_means_of_isolation() -> None:
    of = claim(half(), configs=(strategy("mps"),))
    plan = prepare_plan(of, NODE, assume_minors=True, host=host_for(of, IsolationHost(simulated=True)))
    assert plan.effects


def test_a_share_gets_the_drivers_files_as_a_whole_gpu_does() -> None:
    plan = prepare_plan(claim(share("gpu", RATIO, core=50, memoryRatio=50)), NODE, driver_files=FILES)
    assert plan.devices[0].cdi_device_ids[1:] == (f"rootport.dev/claim={UID}_nvidia-driver",)
    assert plan.device_paths[0] == "/dev/nvidia0"


def test_a_share_of_an_amd_gpu_takes_turns() -> None:
    amd = node(gpu(0, vendor="amd", minor=128, memory_bytes=64 * GIB))
    (device,) = prepare_plan(claim(share("gpu", GPU, core=50, memory="32Gi")), amd).devices
    assert device.isolation is not None
    assert not device.isolation.enforced


odd = st.sampled_from(["0", "1", "50", "100", "101", "33.3", "-1", "40Gi", "80Gi", "81Gi", "9e30", "1m"])
percent = st.integers(1, 60).map(str)
amounts = st.one_of(
    st.dictionaries(st.sampled_from(["core", "memory", "memoryRatio"]), odd, min_size=1),
    st.fixed_dictionaries({"core": percent, "memoryRatio": percent}),
    st.fixed_dictionaries({"core": percent, "memory": percent.map(lambda gib: f"{gib}Gi")}),
)
shares = st.builds(
    lambda request, device, number, consumed: share(request, device, number, **consumed),
    st.sampled_from(["a", "b"]),
    st.sampled_from([GPU, RATIO, OTHER]),
    st.integers(0, 3),
    amounts,
)


@every(st.lists(shares, min_size=1, max_size=4))
def test_no_decision_gives_more_than_the_card_has(results: list[DeviceRequestAllocationResult]) -> None:
    try:
        uses = decide(claim(*results), NODE).uses
    except InputError:
        return
    for name in {use.gpu for use in uses}:
        of_gpu = [use for use in uses if use.gpu == name]
        assert all(0 <= (use.core or 0) <= 100 for use in of_gpu)
        assert all(use.memory_bytes and use.memory_bytes >= 1 for use in of_gpu)
        assert sum(use.memory_bytes or 0 for use in of_gpu) <= 80 * GIB
        assert len({use.mode for use in of_gpu}) == 1


def test_a_large_node_is_decided_upon_in_a_fraction_of_the_time_that_prepare_has() -> None:
    dgx = node(*(h100(index) for index in range(8)), *(nic(index) for index in range(8)))
    of = claim(given("gpu", GPU))
    assert min(timeit.repeat(lambda: decide(of, dgx), number=20, repeat=5)) / 20 < 0.001
