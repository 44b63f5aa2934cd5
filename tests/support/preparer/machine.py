"""A node for the tests of the kubelet plugin's state: real folders and files, and claims that a dict serves."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from driver.adapters.files.cdi_files import claim_uids, spec_path
from driver.adapters.host import HostRoot
from driver.api.resource_v1 import ClaimReference, ResourceClaim
from driver.errors import NodeError, RootportError
from driver.model.devices import DeviceName, LinkLayer, MigInstance, RdmaPort
from driver.model.inventory import Inventory
from driver.plan import Decision, IsolationHost, PreparePlan, decide, finish
from driver.plan.host import NicHost
from kubeletplugin.claims.effects import Mended
from kubeletplugin.claims.preparer import ClaimGoneError, Preparer
from kubeletplugin.claims.recovery import RecoveryReport, recover
from kubeletplugin.effects import HostEffects
from kubeletplugin.service import ClaimPrepared
from kubeletplugin.state.entry import Entry
from kubeletplugin.state.metadata_files import claim_folders
from kubeletplugin.state.store import ClaimStore
from tests.support.plan.builders import NODE_NAME, claim, given, gpu, nic, node, vf
from tests.support.plan.policies import policies_of
from tests.support.preparer.gpus import GIB, MIG, NodeOfFiles

GPUS = 4
VFS = 3
PORT = RdmaPort(number=1, state="active", link_layer=LinkLayer.ETHERNET, speed_gbps=100)


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def device(number: int) -> str:
    return f"gpu-0000-{number + 0x10:02x}-00-0"


def gpu_claim(number: int, *gpus: int, name: str | None = None, **fields: object) -> ResourceClaim:
    """Claim ``number``, which was given GPUs: those named, or the one of its own number."""
    results = [given(f"gpu{index}", device(index), **fields) for index in gpus or (number,)]
    return claim(*results, uid=uid(number), name=name or f"claim-{number}")


class Plans:
    """The planner without a driver's files.

    Args:
        metadata_dir: As for :class:`kubeletplugin.claims.planner.ClaimPlanner`.
    """

    def __init__(self, metadata_dir: Path) -> None:
        self._metadata_dir = str(metadata_dir)

    def decide(
        self,
        claim: ResourceClaim,
        inventory: Inventory,
        nics: NicHost,
        gpus_in_use: Mapping[DeviceName, str] = MappingProxyType({}),
    ) -> Decision:
        host = IsolationHost(
            nvidia_smi="/usr/bin/nvidia-smi",
            mps_control="/usr/bin/nvidia-cuda-mps-control",
            files_root=self._metadata_dir,
            policies=policies_of(claim),
            in_use=gpus_in_use,
        )
        return decide(claim, inventory, host=host, nics=replace(nics, has_cni_plugin=True))

    def finish(
        self,
        decision: Decision,
        *,
        mig_devices: Mapping[DeviceName, MigInstance],
        not_limited: Mapping[DeviceName, str],
    ) -> PreparePlan:
        return finish(decision, mig_devices=mig_devices, not_limited=not_limited, metadata_root=self._metadata_dir)


class Machine:
    """One node's folders; any number of instances of the plugin may use it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plugin_dir = root / "plugin"
        self.cdi_dir = root / "cdi"
        self.metadata_dir = self.plugin_dir / "device-metadata"
        self.checkpoint = self.plugin_dir / "checkpoint.json"
        self.claims: dict[tuple[str, str], ResourceClaim] = {}
        self.api_is_away = False
        self.asked: list[ClaimReference] = []
        self.inventory: Inventory = node(
            *(
                gpu(index, vendor="nvidia", memory_bytes=80 * GIB, mig=MIG, cuda_compute_capability="9.0")
                for index in range(GPUS)
            ),
            nic(0, ports=(PORT,), if_names=("ens0",)),
            nic(1, vfs=tuple(vf(1, index, ports=(PORT,), if_names=(f"ens1v{index}",)) for index in range(VFS))),
        )
        self.gpus = NodeOfFiles(root / "gpus")
        dev = root / "host" / "dev"
        dev.mkdir(parents=True)
        (dev / "nvidia-caps").mkdir()
        (dev / "infiniband").mkdir()
        for name in (
            "nvidia-caps/nvidia-cap3",
            "nvidia-caps/nvidia-cap4",
            "nvidiactl",
            "nvidia-uvm",
            "nvidia-uvm-tools",
            *(f"nvidia{index}" for index in range(GPUS)),
            "infiniband/rdma_cm",
            *(f"infiniband/{kind}{number}" for kind in ("uverbs", "umad", "issm") for number in (0, 1, 20, 21, 22)),
        ):
            (dev / name).touch()

    def offer(self, *claims: ResourceClaim) -> list[ClaimReference]:
        """Put claims into the API."""
        for item in claims:
            self.claims[item.metadata.namespace, item.metadata.name] = item
        return [item.reference for item in claims]

    def get_claim(self, reference: ClaimReference) -> ResourceClaim:
        self.asked.append(reference)
        if self.api_is_away:
            raise NodeError(f"claim {reference} cannot be read, since the API server is away")
        found = self.claims.get((reference.namespace, reference.name))
        if found is None or found.metadata.uid != reference.uid:
            raise ClaimGoneError(f"claim {reference} was deleted")
        return found

    def store(
        self, step: Callable[[str], None] | None = None, boot_id: str = "boot-1", **options: object
    ) -> ClaimStore:
        hook = {} if step is None else {"step": step}
        return ClaimStore(
            plugin_dir=self.plugin_dir, cdi_dir=self.cdi_dir, instance="test", boot_id=boot_id, **hook, **options
        )

    def preparer(self, store: ClaimStore | None = None, effects: HostEffects | None = None) -> Preparer:
        return Preparer(
            store=store or self.store(),
            inventory=lambda: self.inventory,
            get_claim=self.get_claim,
            host=HostRoot(self.root / "host"),
            planner=Plans(self.metadata_dir),
            effects=effects
            or HostEffects(
                mig=self.gpus,
                time_slices=self.gpus,
                mps=self.gpus,
                vfs=self.gpus,
                interfaces=self.gpus,
                deadline_s=10,
            ),
        )

    def recover(self) -> RecoveryReport:
        return recover(self.store())

    def mend(self) -> Mended:
        """What the reconciler does right after the start; all of it must work."""
        mended = self.preparer().mend()
        assert mended.failed == ()
        self.check_gpus()
        return mended

    def entries(self) -> dict[str, Entry]:
        """What a fresh process reads."""
        with self.store().opened() as state:
            return dict(state.entries)

    def check(self) -> set[str]:
        """The invariants after a recovery; returns the UIDs of the prepared claims."""
        entries = self.entries()
        assert set(claim_uids(self.cdi_dir)) == set(entries)
        assert set(claim_folders(self.metadata_dir)) == {uid for uid, entry in entries.items() if entry.files}
        for entry in entries.values():
            assert spec_path(entry.uid, self.cdi_dir).read_text() == entry.cdi_spec
            for file in entry.files:
                assert (self.metadata_dir / file.path).read_text() == file.content
        used = [
            (entry.boot_id, item.device, item.share_id)
            for entry in entries.values()
            for item in entry.devices
            if not item.admin_access
        ]
        assert len(used) == len(set(used))
        hidden = [path for path in self.root.rglob(".*") if path.name.endswith(".tmp")]
        assert hidden == []
        return set(entries)

    def check_gpus(self, boot_id: str = "boot-1") -> None:
        """The invariants after mending: on the node is what the claims of this boot need, and no more."""
        held = {uid: entry for uid, entry in self.entries().items() if entry.boot_id == boot_id and entry.effects}
        needed = {effect for entry in held.values() for effect in entry.effects}
        assert set(self.gpus.there()) == needed
        journal = self.store(boot_id=boot_id).journal.all()
        assert {uid: set(journal[uid].effects) for uid in held} == {uid: set(e.effects) for uid, e in held.items()}
        of_this_boot = {uid for uid in journal if uid not in self.entries() or uid in held}
        assert of_this_boot == set(held)


def prepared(answer: ClaimPrepared | RootportError) -> ClaimPrepared:
    assert isinstance(answer, ClaimPrepared), answer
    return answer


def failed(answer: ClaimPrepared | RootportError | None) -> RootportError:
    assert isinstance(answer, RootportError), answer
    return answer


def in_child(act: Callable[[], object]) -> int:
    """Run something that may kill its process, in a child; its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:  # noqa: BLE001 - whatever it was: the parent's pytest must not go on in the child
            os._exit(99)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at(name: str) -> Callable[[str], None]:
    """A hook that kills the process when a step is reached."""

    def step(reached: str) -> None:
        if reached == name:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


__all__ = [
    "NODE_NAME",
    "Machine",
    "device",
    "failed",
    "gpu_claim",
    "in_child",
    "kill_at",
    "prepared",
    "uid",
]
