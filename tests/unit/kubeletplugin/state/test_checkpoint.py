"""The checkpoint's file: what is read back, what is refused, what is migrated, what is kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driver.api.strict import write
from driver.errors import NodeError
from driver.model.devices import DeviceName, DeviceType, MigPlacement
from driver.plan import GpuUse, Isolation, NicUse, PreparedDevice
from driver.plan.effects import CreateMigDevice, RunMpsDaemon, SetTimeSlice
from kubeletplugin.claims.recovery import recover
from kubeletplugin.state import checkpoint as checkpoint_module
from kubeletplugin.state.checkpoint import (
    VERSION,
    CheckpointFile,
    CorruptCheckpointError,
    NewerCheckpointError,
    decode,
    encode,
)
from kubeletplugin.state.entry import Entry, EntryFile
from tests.support.paths import REPO
from tests.support.preparer.machine import Machine, device, failed, gpu_claim, prepared, uid
from tests.support.preparer.sharing import mig_claim, share_claim


def gpu_uses(of: Entry) -> list[GpuUse]:
    return [item.gpu_use for item in of.held_devices if item.gpu_use is not None]


def nic_uses(of: Entry) -> list[NicUse]:
    return [item.nic_use for item in of.held_devices if item.nic_use is not None]


def entry(number: int) -> Entry:
    claim_uid = uid(number)
    return Entry(
        uid=claim_uid,
        namespace="ml",
        name=f"claim-{number}",
        state="prepared",
        boot_id="boot-1",
        devices=(
            PreparedDevice(
                request_names=("gpu",),
                pool="node-a",
                device=f"gpu-{number}",
                cdi_device_ids=(f"rootport.dev/claim={claim_uid}_gpu_gpu-{number}",),
                share_id=None,
                admin_access=False,
                use=GpuUse(
                    gpu=DeviceName("gpu-0"),
                    mode=DeviceType.MIG,
                    whole=False,
                    sharing="",
                    core=None,
                    memory_bytes=10 << 30,
                    placement=MigPlacement(start=0, size=1),
                    gpu_memory_bytes=80 << 30,
                ),
                isolation=Isolation(enforced=True, by="MIG", version="580.1", message="kept"),
                mig_uuid="MIG-1",
                nic_use=NicUse(
                    nic=DeviceName("rdma-0"), vf=DeviceName("rdma-vf-1"), bandwidth=None, nic_bandwidth=None
                ),
                distances=(("rdma-vfs-0", "PIX"),),
            ),
        ),
        effects=(
            CreateMigDevice(gpu="gpu-0", uuid="GPU-0", profile_id=19, profile="1g.10gb", start=0, size=1),
            SetTimeSlice(gpu="gpu-1", uuid="GPU-1", interval="Long"),
            RunMpsDaemon(gpu="gpu-2", uuid="GPU-2", folder="/run/rootport/mps/gpu-2"),
        ),
        cdi_spec='{"cdiVersion": "0.5.0"}\n',
        files=(EntryFile(path=f"{claim_uid}/gpu.json", content="ü"),),
    )


ENTRIES = {uid(number): entry(number) for number in (2, 1)}
CONTENT = encode(ENTRIES.values())


def document(data: object, version: object = VERSION) -> bytes:
    """A checkpoint with a right checksum, whatever the data."""
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps({"version": version, "checksum": hashlib.sha256(canonical).hexdigest(), "data": data}).encode()


def data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(CONTENT)["data"]
    return found


def test_what_is_written_is_read_back_whatever_the_order() -> None:
    assert decode(CONTENT) == (ENTRIES, VERSION)
    assert encode(reversed(ENTRIES.values())) == CONTENT
    assert decode(encode([])) == ({}, VERSION)


def test_a_pretty_printed_copy_still_checks() -> None:
    assert decode(json.dumps(json.loads(CONTENT), indent=4).encode()) == (ENTRIES, VERSION)


def test_every_truncation_is_corrupt() -> None:
    for length in range(len(CONTENT) - 1):  # the last byte is a line feed
        with pytest.raises(CorruptCheckpointError):
            decode(CONTENT[:length])


@settings(max_examples=300)
@given(st.integers(0, len(CONTENT) - 2), st.integers(1, 255))
@example(CONTENT.index(b"3"), ord("3") ^ ord("2"))  # an older version, which its checksum does not cover
def test_a_changed_byte_never_passes_for_other_entries(position: int, change: int) -> None:
    changed = bytearray(CONTENT)
    changed[position] ^= change
    try:
        found, _ = decode(bytes(changed))
    except NodeError:
        return
    assert found == ENTRIES  # white space for white space, upper for lower case in an escape


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        decode(content)


def _with(change: Callable[[dict[str, Any]], object]) -> bytes:
    changed = data()
    change(changed["claims"][0])
    return document(changed)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b"[]",
        b"{}",
        document([]),
        document({}),
        document({"claims": [], "more": 1}),
        document(data(), version="1"),
        document(data(), version=True),
        document(data(), version=0),
        document(data(), version=-(10**9)),
        document({"claims": data()["claims"] * 2}),
        _with(lambda item: item.update(more=1)),
        _with(lambda item: item.update(uid=7)),
        _with(lambda item: item.update(state="unknown")),
        _with(lambda item: item.pop("boot_id")),
        _with(lambda item: item["devices"][0].update(admin_access="yes")),
        _with(lambda item: item["devices"][0]["use"].update(mode="rdma")),
        _with(lambda item: item["devices"][0].pop("mig_uuid")),
        _with(lambda item: item["devices"][0].pop("nic_use")),
        _with(lambda item: item["devices"][0]["use"].pop("placement")),
        _with(lambda item: item["devices"][0]["use"].update(more=1)),
        _with(lambda item: item["devices"][0]["isolation"].pop("version")),
        _with(lambda item: item["devices"][0]["nic_use"].pop("bandwidth")),
        _with(lambda item: item["devices"][0]["use"]["placement"].update(start="0")),
        _with(lambda item: item["devices"][0]["use"]["placement"].update(start=True)),
        _with(lambda item: item["effects"][0].update(kind="Unknown")),
        _with(lambda item: item["effects"][0].pop("start")),
    ],
    ids=[
        "deep",
        "list",
        "empty",
        "data-is-a-list",
        "no-claims",
        "more-in-data",
        "version-is-text",
        "version-is-true",
        "version-without-a-way",
        "version-far-below",
        "one-claim-twice",
        "more-in-an-entry",
        "uid-is-a-number",
        "unknown-state",
        "no-boot-id",
        "admin-access-is-text",
        "unknown-mode",
        "no-mig-uuid",
        "no-nic-use",
        "use-without-placement",
        "more-in-a-use",
        "isolation-without-version",
        "nic-use-without-bandwidth",
        "placement-is-text",
        "placement-is-true",
        "unknown-effect",
        "effect-without-a-place",
    ],
)
def test_what_is_not_exactly_a_checkpoint_is_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        decode(content)


def test_the_file_is_the_owners_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "checkpoint.json")
    assert file.load() is None
    file.save(ENTRIES.values())
    assert file.load() == ENTRIES
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file.path]


def test_what_another_instance_wrote_is_seen(tmp_path: Path) -> None:
    one, other = (CheckpointFile(tmp_path / "checkpoint.json") for _ in range(2))
    one.save(ENTRIES.values())
    assert other.load() == ENTRIES
    one.save([entry(1)])
    assert other.load() == {uid(1): entry(1)}
    one.path.unlink()
    assert other.load() is None


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = CheckpointFile(tmp_path / "checkpoint.json")
    file.save(ENTRIES.values())
    monkeypatch.setattr(checkpoint_module, "read_regular_file", None)
    assert file.load() == ENTRIES


def test_more_than_fits_is_refused_and_the_old_stands(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "checkpoint.json")
    file.save([entry(1)])
    big = replace(entry(2), cdi_spec="x" * checkpoint_module.MAX_BYTES)
    with pytest.raises(NodeError, match="for 2 claims, and at most"):
        file.save([entry(1), big])
    assert CheckpointFile(file.path).load() == {uid(1): entry(1)}


# A newer version


def newer(machine: Machine) -> bytes:
    content = document({"anything": ["that", "comes"]}, version=VERSION + 1)
    machine.plugin_dir.mkdir()
    machine.checkpoint.write_bytes(content)
    return content


def test_a_newer_version_ends_the_start_and_is_never_touched(machine: Machine) -> None:
    content = newer(machine)
    (claim,) = machine.offer(gpu_claim(1))
    with pytest.raises(NewerCheckpointError) as caught:
        machine.recover()
    assert f"the checkpoint {machine.checkpoint} cannot be used: it has version {VERSION + 1}" in caught.value.message
    assert "install the Rootport that wrote it" in (caught.value.hint or "")
    assert not caught.value.retry_helps
    preparer = machine.preparer()
    assert isinstance(failed(preparer.prepare([claim])[claim.uid]), NewerCheckpointError)
    assert isinstance(failed(preparer.unprepare([claim])[claim.uid]), NewerCheckpointError)
    assert machine.checkpoint.read_bytes() == content
    assert sorted(path.name for path in machine.plugin_dir.iterdir()) == ["checkpoint.json", "state.lock"]


# An older version: files that a Rootport of before GPU shares, and one of before VF pools, wrote.


def before(machine: Machine, version: int) -> dict[str, Any]:
    """Put the files of a version onto the machine; the checkpoint's claims by UID."""
    folder = REPO / f"tests/data/checkpoints/version_{version}"
    machine.plugin_dir.mkdir()
    shutil.copytree(folder, machine.cdi_dir, ignore=shutil.ignore_patterns("checkpoint.json"))
    shutil.copy(folder / "checkpoint.json", machine.checkpoint)
    claims = json.loads(machine.checkpoint.read_bytes())["data"]["claims"]
    return {item["uid"]: item for item in claims}


