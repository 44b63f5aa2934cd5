"""The checkpoint and the record in a claim's CDI spec, byte for byte: what version 4 of the format is.

A change of the plan's dataclasses must not change them: a new field needs a new version and a migration.
"""

from __future__ import annotations

from pathlib import Path

from driver.api.claim_reference import ClaimReference
from driver.model.devices import DeviceName, DeviceType, MigPlacement
from driver.plan import CdiDevice, CdiSpec, ClaimFile, GpuUse, Isolation, NicUse, PreparedDevice, PreparePlan
from driver.plan.effects import (
    ConfigureVf,
    CreateMigDevice,
    LeaveMigMode,
    LendInterface,
    RunMpsDaemon,
    SetTimeSlice,
    VfSettings,
)
from kubeletplugin.state.checkpoint import VERSION, decode, encode
from kubeletplugin.state.entry import Entry
from kubeletplugin.state.entry_in_spec import entry_of_plan, found_in_spec
from kubeletplugin.state.journal import EffectJournal
from tests.support.paths import REPO

FOLDER = REPO / "tests" / "data" / "checkpoints" / "version_4"
GPU = DeviceName("gpu-0000-11-00-0")
NIC = DeviceName("rdma-0000-41-00-0")
VF = DeviceName("rdma-vf-0000-41-00-1")


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def device(number: int, name: str, **fields: object) -> PreparedDevice:
    return PreparedDevice(
        request_names=("request",),
        pool="node-a",
        device=name,
        cdi_device_ids=(f"rootport.dev/claim={uid(number)}_request_{name}",),
        **fields,  # type: ignore[arg-type]
    )


def plan(number: int, *devices: PreparedDevice, **fields: object) -> PreparePlan:
    claim = ClaimReference(namespace="ml", name=f"claim-{number}", uid=uid(number))
    spec = CdiSpec(claim=claim, devices=(CdiDevice(name=f"{uid(number)}_request_x", env=("A=ü",)),))
    return PreparePlan(claim=claim, devices=devices, spec=spec, **fields)  # type: ignore[arg-type]


MIG = plan(
    1,
    device(
        1,
        "gpu-mig-0000-11-00-0-19-0",
        use=GpuUse(
            gpu=GPU,
            mode=DeviceType.MIG,
            whole=False,
            sharing="",
            core=None,
            memory_bytes=10 << 30,
            placement=MigPlacement(start=0, size=1),
            gpu_memory_bytes=80 << 30,
        ),
        isolation=Isolation(enforced=True, by="MIG", version="580.1", message="kept to 1g.10gb"),
        mig_uuid="MIG-1",
        distances=(("rdma-0000-41-00-0", "PIX"),),
    ),
    files=(ClaimFile(relative_path=f"{uid(1)}/request.json", content='{"ü": 1}\n'.encode()),),
    effects=(
        CreateMigDevice(gpu=GPU, uuid="GPU-1", profile_id=19, profile="1g.10gb", start=0, size=1),
        LeaveMigMode(gpu="gpu-0000-12-00-0", uuid="GPU-2"),
    ),
)
SHARE = plan(
    2,
    device(
        2,
        GPU,
        share_id="00000000-0000-4000-8000-000000001010",
        use=GpuUse(gpu=GPU, mode=DeviceType.GPU_RATIO, whole=False, sharing="mps", core=50, memory_bytes=None),
        isolation=Isolation(enforced=False, by="MPS", version=None, message="advisory"),
    ),
    device(2, "gpu-0000-12-00-0", admin_access=True),
    effects=(
        RunMpsDaemon(gpu=GPU, uuid="GPU-1", folder=f"/run/rootport/mps/{GPU}"),
        SetTimeSlice(gpu=GPU, uuid="GPU-1", interval="Long"),
    ),
)
NICS = plan(
    3,
    device(3, VF, nic_use=NicUse(nic=NIC, vf=VF)),
    device(3, NIC, nic_use=NicUse(nic=NIC, bandwidth=10**9, nic_bandwidth=10**11)),
    device(3, f"{NIC}0", nic_use=NicUse(nic=DeviceName(f"{NIC}0"), bandwidth_ratio=20)),
    effects=(
        ConfigureVf(
            function=VF,
            address="0000:41:00.1",
            pf_address="0000:41:00.0",
            index=0,
            settings=VfSettings(vlan=7, trust=True, guid="00:11:22:33:44:55:66:77"),
            rate_limit=10_000,
        ),
        LendInterface(
            function=VF,
            address="0000:41:00.1",
            interface="ens1v0",
            pod_uid=uid(9),
            claim_uid=uid(3),
            name_in_pod="net1",
            mtu=None,
            rdma_device="mlx5_2",
        ),
    ),
)


def entries() -> dict[str, Entry]:
    made = (entry_of_plan(item, item.spec, "boot-1") for item in (MIG, SHARE, NICS) if item.spec)
    return {entry.uid: entry for entry in made}


def test_the_checkpoint_is_written_as_ever() -> None:
    assert encode(entries().values()) == (FOLDER / "checkpoint.json").read_bytes()


def test_the_checkpoint_of_former_days_is_read_whole() -> None:
    assert decode((FOLDER / "checkpoint.json").read_bytes()) == (entries(), VERSION)


def test_the_record_in_a_cdi_spec_is_written_and_read_as_ever() -> None:
    for claim_uid, entry in entries().items():
        content = (FOLDER / f"rootport.dev-claim_{claim_uid}.json").read_bytes()
        assert entry.cdi_spec.encode() == content
        found = found_in_spec(content, claim_uid)
        assert found is not None
        assert (found.devices, found.effects, found.boot_id) == (entry.devices, entry.effects, entry.boot_id)


def test_a_journal_is_written_as_ever(tmp_path: Path) -> None:
    journal = EffectJournal(tmp_path, boot_id="boot-1")
    journal.write(MIG.claim, MIG.effects[:1])
    assert (
        (tmp_path / f"{uid(1)}.json").read_text()
        == """{
  "version": 4,
  "boot_id": "boot-1",
  "claim": {
    "uid": "00000000-0000-4000-8000-000000000001",
    "namespace": "ml",
    "name": "claim-1"
  },
  "effects": [
    {
      "gpu": "gpu-0000-11-00-0",
      "uuid": "GPU-1",
      "kind": "CreateMigDevice",
      "profile_id": 19,
      "profile": "1g.10gb",
      "start": 0,
      "size": 1
    }
  ]
}
"""
    )
