"""Which configuration entry applies to a device: the class's, then the claim's; by request; by kind."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import DeviceAllocationConfiguration, DeviceClaim, DeviceClaimConfiguration, DeviceRequest
from driver.api.validation.errors import FieldError
from driver.config import (
    FpgaConfig,
    GpuConfig,
    MigConfig,
    RdmaConfig,
    RdmaInterface,
    RdmaVfParameters,
    as_written,
    config_for,
    read_entries,
)
from driver.model.devices import MigPlacement, MigProfile
from driver.model.parts import GpuRatio, MigPartition
from tests.support.plan.builders import config, fpga, gpu, nic, parameters, vf

WHERE = "status.allocation.devices.config"
WITH_CM = parameters("RdmaConfig", rdmaCM=True)
WITHOUT_CM = parameters("RdmaConfig", rdmaCM=False)
PLACEMENT = MigPlacement(start=0, size=1)
PROFILE = MigProfile(
    name="1g.10gb",
    profile_id=19,
    compute_slices=1,
    memory_bytes=10 * 2**30,
    max_instances=7,
    placements=(PLACEMENT,),
)
PARTITION = MigPartition(gpu=gpu(0), profile=PROFILE, placement=PLACEMENT, label="1g-10gb")


def rdma_cm(*entries: DeviceAllocationConfiguration, request: str = "nic") -> bool:
    """What the entries say of a NIC that was given to ``request``."""
    read, errors = read_entries(entries, WHERE)
    assert errors == ()
    found = config_for(read, request, nic(0))
    assert isinstance(found, RdmaConfig)
    return found.rdma_cm


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (gpu(0), GpuConfig()),
        (GpuRatio(gpu=gpu(0)), GpuConfig()),
        (PARTITION, MigConfig()),
        (nic(0), RdmaConfig()),
        (vf(0, 0), RdmaConfig()),
        (fpga(0), FpgaConfig()),
    ],
    ids=["gpu", "gpu-ratio", "mig", "rdma", "rdma-vf", "fpga"],
)
def test_a_device_without_configuration_gets_its_kinds_defaults(device: object, expected: object) -> None:
    assert config_for((), "r", device) == expected


def test_the_claim_wins_over_the_class_wherever_it_stands() -> None:
    of_class, of_claim = config(WITH_CM, "nic", source="FromClass"), config(WITHOUT_CM, "nic", source="FromClaim")
    assert rdma_cm(of_class, of_claim) is False
    assert rdma_cm(of_claim, of_class) is False


@pytest.mark.parametrize("source", ["FromClass", "FromClaim"])
def test_a_later_entry_of_one_source_wins(source: str) -> None:
    assert rdma_cm(config(WITH_CM, source=source), config(WITHOUT_CM, source=source)) is False
    assert rdma_cm(config(WITHOUT_CM, source=source), config(WITH_CM, source=source)) is True


def test_a_later_entry_replaces_the_earlier_one_as_a_whole() -> None:
    assert rdma_cm(config(WITHOUT_CM, source="FromClass"), config(parameters("RdmaConfig"))) is True


@pytest.mark.parametrize(
    ("named", "request_name", "applies"),
    [
        ((), "nic", True),
        (("nic",), "nic", True),
        (("gpu", "nic"), "nic", True),
        (("gpu",), "nic", False),
        (("nic",), "nic/fast", True),
        (("nic/fast",), "nic/fast", True),
        (("nic/slow",), "nic/fast", False),
        (("nic/fast",), "nic", False),
    ],
    ids=["all", "named", "one-of-two", "other", "base-of-sub", "sub", "other-sub", "sub-of-base"],
)
def test_an_entry_applies_to_the_requests_it_names(named: tuple[str, ...], request_name: str, applies: bool) -> None:
    assert rdma_cm(config(WITHOUT_CM, *named), request=request_name) is not applies


def test_other_drivers_entries_are_left_alone() -> None:
    assert read_entries((config({"anything": 1}, driver="gpu.nvidia.com"),), WHERE) == ((), ())


def test_an_entry_for_all_requests_applies_where_its_kind_fits() -> None:
    entries, errors = read_entries((config(WITHOUT_CM), config(parameters("GpuConfig"))), WHERE)
    assert errors == ()
    assert config_for(entries, "gpu", gpu(0)) == GpuConfig()
    assert config_for(entries, "nic", nic(0)) == RdmaConfig(rdma_cm=False)
    assert config_for(entries, "fpga", fpga(0)) == FpgaConfig()


def test_an_entry_that_names_a_request_of_another_type_is_an_error_that_names_both() -> None:
    entries, _ = read_entries((config(parameters("GpuConfig"), "nic"),), WHERE)
    error = config_for(entries, "nic", nic(0))
    assert isinstance(error, FieldError)
    assert error.path == f"{WHERE}[0]"
    assert error.message == (
        "GpuConfig does not fit request nic, which was given rdma-0000-40-00-0, a device of type rdma: "
        "expected RdmaConfig"
    )


@pytest.mark.parametrize(
    ("kind", "device", "given", "expected"),
    [
        ("GpuConfig", PARTITION, "mig-0000-10-00-0-1g-10gb-0, a device of type mig", "MigConfig"),
        ("MigConfig", gpu(0), "gpu-0000-10-00-0, a device of type gpu", "GpuConfig"),
        ("MigConfig", GpuRatio(gpu=gpu(0)), "gpu-ratio-0000-10-00-0, a device of type gpu-ratio", "GpuConfig"),
    ],
    ids=["gpu-config-on-mig", "mig-config-on-gpu", "mig-config-on-gpu-ratio"],
)
def test_a_config_of_one_mode_does_not_fit_another(kind: str, device: object, given: str, expected: str) -> None:
    entries, _ = read_entries((config(parameters(kind), "r"),), WHERE)
    error = config_for(entries, "r", device)
    assert isinstance(error, FieldError)
    assert error.path == f"{WHERE}[0]"
    assert error.message == f"{kind} does not fit request r, which was given {given}: expected {expected}"


def test_the_errors_of_all_entries_are_told_at_once() -> None:
    entries = (
        config(parameters("GpuConfig", a=1)),
        config(parameters("PciConfig"), source="FromClass"),
        config(parameters("GpuConfig"), source="FromNowhere"),
        DeviceAllocationConfiguration(source="FromClaim"),
    )
    read, errors = read_entries(entries, WHERE)
    assert read == ()
    assert [error.path for error in errors] == [
        f"{WHERE}[0].opaque.parameters.a",
        f"{WHERE}[1].opaque.parameters.kind",
        f"{WHERE}[2].source",
        f"{WHERE}[3]",
    ]


def vf_settings(**settings: object) -> dict[str, object]:
    return parameters("RdmaConfig", vf=settings)


def applied(*entries: DeviceAllocationConfiguration, request: str = "nic") -> RdmaConfig:
    """What the entries say of a virtual function that was given to ``request``."""
    read, errors = read_entries(entries, WHERE)
    assert errors == ()
    found = config_for(read, request, vf(0, 0))
    assert isinstance(found, RdmaConfig)
    return found


@pytest.mark.parametrize("settings", [{"vlan": 5}, {}, {"trust": None}], ids=str)
def test_a_claim_has_no_settings_of_a_vf(settings: dict[str, object]) -> None:
    read, errors = read_entries((config(parameters("RdmaConfig")), config(vf_settings(**settings))), WHERE)
    assert len(read) == 1
    assert errors == (
        FieldError(f"{WHERE}[1].opaque.parameters.vf", "is for administrators: expected in a DeviceClass alone"),
    )


def test_settings_of_a_vf_in_a_claim_are_told_with_its_other_mistakes() -> None:
    wrong = parameters("RdmaConfig", rdmaCM=1, vf={"vlan": 5})
    _, errors = read_entries((config(wrong),), WHERE)
    assert [error.path.removeprefix(f"{WHERE}[0].opaque.parameters") for error in errors] == [".rdmaCM", ".vf"]


def test_a_claim_may_say_that_it_has_no_settings_of_a_vf() -> None:
    assert applied(config(parameters("RdmaConfig", vf=None))) == RdmaConfig()


def test_the_fields_of_a_classs_settings_are_checked() -> None:
    _, errors = read_entries((config(vf_settings(vlan=4095), source="FromClass"),), WHERE)
    assert [error.path for error in errors] == [f"{WHERE}[0].opaque.parameters.vf.vlan"]


def test_a_claims_config_does_not_take_away_the_classs_settings_of_a_vf() -> None:
    of_class = config(
        parameters("RdmaConfig", rdmaCM=False, interface={"mtu": 9000}, vf={"vlan": 5}), "nic", source="FromClass"
    )
    first, last = (config(parameters("RdmaConfig", interface={"name": name}, vf=None)) for name in ("a", "b"))
    expected = RdmaConfig(interface=RdmaInterface(name="b"), vf=RdmaVfParameters(vlan=5))
    assert applied(of_class, first, last) == applied(first, last, of_class) == expected


def test_of_two_entries_of_the_class_the_last_one_has_the_settings_of_a_vf() -> None:
    first, last = (config(vf_settings(vlan=vlan), source="FromClass") for vlan in (5, 6))
    bare = config(parameters("RdmaConfig"), source="FromClass")
    of_claim = config(parameters("RdmaConfig"))
    assert applied(first, last, of_claim).vf == RdmaVfParameters(vlan=6)
    assert applied(first, bare, of_claim).vf is None


def test_the_settings_of_another_requests_class_do_not_count() -> None:
    of_class = config(vf_settings(vlan=5), "tagged", source="FromClass")
    of_claim = config(parameters("RdmaConfig", interface={}))
    assert applied(of_class, of_claim, request="nic").vf is None
    assert applied(of_class, of_claim, request="tagged").vf == RdmaVfParameters(vlan=5)


def test_an_entry_has_the_requests_again_that_the_allocator_left_out() -> None:
    # Kubernetes 1.37 names no request where an entry is for all of them, whether or not the claim's author named them.
    for_nic = DeviceClaimConfiguration(requests=("nic",), opaque=config(WITH_CM).opaque)
    for_all = DeviceClaimConfiguration(opaque=config(WITHOUT_CM).opaque)
    claim = DeviceClaim(requests=(DeviceRequest(name="nic"),), config=(for_nic, for_all))
    allocated = (config(WITH_CM, source="FromClass"), config(WITH_CM), config(WITHOUT_CM))
    assert [entry.requests for entry in as_written(allocated, claim)] == [("nic",), ("nic",), ()]


def test_an_entry_of_a_chosen_alternative_is_found_behind_one_of_another() -> None:
    of_gpu = DeviceClaimConfiguration(requests=("r/gpu",), opaque=config(parameters("GpuConfig")).opaque)
    of_nic = DeviceClaimConfiguration(requests=("r/nic",), opaque=config(WITH_CM).opaque)
    claim = DeviceClaim(requests=(DeviceRequest(name="r"),), config=(of_gpu, of_nic))
    assert [entry.requests for entry in as_written((config(WITH_CM),), claim)] == [("r/nic",)]
