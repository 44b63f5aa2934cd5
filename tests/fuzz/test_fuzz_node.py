"""What a node's plugin reads: its own files after a disk has spoilt them, its CNI program's calls, sysfs, metrics."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.http.metrics_reader import read_samples
from driver.adapters.sysfs.discovery import discover
from driver.api.claim_reference import ClaimReference
from driver.api.strict import write
from driver.errors import InputError, NodeError, RootportError
from driver.health.fault_history import UnreadableHistoryError, from_json
from driver.layout.slices import resource_slices
from driver.model.inventory import Inventory
from driver.objects.inventories import inventory_of, parse_node_inventory
from driver.objects.written_inventory import node_inventory
from driver.plan.effects import CreateMigDevice, LendInterface, RunMpsDaemon, SetTimeSlice
from kubeletplugin.network.cni.network_config import NetworkConfig
from kubeletplugin.network.cni.protocol import read_call
from kubeletplugin.network.netdev.records import Records
from kubeletplugin.node.shared_object import elf_problem, own_machine
from kubeletplugin.state import checkpoint
from kubeletplugin.state.entry_in_spec import found_in_spec
from kubeletplugin.state.journal import EffectJournal
from tests.fuzz.fuzzing import Target, check_message
from tests.fuzz.mutation import json_mutated, mutated, spoilt
from tests.support.slice_validation import validate_slices
from tests.support.stub_hami import build
from tests.support.sysfs_tree import dgx

pytestmark = pytest.mark.fuzz

_UID: Final = "0d9ac3e4-7b12-4c5e-9d0f-a1b2c3d4e5f6"
_FUNCTION: Final = "rdma-0000-14-00-0"
_EFFECTS: Final = (
    CreateMigDevice(gpu="gpu-0", uuid="GPU-0", profile_id=19, profile="1g.10gb", start=0, size=1),
    SetTimeSlice(gpu="gpu-1", uuid="GPU-1", interval="Long"),
    RunMpsDaemon(gpu="gpu-2", uuid="GPU-2", folder="/run/rootport/mps/gpu-2"),
)
_LENT: Final = LendInterface(
    function=_FUNCTION,
    address="0000:14:00.0",
    interface="ib0",
    pod_uid=_UID,
    claim_uid=_UID,
    name_in_pod="net1",
    mtu=None,
    rdma_device="mlx5_0",
)
_USE: Final = {
    "gpu": "gpu-0", "mode": "mig", "whole": False, "sharing": "", "core": None, "memory_bytes": 10 << 30,
    "placement": {"start": 0, "size": 1}, "gpu_memory_bytes": 80 << 30,
}  # fmt: skip
_DEVICE: Final = {
    "request_names": ["gpu"], "pool": "node-a", "device": "gpu-0", "cdi_device_ids": ["rootport.dev/claim=x"],
    "share_id": None, "admin_access": False, "use": _USE, "mig_uuid": "MIG-1", "distances": [["rdma-vfs-0", "PIX"]],
    "isolation": {"enforced": True, "by": "MIG", "version": "580.1", "message": "kept"},
    "nic_use": {"nic": "rdma-0", "vf": "rdma-vf-1", "bandwidth": None, "nic_bandwidth": None, "bandwidth_ratio": None},
}  # fmt: skip
_WIRE_EFFECTS: Final = [write(effect) for effect in _EFFECTS]
_ENTRY: Final = {
    "uid": _UID, "namespace": "ml", "name": "train", "state": "prepared", "boot_id": "boot-1", "devices": [_DEVICE],
    "effects": _WIRE_EFFECTS, "cdi_spec": '{"cdiVersion": "0.5.0"}\n',
    "files": [{"path": "x/gpu.json", "content": "ü"}],
}  # fmt: skip
_MEMORY: Final = {
    "version": 1, "boot_id": "boot-1", "away": {"gpu-1": "2026-01-01T00:00:00Z"},
    "downs": {f"{_FUNCTION}/1": ["2026-01-01T00:00:00Z"]},
    "faults": [{"device": "gpu-0", "reason": "Xid79", "effect": "NoExecute", "since": "2026-01-01T00:00:00Z",
                "message": "fell off the bus", "xid": 79, "last": "2026-01-01T00:00:00Z"}],
}  # fmt: skip
_CALL: Final = {
    "version": 1, "command": "ADD", "cniVersion": "1.0.0", "containerID": "8c1d", "netns": "/run/netns/x",
    "ifName": "eth0", "podUID": _UID, "podNamespace": "ml", "podName": "train-0",
}  # fmt: skip
_NETWORK: Final = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}],
}
_LINK: Final = {
    "name": "ib0", "index": 5, "mtu": 4092, "mac": "0a:58:0a:2a:00:07", "can_set_mac": False, "kind": None,
    "is_up": True, "altnames": [], "addresses": [],
}  # fmt: skip
_RECORD: Final = {
    "version": 1, "effect": write(_LENT), "in_pod": None,
    "loan": {"netns": "/run/netns/x", "device": 4, "inode": 4026531840, "link": _LINK},
}  # fmt: skip
_PAGE: Final = (
    b"# HELP rootport_gpu_utilization Use.\n# TYPE rootport_gpu_utilization gauge\n"
    b'rootport_gpu_utilization{gpu="gpu-0",pod="a\\"b"} 0.5\nrootport_gpu_utilization{gpu="gpu-1"} NaN 1700000000\n'
)


def _of(sample: Any) -> Callable[[Random], bytes]:
    return lambda random: spoilt(random, sample)


def _checkpoint(random: Random) -> bytes:
    """Half of them have a right checksum, so that what is behind it is looked at as well."""
    data: Any = {"claims": [_ENTRY, _ENTRY | {"uid": "2"}]}
    if random.randrange(2):
        data = json_mutated(random, data)
        canonical = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
        version = random.choice((checkpoint.VERSION, 0, 1, 2, -1))
        return b'{"version": %d, "checksum": "%s", "data": %s}' % (
            version,
            hashlib.sha256(canonical).hexdigest().encode(),
            canonical,
        )
    return mutated(random, checkpoint.encode(checkpoint.decode(_sound_checkpoint())[0].values()))


def _sound_checkpoint() -> bytes:
    canonical = json.dumps({"claims": [_ENTRY]}, sort_keys=True, separators=(",", ":")).encode()
    wire = {
        "version": checkpoint.VERSION,
        "checksum": hashlib.sha256(canonical).hexdigest(),
        "data": json.loads(canonical),
    }
    return json.dumps(wire).encode()


def _cdi_spec(random: Random) -> bytes:
    found = {key: _ENTRY[key] for key in ("namespace", "name", "boot_id", "devices", "effects")}
    found |= {"version": 4, "files": ["x/gpu.json"]}
    note = spoilt(random, found).decode(errors="replace")
    device = {"name": f"{_UID}_checkpoint", "containerEdits": {"env": [f"ROOTPORT_CHECKPOINT={note}"]}}
    return spoilt(random, {"cdiVersion": "0.5.0", "kind": "rootport.dev/claim", "devices": [device]})


def test_a_checkpoint_is_read_or_told_to_be_corrupt() -> None:
    assert len(checkpoint.decode(_sound_checkpoint())[0]) == 1

    def check(data: bytes) -> None:
        with suppress(checkpoint.CorruptCheckpointError, checkpoint.NewerCheckpointError):
            checkpoint.decode(data)

    Target(name="checkpoint", make=_checkpoint, check=check, examples=400).run()


def test_a_cdi_spec_tells_of_its_claim_or_of_nothing() -> None:
    Target(name="cdi-spec", make=_cdi_spec, check=lambda data: found_in_spec(data, _UID), examples=400).run()


def test_a_journal_is_read_or_set_aside(tmp_path: Path) -> None:
    journal = EffectJournal(tmp_path, boot_id="boot")
    claim = ClaimReference(namespace="ml", name="train", uid=_UID)
    journal.write(claim, _EFFECTS)
    (path,) = tmp_path.iterdir()
    sample = json.loads(path.read_bytes())
    entry = EffectJournal(tmp_path, boot_id="boot").read(_UID)
    assert entry is not None
    assert entry.effects == _EFFECTS

    def check(data: bytes) -> None:
        path.write_bytes(data)
        EffectJournal(tmp_path, boot_id="boot").read(_UID)

    Target(name="journal", make=_of(sample), check=check).run()


def test_the_memory_of_faults_is_read_or_refused() -> None:
    assert len(from_json(json.dumps(_MEMORY).encode(), boot_id="boot-1").faults) == 1

    def check(data: bytes) -> None:
        with suppress(UnreadableHistoryError):
            memory = from_json(data, boot_id="boot-1")
            memory.write_key()
            memory.latest()

    Target(name="health", make=_of(_MEMORY), check=check, examples=400).run()


def test_the_record_of_a_lent_interface_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "pods" / _UID / f"{_FUNCTION}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(_RECORD))
    assert Records(tmp_path).read(_UID, _FUNCTION) is not None

    def check(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(NodeError):
            Records(tmp_path).read(_UID, _FUNCTION)
        list(Records(tmp_path).all())

    Target(name="records", make=_of(_RECORD), check=check).run()


def test_the_nodes_network_configuration_is_chained_or_left_as_it_is(tmp_path: Path) -> None:
    program, configs, programs = tmp_path / "rootport-cni", tmp_path / "net.d", tmp_path / "bin"
    program.write_bytes(b"\x7fELF")
    configs.mkdir()
    programs.mkdir()
    path = configs / "10-pods.conflist"

    def check(data: bytes) -> None:
        path.write_bytes(data)
        config = NetworkConfig(configs, bin_dir=programs, program=program)
        try:
            config.ensure()
        except NodeError:
            assert path.read_bytes() == data
        else:
            assert config.is_chained()
            json.loads(path.read_bytes())

    Target(name="network-config", make=_of(_NETWORK), check=check).run()


def test_a_call_of_the_cni_program_is_understood_or_refused() -> None:
    assert read_call(json.dumps(_CALL).encode()).pod_name == "train-0"

    def check(data: bytes) -> None:
        with suppress(InputError):
            read_call(data)

    Target(name="cni-call", make=_of(_CALL), check=check, examples=400).run()


def test_a_page_of_metrics_is_read_or_refused() -> None:
    assert len(read_samples(_PAGE.decode(), ["rootport_gpu_utilization"])) == 2
    tokens = (
        b"{",
        b"}",
        b'"',
        b"\\",
        b"=",
        b",",
        b" ",
        b"\n",
        b"#",
        b"# EOF",
        b"NaN",
        b"+Inf",
        b"1e999",
        b"rootport_gpu_utilization",
    )

    def check(data: bytes) -> None:
        with suppress(NodeError):
            read_samples(data.decode(errors="replace"), ["rootport_gpu_utilization"])

    Target(name="metrics", make=lambda random: mutated(random, _PAGE, tokens), check=check, examples=400).run()


def test_a_hosts_sysfs_gives_an_inventory_and_valid_slices(tmp_path: Path) -> None:
    tree = tmp_path.resolve() / "root"
    sound = dgx(tree, switches=1, pairs=2, vfs=1).root
    whole = tmp_path.resolve() / "whole"
    shutil.copytree(sound, whole, symlinks=True)
    paths = sorted(str(path.relative_to(whole)) for path in whole.rglob("*"))
    files = [path for path in paths if (whole / path).is_file() and not (whole / path).is_symlink()]

    def make(random: Random) -> bytes:
        """What is done to the tree: each a path, and what stands there then (a list: a link)."""
        steps: list[Any] = []
        for _ in range(random.randint(1, 5)):
            path = random.choice(files)
            content = mutated(
                random, (whole / path).read_bytes(), (b"\0", b"\xff", b"\n", b"0x", b"-", b"9" * 5000, b"\x1b")
            )
            encoded = base64.b64encode(content).decode()
            steps.append(
                random.choice(((path, encoded), (path, encoded), (random.choice(paths), [random.choice(paths)])))
            )
        return json.dumps(steps).encode()

    def check(data: bytes) -> None:
        steps = json.loads(data)
        for path, content in steps:
            _replace(tree / path, content, tree)
        try:
            _check_published(discover(HostRoot(tree), node="n"))
        except RootportError as error:
            check_message(error)
        finally:
            for path, _ in reversed(steps):
                _restore(tree / path, whole / path)

    Target(name="sysfs", make=make, check=check, examples=60).run()


def _replace(place: Path, content: str | list[str], tree: Path) -> None:
    if not _is_way(place.parent):
        return  # an earlier step has taken the way to it
    _remove(place)
    if isinstance(content, str):
        place.write_bytes(base64.b64decode(content))
    else:
        place.symlink_to(tree / content[0])


def _restore(place: Path, whole: Path) -> None:
    if not _is_way(place.parent):
        return
    _remove(place)
    if whole.is_dir() and not whole.is_symlink():
        shutil.copytree(whole, place, symlinks=True)
    else:
        shutil.copy2(whole, place, follow_symlinks=False)


def _is_way(folder: Path) -> bool:
    return os.path.realpath(folder) == str(folder) and folder.is_dir()


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _check_published(inventory: Inventory) -> None:
    """The plugin can write it as an object, and the controller can publish what is in it."""
    wire = json.loads(json.dumps(node_inventory(inventory)))
    assert validate_slices(resource_slices(inventory_of(parse_node_inventory(wire)))) == ()


def test_a_librarys_headers_are_read_or_told_to_be_wrong() -> None:
    """Only the headers are spoilt: what is behind them is the dynamic linker's to read, in a process of its own."""
    library, headers = build(), 1024

    def check(data: bytes) -> None:
        problem = elf_problem(data, own_machine())
        assert problem is None or ("\n" not in problem and 0 < len(problem) < 200)

    Target(
        name="shared-object",
        make=lambda random: mutated(random, library[:headers], (b"\xff" * 8, b"\0" * 8)) + library[headers:],
        check=check,
    ).run()
