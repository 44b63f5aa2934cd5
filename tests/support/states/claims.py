"""Runs in the code of one version, which may be a former one: prepares claims of every kind, or takes them over.

``PYTHONPATH=<its tree> python claims.py write|read FOLDER``. Only what every version since the one before 0.1.0 has may
be imported here. ``FOLDER`` has then: ``plugin`` and ``cdi``, the plugin's folders; ``done``, the GPUs and NICs of
:class:`tests.support.preparer.gpus.NodeOfFiles`; ``cni``, the records of what is lent and set on VFs; ``claims.json``,
the claims as in the API, each with the answer that the kubelet got.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from driver.api.resource_v1 import ResourceClaim
from driver.api.strict import write
from driver.model.devices import LinkLayer, RdmaPort
from driver.plan import NicUse
from driver.plan.effects import ConfigureVf, LendInterface, VfSettings
from kubeletplugin.network.netdev import vf_settings
from kubeletplugin.network.netdev.links import Links
from kubeletplugin.network.netdev.records import FormerLink, InPod, Loan, Record, Records
from kubeletplugin.node.roots import Roots
from tests.support.plan.builders import claim, fpga, given, gpu, nic, node, vf
from tests.support.preparer.gpus import GIB, MIG
from tests.support.preparer.machine import Machine, device, gpu_claim, prepared, uid
from tests.support.preparer.nics import nic_claim, vf_name
from tests.support.preparer.sharing import mig_claim, share_claim

__all__ = ["read_state", "write_state"]

_GPUS = 8
_METADATA = Path("/var/lib/kubelet/plugins/rootport.dev/device-metadata")
"""What texts name; the files are below the folder of the state."""
_LEFT = 20
"""The claim that has ended, and of which an effect could not be undone."""


def _claims() -> dict[str, ResourceClaim]:
    nic_share = {"shareID": uid(2000), "consumedCapacity": {"bandwidth": "40G"}}
    nic_percent = {"shareID": uid(2001), "consumedCapacity": {"bandwidthRatio": "50"}}
    made = {
        "whole": gpu_claim(1, 0),
        "watched": gpu_claim(2, 0, adminAccess=True),
        "bytes": share_claim(3, 1, core=30, memory=20, strategy=None),
        "bytes-beside": share_claim(4, 1, core=30, memory=20, strategy=None),
        "time-slice": share_claim(5, 2, core=30, strategy="timeSlicing", timeSlicing={"interval": "Long"}),
        "mps": share_claim(6, 3),
        "percent": share_claim(7, 4, core=40, memory=40, ratio=True, strategy=None),
        "percent-mps": share_claim(8, 5, core=40, memory=40, ratio=True),
        "mig": mig_claim(9, (6, 0), (6, 3)),
        "nic": nic_claim(10, "rdma-0000-40-00-0"),
        "nic-share": claim(given("nic", "rdma-0000-42-00-0", **nic_share), uid=uid(11), name="claim-11"),
        "vf-of-pool": nic_claim(
            12, "rdma-vfs-0000-41-00-0", interface={"name": "rdma0", "mtu": 1400}, vf={"vlan": 7, "trust": True}
        ),
        "vf-by-name": nic_claim(13, vf_name(2)),
        "fpga": claim(given("fpga", "fpga-0000-80-00-0"), uid=uid(14), name="claim-14"),
        "gpu-and-nic": claim(given("gpu", device(7)), given("nic", "rdma-0000-43-00-0"), uid=uid(15), name="claim-15"),
    }
    if "bandwidth_ratio" in NicUse.__dataclass_fields__:  # not before 0.1.0
        made["nic-percent"] = claim(given("nic", "rdma-0000-44-00-0", **nic_percent), uid=uid(16), name="claim-16")
    return made


def _machine(root: Path) -> Machine:
    machine = Machine(root)
    port = RdmaPort(number=1, state="active", link_layer=LinkLayer.ETHERNET, speed_gbps=100)
    functions = tuple(vf(1, index, ports=(port,), if_names=(f"ens1v{index}",)) for index in range(3))
    facts: dict[str, Any] = {"vendor": "nvidia", "memory_bytes": 80 * GIB, "mig": MIG, "cuda_compute_capability": "9.0"}
    machine.inventory = node(
        *(gpu(index, **facts) for index in range(_GPUS)),
        *(nic(index, ports=(port,), if_names=(f"ens{index}",)) for index in (0, 2, 3)),
        nic(1, vfs=functions),
        nic(4, ports=(replace(port, speed_gbps=None),)),
        fpga(0),
    )
    machine.metadata_dir = _METADATA
    dev = root / "host/dev"
    (dev / "dri").mkdir()
    names = [f"nvidia{index}" for index in range(_GPUS)] + ["dfl-port.0", "dri/renderD128"]
    for name in names + [f"infiniband/{kind}{index}" for kind in ("uverbs", "umad", "issm") for index in (2, 3, 4)]:
        (dev / name).touch()
    return machine


def write_state(folder: Path) -> None:
    """Prepare the claims, and leave in a new folder what is on the node then."""
    with tempfile.TemporaryDirectory() as scratch:
        machine = _machine(Path(scratch) / "node")
        claims, left = _claims(), mig_claim(_LEFT, (6, 5))
        references = machine.offer(*claims.values(), left)
        answers = {claim_uid: prepared(answer) for claim_uid, answer in machine.preparer().prepare(references).items()}
        machine.gpus.stick(device(6))
        assert machine.preparer().unprepare([left.reference]) == {left.metadata.uid: None}
        machine.gpus.stick()
        lent = [effect for entry in machine.entries().values() for effect in entry.effects]
        _write_records(folder / "cni", lent)
        told = {
            kind: {"claim": item.to_wire(), "answer": [write(each) for each in answers[item.metadata.uid].devices]}
            for kind, item in claims.items()
        }
        (folder / "claims.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
        for source, name in ((machine.plugin_dir, "plugin"), (machine.cdi_dir, "cdi"), (machine.gpus.folder, "done")):
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("*.lock", "preparing"))


def _write_records(folder: Path, effects: Sequence[Any]) -> None:
    """What the parts below the effects write, which a :class:`NodeOfFiles` does not."""
    (lent,) = (effect for effect in effects if isinstance(effect, LendInterface))
    (settings,) = (effect for effect in effects if isinstance(effect, ConfigureVf))
    link = FormerLink(
        name=lent.interface or "",
        index=9,
        mtu=1500,
        mac="02:00:00:00:00:01",
        can_set_mac=True,
        kind=None,
        is_up=True,
        altnames=("enp65s0v0",),
        addresses=(),
    )
    loan = Loan(netns="/var/run/netns/cni-1", device=4, inode=4026532000, link=link)
    in_pod = InPod(name=lent.name_in_pod or "", mac=link.mac, addresses=())
    Records(folder).write(Record(effect=lent, loan=loan, in_pod=in_pod))
    former = vf_settings._Former(
        effect=settings, settings=VfSettings(vlan=0, trust=False), vlan_protocol=None, node_guid=None
    )
    configurer = vf_settings.VfConfigurer(Roots.of(folder, ""), state_dir=folder, links=Links())
    configurer._write(former)


def read_state(folder: Path, *, without_checkpoint: bool = False) -> dict[str, Any]:
    """Take over what a version has left, as a plugin that starts does, and end all claims.

    Args:
        folder: As :func:`write_state` writes it; it stays as it is.
        without_checkpoint: Whether the checkpoint is lost, so that the CDI specs' records count.

    Returns:
        ``answers``: by kind of claim, what the kubelet gets when it asks again. ``refused``: what other claims for
        devices in use are told. ``done``: what was done on the node for the claims, before they ended. ``lent`` and
        ``former``: the records of the interface, and of the VF's settings before the claim. ``left``: what is on the
        node once all claims have ended.
    """
    told = json.loads((folder / "claims.json").read_text())
    claims = {kind: ResourceClaim.model_validate(each["claim"]) for kind, each in told.items()}
    with tempfile.TemporaryDirectory() as scratch:
        machine = _machine(Path(scratch) / "node")
        for name, target in (("plugin", machine.plugin_dir), ("cdi", machine.cdi_dir), ("done", machine.gpus.folder)):
            shutil.copytree(folder / name, target)
        if without_checkpoint:
            machine.checkpoint.unlink()
        machine.recover()
        machine.preparer().mend()
        vf_entry = machine.entries()[claims["vf-of-pool"].metadata.uid]
        references = machine.offer(*claims.values())
        answers = machine.preparer().prepare(references)
        others = [gpu_claim(40, 0), gpu_claim(41, 1), gpu_claim(42, 4), gpu_claim(43, 6), nic_claim(44, vf_name(2))]
        refused = machine.preparer().prepare(machine.offer(*others))
        done = sorted(str(effect) for effect in machine.gpus.there())
        ended = machine.preparer().unprepare(references)
        machine.preparer().mend()
        return {
            "done": done,
            "answers": {
                kind: [write(each) for each in prepared(answers[item.metadata.uid]).devices]
                for kind, item in claims.items()
            },
            "refused": [str(refused[item.metadata.uid]) for item in others],
            **_read_records(folder / "cni", vf_entry.effects),
            "left": [
                *(str(error) for error in ended.values() if error is not None),
                *map(str, machine.gpus.there()),
                *(path.name for path in machine.cdi_dir.iterdir()),
                *(path.name for path in (machine.plugin_dir / "effects").iterdir()),
                *machine.entries(),
            ],
        }


def _read_records(folder: Path, effects: Sequence[Any]) -> dict[str, Any]:
    (settings,) = (effect for effect in effects if isinstance(effect, ConfigureVf))
    former = vf_settings.VfConfigurer(Roots.of(folder, ""), state_dir=folder, links=Links())._read(settings)
    return {
        "lent": [write(record) for record in Records(folder).all()],
        # Of another effect than the entry's, it would not be used.
        "former": write(former.settings) if former is not None and former.effect == settings else None,
    }


def main(what: str, folder: Path) -> None:
    if what == "write":
        write_state(folder)
    else:
        json.dump(read_state(folder), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
