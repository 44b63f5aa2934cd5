"""``make cluster``, ``cluster-down`` and ``cluster-build``: a real cluster with Rootport on it, for a person to try."""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.cluster.binaries import ToolMissingError, build, build_helm, cache_folder
from tests.support.cluster.driver import MANIFESTS
from tests.support.cluster.hardware import make_host
from tests.support.cluster.images import build_busybox, build_pause, build_rootport
from tests.support.cluster.interfaces import add_interfaces
from tests.support.cluster.machine import missing_for_machines
from tests.support.cluster.node import NODE_NAME, RealCluster, remove_control_groups
from tests.support.cluster.rootport import CONTROLLER_HEALTH_PORT, HTTPS_PORT, PLUGIN_HEALTH_PORT, RunningRootport
from tests.support.stub_nvml import build as build_stub

_FOLDER: Final = Path(tempfile.gettempdir()) / "rootport-cluster"
_HINTS: Final = _FOLDER / "hints"


def main() -> int:
    """Start or end the cluster; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.cluster", description=__doc__)
    parser.add_argument("action", choices=("up", "down", "build"))
    act = {"up": _up, "down": _down, "build": _build}[parser.parse_args().action]
    try:
        return act()
    except (ToolMissingError, RuntimeError, TimeoutError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _build() -> int:
    """Build what the tests need, in sight of whoever waits; what cannot be built here is for the tests to say."""
    try:
        build(_print)
        build_helm(_print)
        if missing_for_machines() is None:
            for image in (build_pause, build_busybox):
                image(cache_folder())
            _print("building the image (the first time: 3 minutes)")
            build_rootport(MANIFESTS.parent, cache_folder())
    except ToolMissingError as error:
        _print(f"not everything can be built here: {error}")
    return 0


def _print(text: str) -> None:
    print(text, flush=True)


def _up() -> int:
    if (reason := missing_for_machines()) is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 1
    if _machine_pid() is not None:
        # Killed on its way up, it has left no hints.
        hints = _HINTS.read_text() if _HINTS.exists() else ""
        print(f"it runs already; `make cluster-down` ends it\n{hints}")
        return 0
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(mode=0o755)
    binaries = build(_print)
    images = [build_pause(cache_folder()), build_busybox(cache_folder())]
    stub = build_stub(_FOLDER)
    _print("starting a cluster with one real node")
    cluster = RealCluster(_FOLDER / "cluster", binaries, images, outlive=True)
    try:
        cluster.start()
        _print("starting Rootport on it")
        host = make_host(_FOLDER / "host", stub, more_cards=True)
        add_interfaces(cluster.machine, [name for nic in host.vf_nics for name in nic.interfaces])
        RunningRootport(cluster, host, lends_interfaces=True).start()
    except BaseException:
        cluster.stop()
        raise
    _HINTS.write_text(_hints(binaries.folder, cluster.machine.address, host.nvml_state))
    print(_HINTS.read_text())
    return 0


def _hints(programs: Path, address: str, gpu_state: Path) -> str:
    """What a person can do with the cluster, as commands."""
    return f"""
The node {NODE_NAME} has 8 GPUs, 11 RDMA NICs (two with VFs) and an FPGA that exist for Rootport alone, and real
everything else. The programs' logs are in {_FOLDER}/cluster/logs; `make cluster-down` ends it all. Try:

  export KUBECONFIG={_kubeconfig()}
  export PATH={Path(sys.executable).parent}:{programs}:$PATH
  kubectl get nodeinventories,devices,resourceslices
  kubectl apply -f examples/gpu.yaml
  kubectl wait --for=jsonpath='{{.status.phase}}'=Succeeded pod/gpu && kubectl logs gpu
  rootport status && rootport status {NODE_NAME}

The dashboard, whose certificate nobody has signed, is at https://{address}:{HTTPS_PORT}/, and asks for a token:

  kubectl create serviceaccount me
  kubectl create clusterrolebinding me-devices --clusterrole=rootport-viewer --serviceaccount=default:me
  kubectl create clusterrolebinding me-claims --clusterrole=rootport-explain --serviceaccount=default:me
  kubectl create token me

Metrics: http://{address}:{CONTROLLER_HEALTH_PORT}/metrics of the controller, port {PLUGIN_HEALTH_PORT} of the plugin.
`rootport top` asks plugins by way of their pods; here the plugin has none, so read its page instead.
Let a GPU fail, and say that it is well again:

  echo "gpu2 xid 94" >> {gpu_state}/events
  kubectl annotate nodeinventory {NODE_NAME} --overwrite rootport.dev/recovered=gpu-0000-33-00-0@$(date -u +%FT%TZ)
"""


def _down() -> int:
    pid = _machine_pid()
    if pid is None:
        print("no cluster is running")
    else:
        os.kill(pid, signal.SIGKILL)  # the first process of its namespaces: everything in them ends with it
        _wait_for_the_end(pid)
        print("the cluster has ended")
    remove_control_groups()
    shutil.rmtree(_FOLDER, ignore_errors=True)
    return 0


def _wait_for_the_end(pid: int) -> None:
    """Wait until the first process of the namespaces has ended, which is after all others in them; 30 s at most."""
    with suppress(ProcessLookupError), os.fdopen(os.pidfd_open(pid)) as process:
        select.select([process], [], [], 30)


def _kubeconfig() -> Path:
    return _FOLDER / "cluster" / "control-plane" / "admin.kubeconfig"


def _machine_pid() -> int | None:
    """The first process of the cluster's machine, as long as it runs."""
    try:
        pid = int((_FOLDER / "cluster" / "machine" / "machine.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return pid if b"machine_init" in command else None


sys.exit(main())
