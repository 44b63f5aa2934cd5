"""The catalogue names what is known for sure, and models may be named loosely."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from driver.adapters.catalogue import (
    GpuFacts,
    HardwareFacts,
    find_gpu_model,
    gpu_facts,
    is_fpga,
    load,
    nic_model,
    platform_attributes,
    vendor_name,
)
from driver.errors import InputError
from driver.model.pci import PciAddress, parse_pci_address
from tests.support.stub_nvml.parts import H100_80GB

MIB = 1024**2


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("h100", "NVIDIA H100 80GB HBM3"),
        ("H100-SXM", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("h100 pcie", "NVIDIA H100 PCIe"),
        ("H200", "NVIDIA H200"),
        ("nvidia b300", "NVIDIA B300 SXM6 AC"),
        ("t4", "Tesla T4"),
        ("a10", "NVIDIA A10"),
        ("l40", "NVIDIA L40"),
        ("a100 80gb sxm", "NVIDIA A100-SXM4-80GB"),
        ("V100 SXM2 32", "Tesla V100-SXM2-32GB"),
        ("mi300x", "AMD Instinct MI300X"),
        ("Instinct MI250", "AMD Instinct MI250"),
    ],
)
def test_a_loose_name_finds_its_model(name: str, model: str) -> None:
    assert find_gpu_model(name).name == model


def test_a_name_that_fits_several_models_lists_them() -> None:
    with pytest.raises(InputError, match=r"'a100' may be any of NVIDIA A100-SXM4-40GB, .*NVIDIA A100 80GB PCIe"):
        find_gpu_model("a100")


@pytest.mark.parametrize("name", ["h1000", "", "  ", "-", "ünïcødé", "h100" * 1000, "x" * 100_000, "\x00"])
def test_an_unknown_name_lists_near_ones_in_a_short_message(name: str) -> None:
    with pytest.raises(InputError, match=r"not in the catalogue .*(nearest|known): .*--gpu-memory") as caught:
        find_gpu_model(name)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("known", "facts"),
    [
        pytest.param(
            {"pci_id": "10de:20b0"},
            GpuFacts(
                model="NVIDIA A100-SXM4-40GB",
                memory_bytes=40960 * MIB,
                architecture="Ampere",
                cuda_compute_capability="8.0",
                mig_profiles=load().mig_profiles["A100 40GB"],
            ),
            id="pci-id",
        ),
        pytest.param(
            {"compute_capability": "9.0"},
            GpuFacts(architecture="Hopper", cuda_compute_capability="9.0"),
            id="a-compute-capability-tells-no-model",
        ),
        pytest.param(
            {"compute_capability": "7.5"},
            GpuFacts(architecture="Turing", cuda_compute_capability="7.5"),
            id="not-even-where-the-catalogue-has-but-one",
        ),
        pytest.param(
            {"pci_id": "10de:ffff", "compute_capability": "8.9"},
            GpuFacts(architecture="Ada Lovelace", cuda_compute_capability="8.9"),
            id="an-unknown-pci-id-is-another-model",
        ),
        pytest.param(
            {"pci_id": "1002:740c"},
            GpuFacts(memory_bytes=65520 * MIB, architecture="gfx90a"),
            id="one-id-for-two-models-tells-what-they-share",
        ),
        pytest.param(
            {"pci_id": "1002:740c", "architecture": "gfx90a", "compute_units": 110},
            GpuFacts(model="AMD Instinct MI250X", memory_bytes=65520 * MIB, architecture="gfx90a"),
            id="compute-units-tell-them-apart",
        ),
        pytest.param(
            {"architecture": "gfx908", "compute_units": 120},
            GpuFacts(model="AMD Instinct MI100", memory_bytes=32752 * MIB, architecture="gfx908"),
            id="amd-architecture-and-compute-units",
        ),
        pytest.param(
            {"pci_id": "1002:75a0"},
            GpuFacts(
                model="AMD Instinct MI350X", memory_bytes=294912 * MIB, memory_is_nominal=True, architecture="gfx950"
            ),
            id="a-size-that-no-driver-was-seen-to-report-is-nominal",
        ),
        pytest.param(
            {"architecture": "gfx942", "compute_units": 304},
            GpuFacts(architecture="gfx942"),
            id="mi300x-or-mi325x",
        ),
        pytest.param({}, GpuFacts(), id="nothing"),
    ],
)
def test_only_what_all_fitting_models_agree_on_is_taken(known: dict[str, object], facts: GpuFacts) -> None:
    assert gpu_facts(**known) == facts  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pci_id", "mebibytes"),
    [
        ("10de:2330", 81559),  # H100 80GB HBM3
        ("10de:2331", 81559),  # H100 PCIe
        ("10de:2321", 95830),  # H100 NVL
        ("10de:2335", 143771),  # H200
        ("10de:2901", 183359),  # B200
        ("10de:2941", 189471),  # GB200
        ("10de:31c2", 284208),  # GB300
        ("10de:27b8", 23034),  # L4
        ("10de:26b9", 46068),  # L40S
        ("10de:1eb8", 15360),  # T4
        ("10de:2237", 23028),  # A10G
        ("10de:20b0", 40960),  # A100 40GB
        ("10de:20b2", 81920),  # A100 80GB
    ],
)
def test_a_cards_memory_is_what_nvml_reports_and_not_what_its_name_says(pci_id: str, mebibytes: int) -> None:
    facts = gpu_facts(pci_id=pci_id)
    assert (facts.memory_bytes, facts.memory_is_nominal, facts.memory_note) == (mebibytes * MIB, False, None)


def test_flags_win_over_the_pci_id() -> None:
    facts = gpu_facts(pci_id="10de:20b0", hardware=HardwareFacts(gpu_model="h100", gpu_memory_bytes=7))
    assert (facts.model, facts.memory_bytes, facts.architecture) == ("NVIDIA H100 80GB HBM3", 7, "Hopper")


def test_a_memory_flag_alone_keeps_the_model() -> None:
    facts = gpu_facts(pci_id="10de:20b0", hardware=HardwareFacts(gpu_memory_bytes=7))
    assert (facts.model, facts.memory_bytes) == ("NVIDIA A100-SXM4-40GB", 7)


def test_a_nominal_size_is_said_until_the_user_gives_the_exact_one() -> None:
    facts = gpu_facts(hardware=HardwareFacts(gpu_model="mi300a"))
    assert facts.memory_note == (
        "AMD Instinct MI300A: the memory, 128 GiB, is the nominal size; the driver may report less"
    )
    exact = gpu_facts(hardware=HardwareFacts(gpu_model="mi300a", gpu_memory_bytes=facts.memory_bytes))
    assert exact.memory_note is None


def test_an_unknown_model_with_its_memory_is_taken_as_written() -> None:
    facts = gpu_facts(compute_capability="9.9", hardware=HardwareFacts(gpu_model=" Some  GPU ", gpu_memory_bytes=7))
    assert facts == GpuFacts(model="Some GPU", memory_bytes=7, cuda_compute_capability="9.9")


@pytest.mark.parametrize("name", ["x" * 65, "a\x1bb"])
def test_an_unknown_model_must_fit_an_attribute(name: str) -> None:
    with pytest.raises(InputError, match="1 to 64 printable characters"):
        gpu_facts(hardware=HardwareFacts(gpu_model=name, gpu_memory_bytes=7))


def test_an_ambiguous_model_is_an_error_even_with_its_memory() -> None:
    with pytest.raises(InputError, match="may be any of"):
        gpu_facts(hardware=HardwareFacts(gpu_model="a100", gpu_memory_bytes=7))


def test_nics_are_known_by_pci_id() -> None:
    assert nic_model("15b3:1021") == "ConnectX-7"
    assert nic_model("1d0f:efa1") == "Elastic Fabric Adapter"
    assert nic_model("15b3:ffff") is None


def test_a_platform_is_recognised_by_all_its_bus_ids_and_no_others() -> None:
    bus_ids = {PciAddress(f"0000:00:{device:02x}.0") for device in range(0x15, 0x1E)}
    found = platform_attributes(bus_ids)
    assert found is not None
    assert found[0] == "AWS g5.48xlarge"
    assert platform_attributes(bus_ids - {PciAddress("0000:00:15.0")}) is None
    assert platform_attributes(bus_ids | {PciAddress("0000:00:14.0")}) is None


def test_the_catalogue_is_well_formed() -> None:
    catalogue = load()
    assert [name for name, count in Counter(gpu.name for gpu in catalogue.gpus).items() if count > 1] == []
    for gpu in catalogue.gpus:
        assert isinstance(gpu.memory_mib, int)
        # sysfs tells no memory of NVIDIA's: on a node NVML does, and a note about a nominal size would stay beside it.
        assert not (gpu.nominal and gpu.name.startswith("NVIDIA"))
        assert len(gpu.name) <= 64
        if gpu.name.startswith("AMD"):
            assert gpu.architecture.startswith("gfx")
            assert gpu.compute_units
        else:
            assert re.fullmatch(r"[0-9]+\.[0-9]", gpu.compute_capability or "")
        for alias in gpu.aliases:
            assert find_gpu_model(alias) is gpu
        assert find_gpu_model(gpu.name) is gpu
    for pci in (pci for entry in (*catalogue.gpus, *catalogue.nics) for pci in entry.pci):
        assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}", pci)
    for platform in catalogue.platforms:
        for address, attributes in platform.attributes.items():
            assert parse_pci_address(address) == address
            assert attributes.keys() <= {"class", "vendor", "device"}


@pytest.mark.parametrize(
    ("vendor_id", "device_id", "class_code", "expected"),
    [
        pytest.param(0x10EE, 0x5001, 0x1200, True, id="xilinx"),
        pytest.param(0x10EE, None, 0x1200, True, id="xilinx-without-device-id"),
        pytest.param(0x10EE, 0x5001, 0x0200, False, id="xilinx-as-network-card"),
        pytest.param(0x8086, 0x0B2B, 0x1200, True, id="intel-pac-d5005"),
        pytest.param(0x8086, 0x7D1D, 0x1200, False, id="intel-npu"),
        pytest.param(0x8086, None, 0x1200, False, id="intel-without-device-id"),
        pytest.param(0x1D0F, 0xF010, 0x0580, True, id="aws-f2"),
        pytest.param(0x1D0F, 0xF010, None, True, id="aws-without-class"),
        pytest.param(0x1D0F, 0xEFA1, 0x0200, False, id="aws-efa"),
        pytest.param(0x1D0F, None, 0x1200, False, id="aws-without-device-id"),
    ],
)
def test_ids_alone_tell_an_fpga(
    vendor_id: int, device_id: int | None, class_code: int | None, *, expected: bool
) -> None:
    assert is_fpga(vendor_id, device_id, class_code) is expected


def test_a_vendor_without_a_name_is_called_by_its_id() -> None:
    assert (vendor_name(0x15B3), vendor_name(0x1D94)) == ("nvidia", "0x1d94")


def test_mig_profiles_are_those_that_the_stub_nvml_tells() -> None:
    from_nvml = {profile.name: profile for profile in H100_80GB.profiles}
    profiles = find_gpu_model("H100").mig
    assert profiles is not None
    for profile in load().mig_profiles[profiles]:
        told = from_nvml[profile.name]
        assert (profile.profile_id, profile.compute_slices, profile.max_instances) == (
            told.profile_id,
            told.slices,
            told.instances,
        )
        assert [(place.start, place.size) for place in profile.placements] == list(told.placements)
        assert profile.memory_bytes == told.mebibytes * MIB
        assert profile.multiprocessors == told.multiprocessors
        engines = (profile.copy_engines, profile.decoders, profile.encoders, profile.jpeg_engines, profile.ofa_engines)
        assert engines == told.engines