@pytest.mark.parametrize(("version", "files"), [(1, "metadata"), (2, "files"), (3, "files")])
def test_an_older_version_is_migrated_on_disk_and_kept(machine: Machine, version: int, files: str) -> None:
    old = before(machine, version)
    content = machine.checkpoint.read_bytes()
    entries = machine.entries()
    assert (machine.plugin_dir / f"checkpoint.json.v{version}").read_bytes() == content
    assert decode(machine.checkpoint.read_bytes()) == (entries, VERSION)
    assert set(entries) == set(old) == {uid(1), uid(2), uid(3)}
    for key, item in entries.items():
        assert item.cdi_spec == old[key]["cdi_spec"]
        assert [write(file) for file in item.files] == old[key][files]
        assert [device.device for device in item.devices] == [device["device"] for device in old[key]["devices"]]
        # What version 4 added to effects on VFs has the value that changes nothing.
        effects = [
            {"rate_limit": None, **effect} if effect["kind"] == "ConfigureVf" else effect
            for effect in old[key].get("effects", [])
        ]
        assert [write(effect) for effect in item.effects] == effects


@pytest.mark.parametrize("lost", [False, True], ids=["checkpoint", "cdi-specs-alone"])
def test_version_3_had_bandwidth_in_bits_per_second_alone(machine: Machine, lost: bool) -> None:
    before(machine, 3)
    if lost:
        machine.checkpoint.write_text("")
    uses = nic_uses(machine.entries()[uid(3)])
    assert [(use.bandwidth, use.bandwidth_ratio) for use in uses] == [(None, None), (10**9, None)]


