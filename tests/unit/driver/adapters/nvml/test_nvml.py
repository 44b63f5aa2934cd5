"""Reading GPUs by NVML: the real pynvml on a stub libnvidia-ml.so.1, a Python process for each machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from driver.adapters.nvml.discovery import NvmlReport
from driver.model.devices import GpuLink, LinkKind, MigPlacement, MigSupport
from driver.model.pci import PciAddress, PciePath
from tests.support.stub_nvml import (
    A100_40GB,
    GB10,
    H100_80GB,
    L4,
    Link,
    LinkEnd,
    Machine,
    StubGpu,
    StubNvml,
    a100_pair,
    dgx_h100,
)

pytestmark = pytest.mark.needs_cc

Read = Callable[[Machine], NvmlReport]

GIB = 1 << 30


@pytest.fixture(scope="module")
def read(nvml_stub: StubNvml) -> Read:
    def read_gpus(machine: Machine) -> NvmlReport:
        report = nvml_stub.call(machine, "driver.adapters.nvml.discovery:read_gpus")
        assert isinstance(report, NvmlReport)
        return report

    return read_gpus


@pytest.fixture(scope="module")
def h100s(read: Read) -> NvmlReport:
    return read(dgx_h100())


def one(read: Read, gpu: StubGpu) -> NvmlReport:
    report = read(Machine(gpus=(gpu,)))
    assert len(report.gpus) == 1
    return report


def test_a_dgx_h100_has_eight_gpus_and_no_notes(h100s: NvmlReport) -> None:
    assert [gpu.index for gpu in h100s.gpus] == list(range(8))
    assert h100s.notes == ()
    assert (h100s.driver_version, h100s.cuda_driver_version) == ("580.159.03", "13.0")


def test_every_fact_of_an_h100_is_read(h100s: NvmlReport) -> None:
    gpu = replace(h100s.gpus[4], mig=None, links=())
    assert gpu == replace(
        gpu,
        address=PciAddress("0000:9d:00.0"),
        pcie=PciePath(),
        index=4,
        minor=4,
        vendor="nvidia",
        uuid="GPU-00000004-0000-4000-8000-000000000004",
        model="NVIDIA H100 80GB HBM3",
        memory_bytes=81559 << 20,
        architecture="Hopper",
        cuda_compute_capability="9.0",
        driver_version="580.159.03",
        cuda_driver_version="13.0",
        ecc_enabled=True,
    )


def test_links_to_nvswitches_are_counted_together(h100s: NvmlReport) -> None:
    assert {gpu.links for gpu in h100s.gpus} == {(GpuLink(kind=LinkKind.NVLINK, peer=None, count=18),)}


# nvidia-smi mig -lgip and -lgipp, as in the Multi-Instance GPU User Guide.
MIG_TABLES = {
    "H100-80GB": (
        H100_80GB,
        {
            "1g.10gb": (19, 1, 9.75, 7, "0123456:1"),
            "1g.10gb+me": (20, 1, 9.75, 1, "0123456:1"),
            "1g.20gb": (15, 1, 19.625, 4, "0246:2"),
            "2g.20gb": (14, 2, 19.625, 3, "024:2"),
            "3g.40gb": (9, 3, 39.5, 2, "04:4"),
            "4g.40gb": (5, 4, 39.5, 1, "0:4"),
            "7g.80gb": (0, 7, 79.25, 1, "0:8"),
        },
    ),
    "A100-40GB": (
        A100_40GB,
        {
            "1g.5gb": (19, 1, 4.75, 7, "0123456:1"),
            "1g.5gb+me": (20, 1, 4.75, 1, "0123456:1"),
            "1g.10gb": (15, 1, 9.625, 4, "0246:2"),
            "2g.10gb": (14, 2, 9.625, 3, "024:2"),
            "3g.20gb": (9, 3, 19.5, 2, "04:4"),
            "4g.20gb": (5, 4, 19.5, 1, "0:4"),
            "7g.40gb": (0, 7, 39.25, 1, "0:8"),
        },
    ),
}


@pytest.mark.parametrize(("gpu", "table"), MIG_TABLES.values(), ids=MIG_TABLES)
def test_mig_profiles_are_read_with_their_placements_while_mig_is_off(
    read: Read, gpu: StubGpu, table: dict[str, tuple[int, int, float, int, str]]
) -> None:
    mig = one(read, gpu).gpus[0].mig
    assert mig is not None
    assert not mig.enabled
    assert {
        p.name: (p.profile_id, p.compute_slices, p.memory_bytes / GIB, p.max_instances, shown(p.placements))
        for p in mig.profiles
    } == table


@pytest.mark.parametrize(
    ("gpu", "name", "engines"),
    [
        pytest.param(H100_80GB, "1g.10gb+me", (16, 1, 1, 0, 1, 1), id="H100-1g-with-media-engines"),
        pytest.param(H100_80GB, "7g.80gb", (132, 8, 7, 0, 7, 1), id="H100-7g"),
        pytest.param(A100_40GB, "1g.5gb", (14, 1, 0, 0, 0, 0), id="A100-1g"),
        pytest.param(A100_40GB, "7g.40gb", (98, 7, 5, 0, 1, 1), id="A100-7g"),
    ],
)
def test_the_engines_of_a_mig_profile_are_read(
    read: Read, gpu: StubGpu, name: str, engines: tuple[int, int, int, int, int, int]
) -> None:
    mig = one(read, gpu).gpus[0].mig
    assert mig is not None
    (p,) = (profile for profile in mig.profiles if profile.name == name)
    read_engines = (p.multiprocessors, p.copy_engines, p.decoders, p.encoders, p.jpeg_engines, p.ofa_engines)
    assert read_engines == engines


def shown(placements: tuple[MigPlacement, ...]) -> str:
    (size,) = {place.size for place in placements}
    return f"{''.join(str(place.start) for place in placements)}:{size}"


@pytest.mark.parametrize(
    ("mode", "enabled", "notes"),
    [
        pytest.param((1, 1), True, (), id="on"),
        pytest.param((0, 0), False, (), id="off"),
        pytest.param(
            (0, 1), False, ("NVML GPU 0: MIG mode is off and will be on after a reset of the GPU",), id="off-then-on"
        ),
        pytest.param(
            (1, 0), True, ("NVML GPU 0: MIG mode is on and will be off after a reset of the GPU",), id="on-then-off"
        ),
    ],
)
def test_mig_mode_is_the_current_one_and_a_pending_change_is_noted(
    read: Read, mode: tuple[int, int], enabled: bool, notes: tuple[str, ...]
) -> None:
    report = one(read, replace(A100_40GB, mig=mode))
    assert report.gpus[0].mig is not None
    assert report.gpus[0].mig.enabled is enabled
    assert report.notes == notes


def test_without_the_right_to_list_placements_the_profiles_stay_and_one_note_says_why(read: Read) -> None:
    function = "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
    report = one(read, A100_40GB.failing(function, "NVML_ERROR_NO_PERMISSION"))
    mig = report.gpus[0].mig
    assert mig is not None
    assert [profile.placements for profile in mig.profiles] == [()] * 7
    assert report.notes == ("NVML GPU 0: nvmlDeviceGetGpuInstancePossiblePlacements: Insufficient Permissions",)


def test_a_driver_without_profile_names_gives_no_profiles(read: Read) -> None:
    old = A100_40GB.failing("nvmlDeviceGetGpuInstanceProfileInfoV", "NVML_ERROR_FUNCTION_NOT_FOUND")
    assert one(read, old).gpus[0].mig == MigSupport(enabled=False)


def test_direct_nvlinks_name_their_peer_and_links_that_are_down_do_not_count(read: Read) -> None:
    report = read(a100_pair())
    first, second = report.gpus
    assert first.links == (GpuLink(kind=LinkKind.NVLINK, peer=second.address, count=12),)
    assert second.links == (GpuLink(kind=LinkKind.NVLINK, peer=first.address, count=12),)
    assert report.notes == ()


PEER = "00000000:86:00.0"


@pytest.mark.parametrize(
    ("link", "expected", "noted"),
    [
        pytest.param(Link(LinkEnd.GPU, PEER), ("0000:86:00.0", 2), False, id="a-gpu"),
        pytest.param(Link(LinkEnd.GPU, "00000000:FF:00.0"), ("0000:ff:00.0", 2), False, id="a-gpu-not-listed-here"),
        pytest.param(Link(LinkEnd.SWITCH, None), (None, 2), False, id="a-hidden-nvswitch"),
        pytest.param(Link(LinkEnd.IBM_NPU, "00000004:00:00.0"), None, False, id="a-cpu"),
        pytest.param(Link(None, PEER), ("0000:86:00.0", 2), False, id="kind-not-told-but-the-address-of-a-gpu"),
        pytest.param(
            Link(LinkEnd.UNKNOWN, PEER), ("0000:86:00.0", 2), False, id="kind-unknown-but-the-address-of-a-gpu"
        ),
        pytest.param(Link(None, "00000000:05:00.0"), None, True, id="kind-not-told-and-no-gpu"),
        pytest.param(Link(LinkEnd.UNKNOWN, None), None, True, id="nothing-told"),
        pytest.param(Link(LinkEnd.GPU, None), None, True, id="address-not-told"),
    ],
)
def test_the_far_end_of_a_link(read: Read, link: Link, expected: tuple[str | None, int] | None, noted: bool) -> None:
    first = replace(A100_40GB, links=(link, None, link)).at(0, "00000000:3B:00.0")
    report = read(Machine(gpus=(first, A100_40GB.at(1, PEER))))
    assert [(found.peer, found.count) for found in report.gpus[0].links] == ([expected] if expected else [])
    note = "NVML GPU 0: left out 2 active NVLinks: where they lead is not known"
    assert report.notes == ((note,) if noted else ())


def test_a_part_without_mig_and_nvlink_has_neither_and_no_notes(read: Read) -> None:
    report = one(read, L4)
    assert (report.gpus[0].mig, report.gpus[0].links, report.notes) == (None, (), ())
    assert report.gpus[0].architecture == "Ada Lovelace"


@pytest.mark.parametrize(
    ("ecc", "expected"),
    [
        pytest.param((1, 1), True, id="on"),
        pytest.param((0, 1), False, id="off"),
        pytest.param(None, None, id="not-supported"),
    ],
)
def test_ecc_is_on_off_or_not_there(read: Read, ecc: tuple[int, int] | None, expected: bool | None) -> None:
    assert one(read, replace(L4, ecc=ecc)).gpus[0].ecc_enabled is expected


@pytest.mark.parametrize("memory", [None, 0])
def test_unified_memory_has_no_size_and_a_note(read: Read, memory: int | None) -> None:
    report = one(read, replace(GB10, memory=memory))
    (gpu,) = report.gpus
    assert (gpu.address, gpu.architecture, gpu.memory_bytes) == ("000f:01:00.0", "Blackwell", None)
    assert len(report.notes) == 1
    assert report.notes[0].startswith("NVML GPU 0: reports no memory size")


@pytest.mark.parametrize("error", ["NVML_ERROR_FUNCTION_NOT_FOUND", "NVML_ERROR_NOT_SUPPORTED"])
def test_a_driver_without_the_second_version_of_memory_info_is_asked_by_the_first(read: Read, error: str) -> None:
    report = one(read, L4.failing("nvmlDeviceGetMemoryInfo_v2", error))
    assert (report.gpus[0].memory_bytes, report.notes) == (L4.memory, ())


def test_an_architecture_newer_than_this_release_is_not_guessed(read: Read) -> None:
    assert one(read, replace(L4, architecture=99)).gpus[0].architecture is None


@pytest.mark.parametrize("function", ["nvmlDeviceGetNvLinkState", "nvmlDeviceGetGpuInstanceProfileInfoV"])
def test_numbers_that_an_older_library_does_not_know_are_no_errors(read: Read, function: str) -> None:
    report = one(read, A100_40GB.failing(function, "NVML_ERROR_INVALID_ARGUMENT"))
    assert report.notes == ()
    assert report.gpus[0].links == ()


def test_a_machine_without_gpus_has_none(read: Read) -> None:
    assert read(Machine()) == NvmlReport(driver_version="580.159.03", cuda_driver_version="13.0")


def test_versions_that_nvml_does_not_tell_are_none(read: Read) -> None:
    report = read(Machine(gpus=(L4,), driver=None, cuda=None))
    assert (report.driver_version, report.cuda_driver_version) == (None, None)
    assert (report.gpus[0].driver_version, report.gpus[0].cuda_driver_version) == (None, None)


@pytest.mark.parametrize(
    ("fact", "value", "note"),
    [
        pytest.param(
            "name", "NVIDIA \udcff\udcfe", "NVML GPU 0: nvmlDeviceGetName: the answer is not UTF-8", id="not-utf-8"
        ),
        pytest.param(
            "name",
            "NVIDIA \x1b[31mL4",
            r"NVML GPU 0: nvmlDeviceGetName: the answer has unprintable characters: 'NVIDIA \x1b[31mL4'",
            id="a-terminal-escape",
        ),
        pytest.param("name", "  ", None, id="blank"),
        pytest.param("uuid", "\udc80", "NVML GPU 0: nvmlDeviceGetUUID: the answer is not UTF-8", id="uuid-not-utf-8"),
    ],
)
def test_a_string_that_cannot_be_shown_is_none_with_a_note(read: Read, fact: str, value: str, note: str | None) -> None:
    report = one(read, replace(L4, **{fact: value}))
    assert {"name": report.gpus[0].model, "uuid": report.gpus[0].uuid}[fact] is None
    assert report.notes == ((note,) if note else ())


NOWHERE = (
    "NVML GPU 0: nvmlDeviceGetPciInfo: 'nowhere' is not a PCI address: "
    "expected domain:bus:device.function, such as 0000:3b:00.0"
)


def test_a_gpu_without_a_usable_pci_address_is_left_out_with_a_note(read: Read) -> None:
    report = read(Machine(gpus=(replace(L4, pci="nowhere"), L4, replace(L4, pci=None))))
    assert [gpu.index for gpu in report.gpus] == [1]
    assert report.notes == (
        NOWHERE,
        "NVML GPU 0: left out, since its PCI address is not known",
        "NVML GPU 2: left out, since its PCI address is not known",
    )


def test_a_mig_profile_whose_name_is_not_utf_8_is_left_out_with_a_note(read: Read) -> None:
    broken = replace(A100_40GB.profiles[0], name="\udcff")
    report = one(read, replace(A100_40GB, profiles=(broken, A100_40GB.profiles[1])))
    assert report.gpus[0].mig is not None
    assert [profile.name for profile in report.gpus[0].mig.profiles] == ["2g.10gb"]
    assert report.notes == ("NVML GPU 0: MIG profile 19 is left out: its name is not UTF-8",)
