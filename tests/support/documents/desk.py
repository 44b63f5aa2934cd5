"""A desk at which the commands of a page are typed: a folder with a reader's files, and the programs on its PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.documents.console import Command
from tests.support.documents.rules import substituted
from tests.support.paths import REPO
from tests.support.topologies import nccl_file
from tests.support.traces import small_trace

__all__ = ["Desk", "Typed"]

_POD: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - name: main
    image: registry.k8s.io/pause:3.10
    resources: {limits: {nvidia.com/gpu: "1"}}
"""
_QUARTER: Final = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: quarter, namespace: ml}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu-ratio.rootport.dev
          capacity: {requests: {memoryRatio: "25"}}
"""
_TYPO: Final = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: train
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.rootport.dev
        count: 2
        selectors:
        - cel:
            expression: device.attributes["rootport.dev"].gpuModel == "H100"
"""
_MAP: Final = """\
apiVersion: rootport.dev/v1alpha1
kind: ResourceMap
resources:
- {name: openshift.io/mlnxnics, deviceClassName: rdma-vf.rootport.dev}
"""
_LIMIT_S: Final = 300


class Typed(subprocess.CompletedProcess[str]):
    """What came of a command; ``stdout`` has what it wrote to both streams, in order."""


class Desk:
    """A copy of what a clone has for its users, with the files that the pages' commands name.

    Args:
        folder: New.
        programs: Further programs on the PATH, by name.
        environment: Further variables.
    """

    def __init__(
        self, folder: Path, programs: dict[str, str] | None = None, environment: dict[str, str] | None = None
    ) -> None:
        self.folder = folder / "clone"
        for name in ("examples", "resourceclasses"):
            shutil.copytree(REPO / name, self.folder / name)
        self._write_files()
        commands = folder / "bin"
        rootport = f'exec {sys.executable} -m driver.cli.entry "$@"'
        for name, script in {"rootport": rootport, "kubectl-rootport": rootport, **(programs or {})}.items():
            self._program(commands / name, script)
        self._program(self.folder / ".venv/bin/rootport", rootport)
        self._environment = os.environ | {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPO),
            "COLUMNS": "80",
            **(environment or {}),
        }

    def _program(self, path: Path, script: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def _write_files(self) -> None:
        pair = (self.folder / "examples" / "gpu-nic-pair.yaml").read_text()
        texts = {
            "pod.yaml": _POD,
            "deploy/pod.yaml": _POD,
            "all.yaml": _POD,
            "kustomization.yaml": "resources: [pod.yaml]\n",
            "claims.yaml": _QUARTER,
            "train.yaml": _TYPO,
            "map.yaml": _MAP,
            "nics.yaml": _MAP,
            "values.yaml": "{}\n",
            **dict.fromkeys(
                ("claim.yaml", "my-claims.yaml", "my-claims/pair.yaml", "job.yaml", "jobs/pair.yaml"), pair
            ),
        }
        for name, text in texts.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        for name, machine in {
            "topo": "azure-nd-h100-v5",
            "h100": "azure-nd-h100-v5",
            "p4d": "aws-p4d.24xlarge",
        }.items():
            shutil.copy(nccl_file(machine), self.folder / f"{name}.xml")
        small_trace(self.folder / "trace")

    def type(self, command: Command) -> Typed:
        """Run a command of a page."""
        if command.text.startswith("cat "):
            # What a page shows so is a file of the reader's.
            (self.folder / command.text.split()[1]).write_text(f"{command.output}\n")
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", substituted(command.text)],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        return Typed(done.args, done.returncode, done.stdout)
