"""From the last release to this version and back, on the real node, while pods run that hold devices of every kind.

The last release is installed from its own code and manifests. Then this version is applied as docs/operator/upgrade.md
says, and after that the last release again, each time with pods starting meanwhile.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from driver import __version__
from driver.adapters.kubernetes.resources import PODS, RESOURCE_CLAIMS
from tests.support.cluster.driver import NAMESPACE
from tests.support.cluster.installation import PLUGIN, Installation, installations, logs
from tests.support.cluster.interfaces import add_interfaces, interfaces, remove_interfaces
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import claim, gpu_claim, manifest, nic_claim, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rollout import Rollout, watched_rollout
from tests.support.cluster.rootport import CDI_DIRECTORY, PLUGIN_DIRECTORY, RunningRootport
from tests.support.last_release import LAST_RELEASE, source_of
from tests.support.paths import REPO
from tests.support.stub_nvml import read_state

LEASE_S = 15
"""How long a Lease of the leader is valid: a leader that released it is followed sooner."""
PAGE = REPO / "docs/operator/upgrade.md"
LATER = """
from kubeletplugin.state import checkpoint
checkpoint.VERSION = 5
checkpoint.MIGRATIONS[4] = lambda data: data
from kubeletplugin.main import main
main()
"""
"""This version's plugin with a checkpoint of a version that there is not yet."""
REFUSAL = "it has version 5, and this Rootport knows versions up to 4"
STARTING = "starting"
"""The claims of the pods that start while versions change."""


def claims(rootport: RunningRootport, prefix: str) -> list[dict[str, Any]]:
    """A claim of every kind but an FPGA's; those of another prefix fit beside them.

    GPU 0 is shared by MPS, 6 is for pods that start meanwhile, 7 and 1 are whole.
    """
    host = rootport.host
    first = prefix == "old"
    slices = {"kind": "GpuConfig", "sharing": {"strategy": "timeSlicing", "timeSlicing": {"interval": "Long"}}}
    moved = {"interface": {"name": "rdma0", "mtu": 1400}}
    return [
        gpu_claim(f"{prefix}-whole", host.gpus[1 if first else 7]),
        gpu_claim(f"{prefix}-bytes", host.gpus[2], core="30", memory="20Gi"),
        gpu_claim(f"{prefix}-time-slice", host.gpus[3], core="30", memory="20Gi", parameters=slices),
        gpu_claim(f"{prefix}-mps", host.gpus[0], type_="gpu-mps", core="40", memory="30Gi"),
        gpu_claim(f"{prefix}-percent", host.gpus[4], type_="gpu-ratio", core="40", memoryRatio="40"),
        gpu_claim(f"{prefix}-mig", host.gpus[5], type_="mig", profile="2g.20gb"),
        nic_claim(f"{prefix}-nic", class_="rdma", address=host.nics[0 if first else 1]),
        nic_claim(f"{prefix}-nic-share", class_="rdma", address=host.nics[2], bandwidth="100G"),
        nic_claim(f"{prefix}-vf", parent=host.vf_nics[0].address, parameters=moved),
        nic_claim(f"{prefix}-vf-reserved", parent=host.vf_nics[1].address, bandwidth="25G"),
    ]


def fpga_claim(name: str) -> dict[str, Any]:
    """There is one FPGA."""
    made = claim(name)
    made["spec"] = {"devices": {"requests": [{"name": "fpga", "exactly": {"deviceClassName": "fpga.rootport.dev"}}]}}
    return made


def template_of(made: dict[str, Any]) -> dict[str, Any]:
    """A ResourceClaimTemplate for claims like this one."""
    return template(made["metadata"]["name"]) | {"spec": {"spec": made["spec"]}}


def start(rootport: RunningRootport, made: list[dict[str, Any]]) -> list[str]:
    """Start a pod for each claim, and wait until all run; their names."""
    names = [item["metadata"]["name"] for item in made]
    objects = [*made, *(pod(name, claim=name) for name in names)]
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))
    for name in names:
        rootport.cluster.wait_for_pod(name, "Running", timeout_s=120)
    return names


def end(rootport: RunningRootport, names: list[str]) -> None:
    """Delete the pods and their claims, and wait until they are gone."""
    objects = [f"{kind}/{name}" for name in names for kind in ("pod", "resourceclaim")]
    rootport.cluster.kubectl("delete", *objects, "--timeout=120s", timeout=130)


@dataclass(frozen=True, slots=True)
class Held:
    """What pods hold.

    Attributes:
        pods: By name, its UID, phase, and each container's id and restarts.
        allocations: By claim, what was allocated.
        prepared: By claim, its devices and effects in the checkpoint.
        specs: By claim's UID, its CDI spec.
        gpus: What is not as it was at first of the GPUs, but for processes' ids.
    """

    pods: dict[str, Any]
    allocations: dict[str, Any]
    prepared: dict[str, Any]
    specs: dict[str, str]
    gpus: list[str]


