"""Helm on the real node: installed, upgraded and uninstalled by the commands of the chart's README and its notes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.support.cluster.binaries import cache_folder
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE, kustomized
from tests.support.cluster.images import build_rootport
from tests.support.cluster.installation import PLUGIN
from tests.support.cluster.pods import manifest, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.helm import CHART, Helm
from tests.support.paths import REPO

README = (CHART / "README.md").read_text()
EXAMPLES = ("four-gpus", "gpu-nic-ladder", "eight-gpu-nic-pairs", "half-gpu", "mig", "fpga")
LEFT_BY_THE_CLUSTER = re.compile(r"(events?(\.events\.k8s\.io)?|leases\.coordination\.k8s\.io)/")
"""What comes and goes with the cluster itself."""


def commands(heading: str) -> list[list[str]]:
    """The commands of a section of the README, as a shell reads them."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    text = "\n".join(re.findall(r"```console\n(.*?)```", section, re.DOTALL)).replace("\\\n", " ")
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in text.splitlines() if line.startswith("$ ")]


def command(heading: str, *beginning: str) -> list[str]:
    """The one command of a section that begins with these words, without the program."""
    (found,) = (words for words in commands(heading) if words[: len(beginning)] == list(beginning))
    return found[1:]


def everything(plane: ControlPlane) -> set[str]:
    """The names of all objects of the cluster."""
    kinds = plane.kubectl("api-resources", "--verbs=list", "--output=name").split()
    kinds = [kind for kind in kinds if not kind.startswith(("componentstatuses", "events"))]
    text = plane.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=name")
    return {name for name in text.split() if not LEFT_BY_THE_CLUSTER.match(name)}


class Installed:
    """Rootport, installed by Helm on the real node."""

    def __init__(self, running: RunningRootport, helm: Helm, folder: Path) -> None:
        self.running, self.cluster = running, running.cluster
        self.plane = self.cluster.control_plane
        self.helm = replace(helm, kubeconfig=self.plane.kubeconfig)
        self.values = folder / "values.yaml"
        self.before: set[str] = set()
        self.notes = ""

    def clear(self) -> None:
        """Delete what other tests have installed by kubectl, and remember what is left."""
        self.plane.kubectl(
            "delete", "--filename=-", "--ignore-not-found", "--timeout=90s", input=kustomized(self.plane)
        )
        wait_until("no slices are left", lambda: not self.running.slices(), timeout_s=60)
        self.before = everything(self.plane)

    def install(self) -> None:
        """As the README says, with an image that is loaded into the node and the node's described hardware."""
        root = self.running.host.root
        options = [f"--host-root=/host{root}", f"--device-root={root}"]
        hardware = {"name": "described-hardware"}
        plugin = {
            "extraArgs": options,
            "extraEnv": [{"name": "ROOTPORT_STUB_NVML", "value": f"/host{root}/nvml.txt"}],
            "extraVolumes": [hardware | {"hostPath": {"path": str(root), "type": "Directory"}}],
            "extraVolumeMounts": [hardware | {"mountPath": f"/host{root}"}],
        }
        self.values.write_text(yaml.safe_dump({"kubeletPlugin": plugin}))
        words = command("Install", "helm", "install")
        at = words.index("--set")
        self.notes = self.run([*words[:at], *words[at + 2 :], f"--values={self.values}"])

    def run(self, words: list[str]) -> str:
        """Run Helm in the clone."""
        return self.helm(*(str(REPO / word) if word == "resourceclasses/chart" else word for word in words))

    def rolled_out(self) -> None:
        """Wait as the notes say, and for the controller."""
        line = next(line for line in self.notes.splitlines() if "rollout status" in line)
        self.cluster.kubectl(*shlex.split(line)[1:], "--timeout=180s", timeout=190)
        self.cluster.kubectl(
            "rollout", "status", "deployment/rootport-controller", f"--namespace={NAMESPACE}", "--timeout=120s"
        )

    def arguments(self) -> list[str]:
        """The options of the plugin that stays; one that an update has replaced takes a moment to end."""
        selector = "--selector=app.kubernetes.io/component=kubelet-plugin"
        pods = self.cluster.get("pods", f"--namespace={NAMESPACE}", selector)["items"]
        (running,) = (item for item in pods if "deletionTimestamp" not in item["metadata"])
        found: list[str] = running["spec"]["containers"][0]["args"]
        return found


