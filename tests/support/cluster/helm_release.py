"""Rootport on the real node, installed by Helm as the chart's README says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.cluster.cni_program import build_cni_program
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE, kustomized
from tests.support.cluster.installation import CONTROLLER, logs
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.cluster.strategies import hami_core_file
from tests.support.helm import CHART, RELEASE, Helm
from tests.support.paths import REPO

__all__ = ["HelmRelease", "command", "commands"]

_README: Final = (CHART / "README.md").read_text()
_OF_THE_CLUSTER: Final = re.compile(r"(events?(\.events\.k8s\.io)?|leases\.coordination\.k8s\.io)/")
"""What comes and goes with the cluster itself."""


def commands(heading: str) -> list[list[str]]:
    """The commands of a section of the README, as a shell reads them."""
    section = _README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    text = "\n".join(re.findall(r"```console\n(.*?)```", section, re.DOTALL)).replace("\\\n", " ")
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in text.splitlines() if line.startswith("$ ")]


def command(heading: str, *beginning: str) -> list[str]:
    """The one command of a section that begins with these words, without the program."""
    (found,) = (words for words in commands(heading) if words[: len(beginning)] == list(beginning))
    return found[1:]


class HelmRelease:
    """Rootport, installed by Helm on the real node, with the component that moves interfaces.

    Args:
        running: The node. Its own processes must be stopped, and the node must have the image.
        helm: Helm itself.
        folder: For files.

    Attributes:
        notes: What Helm told at the installation.
    """

    def __init__(self, running: RunningRootport, helm: Helm, folder: Path) -> None:
        self.running, self.cluster = running, running.cluster
        self.plane: ControlPlane = self.cluster.control_plane
        self.notes = ""
        self._helm = replace(helm, kubeconfig=self.plane.kubeconfig)
        self._folder = folder
        self._before: set[str] = set()

    def helm(self, words: list[str]) -> str:
        """Run Helm in the clone."""
        return self._helm(*(str(REPO / word) if word == "./resourceclasses" else word for word in words))

    def install(self) -> None:
        """As the README says, with an image that is loaded into the node and the node's described hardware."""
        # What other tests have installed by kubectl.
        stored = kustomized(self.plane)
        self.plane.kubectl("delete", "--filename=-", "--ignore-not-found", "--timeout=90s", input=stored)
        wait_until("no slices are left", lambda: not self.running.slices(), timeout_s=60)
        self._before = self._everything()
        words = command("Install", "helm", "install")
        at = words.index("--set")
        self.notes = self.helm([*words[:at], *words[at + 2 :], self._values("values", self._described_node())])

    def upgrade(self, values: Mapping[str, Any], *options: str) -> None:
        """As the README says, with further values, and wait for both workloads."""
        self.helm([*command("Upgrade", "helm", "upgrade"), self._values("more-values", values), *options])
        self.rolled_out()

    def roll_back(self) -> None:
        """To the state before the last upgrade; and wait for both workloads."""
        self.helm(["rollback", RELEASE, f"--namespace={NAMESPACE}"])
        self.rolled_out()

    def rolled_out(self) -> None:
        """Wait as the notes say, and for the controller; then until only the new plugin is there."""
        line = next(line for line in self.notes.splitlines() if "rollout status" in line)
        self.cluster.kubectl(*shlex.split(line)[1:], "--timeout=180s", timeout=190)
        self.cluster.kubectl("rollout", "status", CONTROLLER, f"--namespace={NAMESPACE}", "--timeout=120s", timeout=130)
        wait_until("one plugin is left", lambda: len(self._plugins()) == 1, timeout_s=60)
        wait_until("the plugin is registered", lambda: self.running.condition("Registered") == "True", timeout_s=60)

    def uninstall(self) -> None:
        """Whatever there is of it, after the pods' logs are kept."""
        for name in ("controller", "kubelet-plugin"):
            (self.cluster.folder / f"{name}.of-helm.log").write_text(logs(self.running, name))
        self._helm.run("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--wait", "--ignore-not-found")

    def arguments(self) -> list[str]:
        """The options of the plugin."""
        (running,) = self._plugins()
        found: list[str] = running["spec"]["containers"][0]["args"]
        return found

    def left(self) -> set[str]:
        """The names of all objects of the cluster that were not there before the installation."""
        return self._everything() - self._before

    def _plugins(self) -> list[dict[str, Any]]:
        selector = "--selector=app.kubernetes.io/component=kubelet-plugin"
        pods: list[dict[str, Any]] = self.cluster.get("pods", f"--namespace={NAMESPACE}", selector)["items"]
        return [item for item in pods if "deletionTimestamp" not in item["metadata"]]

    def _everything(self) -> set[str]:
        kinds = self.plane.kubectl("api-resources", "--verbs=list", "--output=name").split()
        kinds = [kind for kind in kinds if not kind.startswith(("componentstatuses", "events"))]
        text = self.plane.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=name")
        return {name for name in text.split() if not _OF_THE_CLUSTER.match(name)}

    def _described_node(self) -> dict[str, Any]:
        """The values that the test node needs: its hardware is described in a folder, and so are its networks."""
        root, cluster = self.running.host.root, self.cluster
        state = root / "run/rootport/cni"
        program = build_cni_program(root / "rootport-cni-of-helm", state=state)
        hardware = {"name": "described-hardware"}
        return {
            "components": {"cni": True},
            "cni": {"confDir": str(cluster.cni_conf_folder), "binDir": str(cluster.cni_bin_folder)},
            "kubeletPlugin": {
                "extraArgs": [
                    f"--host-root=/host{root}",
                    f"--device-root={root}",
                    f"--cni-program=/host{program}",
                    f"--hami-core={hami_core_file(self.running.host)}",
                    "--discovery-interval=2",  # changes are seen sooner than on a real node
                ],
                "extraEnv": [{"name": "ROOTPORT_STUB_NVML", "value": f"/host{root}/nvml.txt"}],
                "extraVolumes": [hardware | {"hostPath": {"path": str(root), "type": "Directory"}}],
                "extraVolumeMounts": [hardware | {"mountPath": f"/host{root}"}],
            },
        }

    def _values(self, name: str, values: Mapping[str, Any]) -> str:
        file = self._folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(dict(values)))
        return f"--values={file}"