def held(rootport: RunningRootport, names: list[str]) -> Held:
    cluster = rootport.cluster
    pods = {item["metadata"]["name"]: item for item in cluster.list(PODS)}
    claims = {item["metadata"]["name"]: item for item in cluster.list(RESOURCE_CLAIMS)}
    uids = {claims[name]["metadata"]["uid"]: name for name in names}
    folder = cluster.machine.path(CDI_DIRECTORY)
    return Held(
        pods={
            name: (
                pods[name]["metadata"]["uid"],
                pods[name]["status"]["phase"],
                [(one["containerID"], one["restartCount"]) for one in pods[name]["status"]["containerStatuses"]],
            )
            for name in names
        },
        allocations={name: claims[name]["status"]["allocation"] for name in names},
        prepared={
            uids[uid]: (item["devices"], item["effects"]) for uid, item in rootport.checkpoint().items() if uid in uids
        },
        specs={uid: (folder / f"rootport.dev-claim_{uid}.json").read_text() for uid in uids},
        gpus=[text for text in rootport.host.gpu_changes() if text.startswith("GPU ")],
    )


def change(rootport: RunningRootport, version: Installation, prefix: str) -> Rollout:
    """Apply a version as docs/operator/upgrade.md says, with pods starting meanwhile."""
    cluster = rootport.cluster
    with watched_rollout(cluster.control_plane.kubeconfig, STARTING, prefix) as seen:
        version.apply()
        version.wait()
        # It does not wait for pods that are ending, of which one may still lead.
        wait_until("another controller leads", lambda: len(seen.leaders) > 1, timeout_s=60)
    print(f"{prefix}: {json.dumps(seen.figures())}")  # noqa: T201 - for `pytest -s`, and for the documents
    cluster.kubectl("delete", "pods", *seen.created, "--timeout=120s", timeout=130)
    return seen


@dataclass(frozen=True, slots=True)
class Changed:
    """A change of versions.

    Attributes:
        names: The pods that ran all the while, and their claims.
        before: What they held before.
        after: What they held once the change was over.
        rollout: What was seen meanwhile.
    """

    names: list[str]
    before: Held
    after: Held
    rollout: Rollout


@dataclass(frozen=True, slots=True)
class Versions:
    """Both of them, installed one after the other on the node."""

    rootport: RunningRootport
    former: Installation
    current: Installation

    def change(self, to: Installation, names: list[str], prefix: str) -> Changed:
        before = held(self.rootport, names)
        rollout = change(self.rootport, to, prefix)
        return Changed(names, before, held(self.rootport, names), rollout)


@pytest.fixture(scope="module")
def versions(running: RunningRootport, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versions]:
    """The last release is installed; at the end this version is."""
    cluster, folder = running.cluster, tmp_path_factory.mktemp("versions")
    former_source = source_of(LAST_RELEASE.commit)
    names = tuple(name for nic in running.host.vf_nics for name in nic.interfaces)
    add_interfaces(cluster.machine, names)
    try:
        with installations(running):
            made = Versions(
                running,
                Installation(running, former_source, folder / "former"),
                Installation(running, REPO, folder / "current"),
            )
            made.former.apply()
            made.former.wait()
            wait_until("the node's devices are published", lambda: bool(running.slices()), timeout_s=60)
            small = gpu_claim(STARTING, running.host.gpus[6], core="1", memory="1Mi")
            cluster.kubectl("apply", "--filename=-", input=manifest(template_of(small)))
            try:
                yield made
            finally:
                running.delete_all()
                made.current.apply()
                made.current.wait()
                running.wait_until_clean()
    finally:
        remove_interfaces(cluster.machine, names)


@pytest.fixture(scope="module")
def upgraded(versions: Versions) -> Changed:
    """From the last release to this version."""
    names = start(versions.rootport, [*claims(versions.rootport, "old"), fpga_claim("old-fpga")])
    return versions.change(versions.current, names, "upgrade")


@pytest.fixture(scope="module")
def renewed(versions: Versions, upgraded: Changed) -> list[str]:
    """Pods of this version, started beside those of the last release, which have ended then."""
    rootport = versions.rootport
    names = start(rootport, claims(rootport, "new"))
    end(rootport, upgraded.names)
    return names + start(rootport, [fpga_claim("new-fpga")])


@pytest.fixture(scope="module")
def downgraded(versions: Versions, renewed: list[str]) -> Changed:
    """Back to the last release."""
    return versions.change(versions.former, renewed, "downgrade")


def check_undisturbed(changed: Changed) -> None:
    assert changed.after.pods == changed.before.pods
    assert {phase for _, phase, _ in changed.after.pods.values()} == {"Running"}
    assert changed.after == changed.before
    assert changed.after.prepared.keys() == set(changed.names)


