"""The claims that requests become: valid, without anything that lint finds, and allocated as they mean on machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from driver.adapters.machines.topology import read_topology
from driver.allocator import Allocator
from driver.api.resource_v1 import Node, ObjectMeta, ResourceClaim
from driver.api.validation.claims import validate_claim
from driver.api.validation.defaults import with_defaults
from driver.convert.claims import claim_lines, claim_of, template
from driver.convert.requests import DeviceRequest, FpgaRequest, GpuRequest, Match, Near, NicRequest, Wanted
from driver.errors import InputError
from driver.layout.slices import resource_slices
from driver.lint import lint_claim
from driver.lint.findings import LintCode
from driver.model.devices import RdmaPort
from driver.model.inventory import Inventory
from tests.support.machines import gpu, nic, node
from tests.support.topologies import REAL_MACHINE_FILES, machine_file
from tests.unit.driver.convert.conversions import CLASSES

MOST_STEPS = 5000


def checked(request: DeviceRequest) -> ResourceClaim:
    metadata = ObjectMeta(name="claim", namespace="ml")
    claim = ResourceClaim.model_validate({"metadata": metadata, "spec": claim_of(request).spec})
    assert validate_claim(claim) == ()
    found = lint_claim(with_defaults(claim), classes=CLASSES)
    if claim_of(request).notes:
        assert [finding.code for finding in found] == [LintCode.UNPAIRED_DEVICES]
    else:
        assert not found, found
    return with_defaults(claim)


def allocated(inventory: Inventory, claims: Sequence[ResourceClaim]) -> list[list[dict[str, str]]] | None:
    node = Node(metadata=ObjectMeta(name=inventory.node))
    classes = list(CLASSES.values())
    found = Allocator(resource_slices(inventory), classes, max_steps=MOST_STEPS).allocate(node, list(claims))
    if found is None:
        return None
    return [[result.to_wire() for result in each.devices.results] for each in found]


def with_memory() -> Inventory:
    """A machine with 8 H100; topology files do not record a GPU's memory."""
    inventory = read_topology(machine_file("azure-nd-h100-v5"))
    return replace(inventory, gpus=tuple(replace(gpu, memory_bytes=81559 * 2**20) for gpu in inventory.gpus))


def pair(near: Near, gpus: int = 1, nics: int = 1) -> DeviceRequest:
    return DeviceRequest(gpus=(GpuRequest(count=gpus),), nics=(NicRequest(count=nics),), near=near)