def test_a_look_without_the_lock_writes_nothing(machine: Machine) -> None:
    machine.plugin_dir.mkdir(parents=True)
    content = (REPO / "tests/data/checkpoints/version_2/checkpoint.json").read_bytes()
    machine.checkpoint.write_bytes(content)
    store = machine.store()
    assert set(store.checkpoint.look() or ()) == set(decode(content)[0])
    assert store.may_have(uid(1))
    assert not store.may_have(uid(99))
    assert [path.name for path in machine.plugin_dir.iterdir()] == ["checkpoint.json"]
    assert machine.checkpoint.read_bytes() == content


def test_version_1_gave_gpus_whole(machine: Machine) -> None:
    before(machine, 1)
    entries = machine.entries()
    assert [use.gpu for use in gpu_uses(entries[uid(1)])] == [device(0), device(1)]
    assert all(use.whole and use.mode == "gpu" for use in gpu_uses(entries[uid(1)]))
    # Watching over one is no use of it, and a NIC is none.
    assert gpu_uses(entries[uid(2)]) == gpu_uses(entries[uid(3)]) == []


@pytest.mark.parametrize("lost", [False, True], ids=["checkpoint", "cdi-specs-alone"])
def test_version_2_gave_each_function_of_a_nic_by_its_name(machine: Machine, lost: bool) -> None:
    before(machine, 2)
    if lost:
        machine.checkpoint.write_text("")
    entries = machine.entries()
    assert [(use.nic, use.vf, use.bandwidth) for use in nic_uses(entries[uid(1)])] == [
        ("rdma-0000-40-00-0", None, None)
    ]
    assert [(use.nic, use.vf) for use in nic_uses(entries[uid(2)])] == [("", "rdma-vf-0000-41-00-1")]
    assert nic_uses(entries[uid(3)]) == []  # it only watches over one
    assert [use.gpu for use in gpu_uses(entries[uid(1)])] == [device(1)]
    assert len(entries[uid(1)].effects) == 1