def check_starts(rootport: RunningRootport, rollout: Rollout, version: str) -> None:
    assert rollout.refused == []
    assert len(rollout.leaders) > 1
    assert rollout.longest_without_leader < LEASE_S
    figures = rollout.figures()
    assert figures["meanwhile"]["pods"] > 1
    workloads = rootport.cluster.list(PODS, namespace=NAMESPACE)
    assert {item["spec"]["containers"][0]["image"] for item in workloads} == {f"rootport:{version}"}

    def reported() -> str:
        return str(rootport.cluster.get("nodeinventory", NODE_NAME)["status"]["pluginVersion"])

    wait_until("the node's plugin tells its version", lambda: reported() == version, timeout_s=60)


def test_pods_of_the_last_release_are_left_alone(upgraded: Changed) -> None:
    check_undisturbed(upgraded)


def test_pods_start_while_this_version_takes_over(versions: Versions, upgraded: Changed) -> None:
    check_starts(versions.rootport, upgraded.rollout, __version__)


def test_mps_daemons_are_started_again_for_pods_of_the_last_release(versions: Versions, upgraded: Changed) -> None:
    """They ended with the container of the plugin, in which they were; the page's command names the claims before."""
    rootport = versions.rootport
    assert "old-mps" in upgraded.names
    wait_until("there is a daemon", lambda: len(rootport.mps_daemons()) == 1, timeout_s=30)
    (command,) = re.findall(r"^ *\$ kubectl (get devices.*)$", PAGE.read_text(), re.MULTILINE)
    shown = rootport.cluster.kubectl(*shlex.split(command))
    assert re.findall(r" MPS +(\S+)$", shown, re.MULTILINE) == ["old-mps"]


def test_claims_of_every_kind_are_prepared_beside_those_of_the_last_release_which_leave_nothing(
    versions: Versions, upgraded: Changed, renewed: list[str]
) -> None:
    rootport = versions.rootport
    now = held(rootport, renewed)
    ended = {*upgraded.before.specs, *(uid for uid, _, _ in upgraded.before.pods.values())}

    assert now.prepared.keys() == set(renewed)
    assert {phase for _, phase, _ in now.pods.values()} == {"Running"}
    assert [name for name in rootport.leftovers() if any(uid in name for uid in ended)] == []
    partitions = [len(read_state(rootport.host.nvml_state, gpu).instances) for gpu in range(8)]
    assert partitions == [0, 0, 0, 0, 0, 1, 0, 0], "the new one's alone"
    veths = rootport.host.vf_nics[0].interfaces
    assert len(set(veths) & interfaces(rootport.cluster.machine).keys()) == len(veths) - 1, "the new one's is away"


def test_pods_of_this_version_are_left_alone_by_the_last_release(downgraded: Changed) -> None:
    check_undisturbed(downgraded)


def test_pods_start_while_the_last_release_takes_over(versions: Versions, downgraded: Changed) -> None:
    check_starts(versions.rootport, downgraded.rollout, LAST_RELEASE.version)


def test_all_claims_end_under_the_last_release(versions: Versions, downgraded: Changed) -> None:
    rootport = versions.rootport
    again = start(rootport, claims(rootport, "old"))
    veths = [rootport.host.vf_nics[0].interfaces[index] for index in (0, 1)]

    end(rootport, [*downgraded.names, *again])

    rootport.wait_until_clean()
    back = interfaces(rootport.cluster.machine)
    assert [back.get(name) for name in veths] == [1500, 1500]


def test_neither_version_was_forbidden_anything(versions: Versions, downgraded: Changed) -> None:
    assert "orbidden" not in logs(versions.rootport, "controller")
    assert "orbidden" not in logs(versions.rootport, "kubelet-plugin")
    assert "newer" not in logs(versions.rootport, "kubelet-plugin").lower()


def test_what_a_later_version_wrote_is_refused_and_its_plugin_goes_on_until_the_node_is_drained(
    versions: Versions, downgraded: Changed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rootport, cluster = versions.rootport, versions.rootport.cluster
    assert downgraded.names, "the last release is installed"
    later = Installation(
        rootport, REPO, tmp_path_factory.mktemp("versions") / "later", plugin_command=["python", "-c", LATER]
    )
    later.apply()
    later.wait()
    running = start(rootport, [gpu_claim("of-later", rootport.host.gpus[1])])
    file = cluster.machine.path(PLUGIN_DIRECTORY) / "checkpoint.json"
    content = file.read_bytes()
    assert content.startswith(b'{"version": 5,')

    versions.former.apply()
    wait_until("the last release refuses it", lambda: REFUSAL in logs(rootport, "kubelet-plugin"), timeout_s=90)
    running += start(rootport, [gpu_claim("meanwhile", rootport.host.gpus[2])])
    assert file.read_bytes().startswith(b'{"version": 5,')

    end(rootport, running)
    cluster.kubectl("delete", PLUGIN, f"--namespace={NAMESPACE}", "--cascade=foreground", "--timeout=90s")
    file.unlink()
    versions.former.apply()
    versions.former.wait()
    end(rootport, start(rootport, [gpu_claim("of-former", rootport.host.gpus[1])]))
    rootport.wait_until_clean()