@pytest.mark.parametrize("topology", REAL_MACHINE_FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_who_prefers_a_near_nic_gets_devices_wherever_there_are_as_many(topology: Path, count: int) -> None:
    inventory = read_topology(topology)
    found = allocated(inventory, [checked(pair(Near.PREFERRED, count, count))])
    assert (found is not None) == (len(inventory.gpus) >= count <= len(inventory.nics))


def test_the_nearest_nic_is_taken_first() -> None:
    inventory = read_topology(machine_file("azure-nd-h100-v5"))
    found = allocated(inventory, [checked(pair(Near.PREFERRED))])
    assert found is not None
    assert [result["request"] for result in found[0]] == ["gpu-0/switch", "nic-0/switch"]


@pytest.mark.parametrize("per_switch", [1, 2, 4, 8])
@pytest.mark.parametrize("nics", [1, 4])
def test_a_nic_for_each_switch_whatever_the_machine_has(per_switch: int, nics: int) -> None:
    """Koordinator's joint allocation, SamePCIe: as many NICs as the GPUs have switches (device_allocator.go)."""
    switches = range(8 // per_switch)
    machine = node(
        *(gpu(f"{16 * s + n + 16:02x}", s % 2, f"f{s}") for s in switches for n in range(per_switch)),
        *(nic(f"{16 * s + 31:02x}", s % 2, f"f{s}", ports=(RdmaPort(speed_gbps=100),)) for s in switches),
    )
    request = DeviceRequest(
        gpus=(GpuRequest(count=8),),
        nics=(NicRequest(count=nics, speed=100 * 10**9),),
        near=Near.SWITCH,
        nic_each=True,
    )
    found = allocated(machine, [checked(request)])
    if per_switch > 8 // nics:
        assert found is None, "the user says that each NIC has fewer GPUs, and more of them than its bandwidth is for"
        return
    assert found is not None
    given = {result["device"] for result in found[0]}
    assert given == {device.name for device in machine.devices()}


def test_a_share_of_several_gpus_is_of_different_ones() -> None:
    inventory = with_memory()
    request = DeviceRequest(gpus=(GpuRequest(count=8, core=50, memory_percent=50),))
    found = allocated(inventory, [checked(request)])
    assert found is not None
    assert len({result["device"] for result in found[0]}) == 8


def test_shares_without_a_count_of_core_share_a_gpu_as_far_as_memory_goes() -> None:
    inventory = with_memory()
    claim = checked(DeviceRequest(gpus=(GpuRequest(memory_percent=25),)))
    found = allocated(inventory, [claim.model_copy(update={"metadata": ObjectMeta(name=str(n))}) for n in range(32)])
    assert found is not None
    devices = [results[0]["device"] for results in found]
    assert sorted(devices.count(device) for device in set(devices)) == [4] * 8


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (Wanted(attribute="model", values=("NVIDIA L4",)), [1, 2]),
        (Wanted(attribute="model", values=("NVIDIA L4", "NVIDIA H100")), [1, 2, 3]),
        (Wanted(attribute="model", values=("NVIDIA L4",), negated=True), [3]),
        (Wanted(attribute="model", values=("l4", "h100"), match=Match.CONTAINS), [1, 2, 3]),
        (Wanted(attribute="model", values=("l4",), match=Match.CONTAINS, negated=True), [3]),
        (Wanted(attribute="uuid", values=("GPU-1", "GPU-3")), [1, 3]),
        (Wanted(attribute="uuid", values=("GPU-1", "GPU-3"), negated=True), [2]),
    ],
    ids=repr,
)
def test_a_gpu_of_unknown_model_is_nobodys_who_selects_by_it_and_in_nobodys_way(
    wanted: Wanted, given: list[int]
) -> None:
    inventory = with_memory()
    models = (None, "NVIDIA L4", "NVIDIA L4", "NVIDIA H100")
    gpus = tuple(
        replace(gpu, model=model, uuid=model and f"GPU-{gpu.index}")
        for gpu, model in zip(inventory.gpus, models, strict=False)
    )
    request = DeviceRequest(gpus=(GpuRequest(count=len(given), wanted=(wanted,)),))
    # An error of a selector is raised here; it keeps a pod from every node.
    found = allocated(replace(inventory, gpus=gpus), [checked(request)])
    assert found is not None
    names = [f"gpu-{str(gpu.address).replace(':', '-').replace('.', '-')}" for gpu in gpus]
    assert sorted(names.index(result["device"]) for result in found[0]) == given
    more = DeviceRequest(gpus=(GpuRequest(count=len(given) + 1, wanted=(wanted,)),))
    assert allocated(replace(inventory, gpus=gpus), [checked(more)]) is None