@pytest.mark.parametrize("lost", [False, True], ids=["checkpoint", "cdi-specs-alone"])
def test_a_claim_of_version_1_keeps_its_gpu_from_shares_and_partitions(machine: Machine, lost: bool) -> None:
    before(machine, 1)
    if lost:
        machine.checkpoint.write_text("")
    machine.recover()
    claims = machine.offer(mig_claim(4, (0, 2)), share_claim(5, 1), mig_claim(6, (2, 0)))
    preparer = machine.preparer()
    answers = preparer.prepare(claims)
    for claim in claims[:2]:
        assert f"in use by claim ml/claim-1 (uid {uid(1)})" in failed(answers[claim.uid]).message
    prepared(answers[claims[2].uid])
    (whole,) = machine.offer(gpu_claim(1, 0, 1))
    prepared(preparer.prepare([whole])[whole.uid])
    assert preparer.unprepare([whole]) == {whole.uid: None}
    prepared(preparer.prepare(claims[:1])[claims[0].uid])
    machine.check_gpus()


def test_what_is_no_data_of_version_1_counts_as_corrupt() -> None:
    with pytest.raises(CorruptCheckpointError, match="cannot be brought from version 1 to 2"):
        decode(document({"claims": [{"uid": "x"}]}, version=1))


@pytest.mark.parametrize("error", [ValueError, KeyError, TypeError])
def test_a_migration_that_fails_counts_as_corrupt(error: type[Exception]) -> None:
    def fails(_: dict[str, Any]) -> dict[str, Any]:
        raise error("no")

    with pytest.raises(CorruptCheckpointError, match="cannot be brought from version 0 to 1"):
        decode(document({"claims": []}, version=0), migrations={0: fails})


# A corrupt one


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").touch()


def _make_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _make_huge(path: Path) -> None:
    os.truncate(path, checkpoint_module.MAX_BYTES + 1)


SPOIL: dict[str, Callable[[Path], None]] = {
    "truncated": _truncate,
    "empty": lambda path: path.write_bytes(b"") and None,
    "zeroes": lambda path: path.write_bytes(bytes(path.stat().st_size)) and None,
    "folder": _make_folder,
    "link": _make_link,
    "fifo": _make_fifo,
    "huge": _make_huge,
    "removed": Path.unlink,
}


@pytest.mark.parametrize("kind", SPOIL)
@pytest.mark.parametrize("running", [False, True], ids=["at-start", "while-running"])
def test_a_corrupt_checkpoint_is_set_aside_and_rebuilt_from_the_cdi_specs(
    machine: Machine, kind: str, running: bool
) -> None:
    claims = machine.offer(gpu_claim(1, 1, 2), gpu_claim(0, adminAccess=True))
    preparer = machine.preparer()
    first = preparer.prepare(claims)
    before = machine.entries()
    SPOIL[kind](machine.checkpoint)
    machine.api_is_away = True
    if not running:
        report = machine.recover()
        assert {claim.uid for claim in report.rebuilt} == set(before)
        assert (report.set_aside is None) == (kind == "removed")
    after = machine.entries()
    assert {item.state for item in after.values()} == {"rebuilt"}
    assert {key: replace(item, state="prepared") for key, item in after.items()} == before
    aside = list(machine.plugin_dir.glob("checkpoint.json.corrupt-*"))
    assert len(aside) == (kind != "removed")
    # Devices stay taken, though nobody could ask the API server.
    machine.api_is_away = False
    (rival,) = machine.offer(gpu_claim(3, 2))
    assert "is still in use by claim ml/claim-1" in failed(preparer.prepare([rival])[rival.uid]).message
    for claim in claims:
        assert prepared(preparer.prepare([claim])[claim.uid]) == first[claim.uid]
    assert {item.state for item in machine.entries().values()} == {"prepared"}
    assert preparer.unprepare(claims) == {claim.uid: None for claim in claims}
    assert machine.check() == set()


def test_only_the_last_few_corrupt_checkpoints_are_kept(machine: Machine) -> None:
    machine.recover()
    for number in range(6):
        if number % 2:
            _make_folder(machine.checkpoint)
        else:
            machine.checkpoint.write_text(str(number))
        machine.recover()
    kept = sorted(machine.plugin_dir.glob("checkpoint.json.corrupt-*"))
    assert [path.is_dir() for path in kept] == [True, False, True]
    assert kept[1].read_text() == "4"


def test_a_damaged_cdi_spec_does_not_keep_the_others_from_being_rebuilt(machine: Machine) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2))
    machine.preparer().prepare(claims)
    damaged = machine.cdi_dir / f"rootport.dev-claim_{uid(1)}.json"
    os.truncate(damaged, 100)
    machine.checkpoint.write_text("")
    report = recover(machine.store())
    assert report.rebuilt == (claims[1],)
    assert damaged in report.removed
    assert machine.check() == {uid(2)}
    assert set(prepared(machine.preparer().prepare(claims)[uid(1)]).devices)