@pytest.fixture(scope="module")
def installed(running: RunningRootport, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """Rootport, rolled out by Helm, in place of the processes of the other tests."""
    running.stop()
    running.cluster.import_image(build_rootport(REPO, cache_folder()))
    made = Installed(running, helm, tmp_path_factory.mktemp("helm-values"))
    made.clear()
    try:
        made.install()
        made.rolled_out()
        yield made
    finally:
        for workload in ("controller", "kubelet-plugin"):
            selector = f"--selector=app.kubernetes.io/component={workload}"
            log = made.cluster.kubectl("logs", selector, f"--namespace={NAMESPACE}", "--tail=-1", check=False)
            (made.cluster.folder / f"{workload}.of-helm.log").write_text(log)
        made.helm.run("uninstall", "rootport", f"--namespace={NAMESPACE}", "--wait", "--ignore-not-found")
        running.start()


def test_the_pod_of_the_notes_gets_a_gpu(installed: Installed) -> None:
    cluster = installed.cluster
    # Left-aligned, or a shell would not find its end.
    text = installed.notes.partition("<<EOF\n")[2].partition("\nEOF\n")[0]
    cluster.kubectl("apply", "--filename=-", input=text)
    try:
        cluster.wait_for_pod("first-gpu", "Succeeded")
        assert cluster.kubectl("logs", "first-gpu").startswith("ROOTPORT_")
    finally:
        cluster.kubectl("delete", "--filename=-", input=text)
    installed.running.wait_until_clean()


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(installed: Installed, example: str) -> None:
    path = REPO / "examples" / f"{example}.yaml"
    installed.running.apply(path)
    try:
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] == "Pod":
                metadata = document["metadata"]
                namespace = metadata.get("namespace", "default")
                installed.cluster.wait_for_pod(metadata["name"], "Succeeded", namespace=namespace, timeout_s=120)
    finally:
        installed.running.delete(path)
    installed.running.wait_until_clean()


def test_an_upgrade_rolls_out_what_has_changed_while_pods_start(installed: Installed) -> None:
    cluster = installed.cluster
    assert "--log-level=debug" not in installed.arguments()
    names = [f"during-{number}" for number in range(3)]
    pods = (pod(name, template="gpu", command="ls /dev/nvidia[0-9]*") for name in names)
    installed.run([*command("Upgrade", "helm", "upgrade"), "--set=kubeletPlugin.logLevel=debug"])
    cluster.kubectl("apply", "--filename=-", input=manifest(template("gpu"), *pods))
    for name in names:
        cluster.wait_for_pod(name, "Succeeded", timeout_s=120)
    installed.rolled_out()
    assert "--log-level=debug" in installed.arguments()
    # What was set at the installation holds.
    assert f"--device-root={installed.running.host.root}" in installed.arguments()
    warnings = cluster.get("events", "--field-selector=type=Warning,reason=FailedPrepareDynamicResources")["items"]
    assert [item["message"] for item in warnings if item["involvedObject"]["name"] in names] == []
    installed.running.delete_all()
    installed.running.wait_until_clean()


def test_a_rollback_rolls_back(installed: Installed) -> None:
    installed.helm("rollback", "rootport", f"--namespace={NAMESPACE}")
    installed.cluster.kubectl("rollout", "status", PLUGIN, f"--namespace={NAMESPACE}", "--timeout=180s", timeout=190)
    wait_until("one plugin is left", lambda: "--log-level=debug" not in installed.arguments(), timeout_s=60)


def test_uninstalled_nothing_is_left_but_what_the_readme_says(installed: Installed) -> None:
    uninstall, *deletions = commands("Uninstall")
    installed.run(uninstall[1:])
    left = everything(installed.plane) - installed.before
    assert {name for name in left if name.startswith("customresourcedefinition")} == {
        "customresourcedefinition.apiextensions.k8s.io/devices.rootport.dev",
        "customresourcedefinition.apiextensions.k8s.io/nodeinventories.rootport.dev",
    }
    for words in deletions:
        assert words[0] == "kubectl"
        installed.plane.kubectl(*words[1:], "--timeout=90s")
    # The kubelet deletes the node's slices half a minute after the plugin has ended.
    wait_until("no slices are left", lambda: not installed.running.slices(), timeout_s=60)
    assert sorted(everything(installed.plane) - installed.before) == []