@pytest.mark.parametrize(
    "request_",
    [
        DeviceRequest(gpus=(GpuRequest(count=4, together=("rootport.dev/nvlinkDomain", "rootport.dev/numaNode")),)),
        DeviceRequest(gpus=(GpuRequest(vendor="amd", wanted=(Wanted(attribute="index", values=(0, 1)),)),)),
        DeviceRequest(
            gpus=(
                GpuRequest(
                    wanted=(
                        Wanted(attribute="model", values=("A100", "h100"), match=Match.CONTAINS),
                        Wanted(attribute="model", values=("PCIe",), match=Match.CONTAINS, negated=True),
                    )
                ),
            )
        ),
        DeviceRequest(gpus=(GpuRequest(wanted=(Wanted(attribute="uuid", values=("GPU-1", "GPU-2"), negated=True),)),)),
        DeviceRequest(gpus=(GpuRequest(core=20, memory=2**30, strategy="timeSlicing", interval="Short"),)),
        DeviceRequest(gpus=(GpuRequest(core=20, memory=2**30, strategy="mps"),)),
        DeviceRequest(nics=(NicRequest(count=0),)),
        DeviceRequest(nics=(NicRequest(is_vf=True, interface="rdma0"),)),
        DeviceRequest(nics=(NicRequest(bandwidth=10**11), NicRequest(is_vf=True))),
        DeviceRequest(fpgas=(FpgaRequest(count=2),)),
        pair(Near.ROOT, 2, 4),
        pair(Near.NUMA, 8, 8),
        pair(Near.SWITCH, 4, 8),
        DeviceRequest(
            gpus=(GpuRequest(count=2, core=50, memory_percent=40, strategy="hamiCore"),),
            nics=(NicRequest(is_vf=True),),
            fpgas=(FpgaRequest(),),
            near=Near.SWITCH,
            nic_each=True,
        ),
        DeviceRequest(gpus=(GpuRequest(profile="1g.10gb"),), nics=(NicRequest(),), near=Near.SWITCH),
        DeviceRequest(gpus=(GpuRequest(count=2),), nics=(NicRequest(count=0),), near=Near.PREFERRED),
        DeviceRequest(gpus=(GpuRequest(), GpuRequest(profile="1g.10gb")), nics=(NicRequest(),), near=Near.PREFERRED),
        pair(Near.PREFERRED, 3, 2),
    ],
    ids=repr,
)
def test_every_request_is_a_claim_that_lint_finds_nothing_in(request_: DeviceRequest) -> None:
    checked(request_)
    assert claim_lines(request_)


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (
            pair(Near.PREFERRED, 2, 2),
            "each GPU with the nearest NIC: under its PCIe switch, else its PCIe root, else its NUMA node, else any",
        ),
        (
            pair(Near.PREFERRED, 4, 1),
            (
                "each 4 GPUs with the nearest NIC: under their PCIe switch, else their PCIe root, else their NUMA node,"
                " else any"
            ),
        ),
        (pair(Near.SWITCH, 4, 4), "each GPU and its NIC with the same rootport.dev/pcieSwitch"),
        (pair(Near.ROOT, 2, 4), "each GPU and its 2 NICs with the same resource.kubernetes.io/pcieRoot"),
        (pair(Near.NUMA, 4, 2), "each 2 GPUs and their NIC with the same rootport.dev/numaNode"),
        (
            DeviceRequest(
                gpus=(GpuRequest(count=2, together=("rootport.dev/nvlinkDomain",)),),
                nics=(NicRequest(count=2),),
                near=Near.SWITCH,
            ),
            (
                "each GPU and its NIC with the same rootport.dev/pcieSwitch, all GPUs with the same"
                " rootport.dev/nvlinkDomain"
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_how_near_devices_are_is_told_as_the_claim_says_it(request_: DeviceRequest, line: str) -> None:
    assert claim_lines(request_)[-1] == f"constraints: {line}"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (DeviceRequest(gpus=(GpuRequest(count=0),)), "less than 1"),
        (DeviceRequest(nics=(NicRequest(count=-1),)), "less than 1"),
        (pair(Near.SWITCH, 3, 2), "make no equal groups"),
        (pair(Near.NUMA, 17, 17), "34 devices"),
        (DeviceRequest(gpus=(GpuRequest(core=0, memory=2**30),)), "of each GPU[core]: 0 is not a percentage"),
        (DeviceRequest(gpus=(GpuRequest(core=101, memory=2**30),)), "101 is not a percentage"),
        (DeviceRequest(gpus=(GpuRequest(core=50, memory_percent=101),)), "101 is not a percentage"),
        (DeviceRequest(gpus=(GpuRequest(memory=40),)), "40 bytes of GPU memory: did you mean 40Gi?"),
        (DeviceRequest(gpus=(GpuRequest(core=5, memory=2**30, strategy="magic"),)), "no sharing strategy"),
        (DeviceRequest(gpus=(GpuRequest(count=2, core=5, memory=2**30, strategy="mps"),)), "MPS on one GPU only"),
        (
            DeviceRequest(gpus=tuple(GpuRequest(core=core, memory=2**30, strategy="hamiCore") for core in (10, 20))),
            "unlike shares",
        ),
        (DeviceRequest(gpus=(GpuRequest(wanted=(Wanted(attribute="model", values=()),)),)), "nothing is said"),
        (DeviceRequest(gpus=(GpuRequest(wanted=(Wanted(attribute="a b", values=("x",)),)),)), "nothing is said"),
        (DeviceRequest(gpus=(GpuRequest(wanted=(Wanted(attribute="model", values=('"||true',)),)),)), "cannot be"),
        (DeviceRequest(gpus=(GpuRequest(wanted=(Wanted(attribute="model", values=("x" * 200,)),)),)), "cannot be"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_claim_says_is_refused(request_: DeviceRequest, words: str) -> None:
    with pytest.raises(InputError) as error:
        claim_of(request_)
    assert words in str(error.value)


def test_a_template_of_the_same_spec_has_the_same_name_in_any_order_of_its_fields() -> None:
    spec = claim_of(DeviceRequest(gpus=(GpuRequest(core=50, memory=2**30),))).spec
    (request,) = spec["devices"]["requests"]
    turned = {"devices": {"requests": [dict(reversed(request.items()))]}}
    assert template(turned) == template(spec)
    assert "namespace" not in template(spec)["metadata"]
    assert template(spec, "ml")["metadata"]["name"] == template(spec)["metadata"]["name"]
