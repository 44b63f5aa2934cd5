"""A control plane with Rootport's classes, a simulated node of the catalogue, and Kueue."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from driver.adapters.machines.instance_types import read_instance_type
from tests.support.cluster.binaries import Binaries, ToolMissingError, build_kueue, module_source
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install, start_controller
from tests.support.cluster.kueue import running_kueue
from tests.support.cluster.processes import wait_until
from tests.support.command_line import rootport
from tests.support.needed_tools import unavailable
from tests.support.paths import REPO
from tests.support.simulated_nodes import Nodes

__all__ = ["kueue", "node_of_type", "plane", "rootport"]

INSTANCE_TYPE: Final = "p5.48xlarge"
NODE: Final = "gpu-1"


@pytest.fixture(scope="module")
def plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A whole control plane; Rootport's controller publishes what a node of the instance type has."""
    with ControlPlane(tmp_path_factory.mktemp("queues"), cluster_binaries) as plane:
        # The node has no kubelet, and would be taken for lost after 40 s.
        plane.start_controller_manager("--controllers=*,-node-lifecycle-controller")
        plane.start_scheduler()
        install(plane)
        start_controller(plane, plane.processes)
        nodes = Nodes(plane.kubeconfig)
        nodes.add(read_instance_type(INSTANCE_TYPE, node=NODE))
        capacity = {"cpu": "96", "memory": "1152Gi", "pods": "110"}
        status = {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
        patch = json.dumps({"status": status})
        plane.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", f"--patch={patch}")
        plane.kubectl("taint", "node", NODE, "node.kubernetes.io/not-ready-")  # as the switched off controller would
        with nodes.beating(NODE):
            wait_until("the node's slices", lambda: bool(nodes.slices(NODE)), timeout_s=60)
            yield plane


@pytest.fixture
def node_of_type() -> tuple[str, str]:
    """The node's name, and its instance type."""
    return NODE, INSTANCE_TYPE


@pytest.fixture(scope="module")
def kueue(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane with JobSet's CRD, and Kueue as examples/kueue configures it."""
    try:
        program = build_kueue(lambda text: print(text, file=sys.__stderr__, flush=True))
        crd = module_source("kueue", "sigs.k8s.io/jobset") / "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
    except (ToolMissingError, subprocess.CalledProcessError) as error:
        unavailable(f"Kueue cannot be had: {error}")
    plane.kubectl("apply", "--server-side", f"--filename={crd}")
    configuration = yaml.safe_load((REPO / "examples" / "kueue" / "configuration.yaml").read_text())
    with running_kueue(plane, program, configuration, tmp_path_factory.mktemp("kueue")):
        plane.kubectl("apply", f"--filename={REPO / 'examples' / 'kueue' / 'queues.yaml'}")
        yield plane
