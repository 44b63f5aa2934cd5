"""`make bench`: measures what the issue gives limits for, each against its limit, in one run.

Every figure is of this machine at this moment; the share of the limit is what to compare. Commands run as a user
runs them, in processes of their own, so that start-up and imports count.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from driver.adapters.host import HostRoot
from driver.adapters.machines.topology import read_topology
from driver.adapters.sysfs.discovery import discover
from driver.layout.slices import resource_slices
from tests.bench.figure import Figure
from tests.support.foreign_workloads import foreign_workloads, manifest_of
from tests.support.paths import REPO
from tests.support.sysfs_tree import dgx

ROOTPORT = str(Path(sys.executable).with_name("rootport"))
NODES = 1000
CLAIMS = 1000
WORKLOADS = 1000


def main() -> int:
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {platform.system()}")
    print(f"{'what':<76} {'measured':>9}     {'limit':>7} {'ratio':>7}")
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for measure in (start_up, topology_to_slices, sysfs_to_slices, assessment, whole_gpus, mixed_claims):
            for figure in measure(Path(folder)):
                print(figure.row(), flush=True)
                figures.append(figure)
    return 1 if any(figure.value >= figure.limit for figure in figures) else 0


def start_up(_: Path) -> list[Figure]:
    seconds = [run([ROOTPORT, "--help"])[0] for _ in range(9)]
    return [Figure("rootport --help, median of 9", statistics.median(seconds) * 1000, 400, "ms")]


def topology_to_slices(folder: Path) -> list[Figure]:
    file = folder / "machine.xml"
    file.write_text(nccl_machine(gpus=8, nics=8, vfs=64))
    milliseconds = median_ms(lambda node: resource_slices(read_topology(file, node=node)))
    return [Figure("NCCL topology file -> slices, 8 GPUs + 72 NICs, median of 21", milliseconds, 50, "ms")]


def sysfs_to_slices(folder: Path) -> list[Figure]:
    root = folder / "host"
    dgx(root, switches=8, vfs=8)
    milliseconds = median_ms(lambda node: resource_slices(discover(HostRoot(root), node=node)))
    return [Figure("sysfs -> slices, 8 GPUs + 8 NICs + 64 VFs, median of 21", milliseconds, 50, "ms")]


def assessment(folder: Path) -> list[Figure]:
    workloads = folder / "workloads"
    workloads.mkdir()
    for number, item in enumerate(foreign_workloads(WORKLOADS)):
        (workloads / f"workload-{number}.yaml").write_text(manifest_of(item))
    seconds, peak = run([ROOTPORT, "convert", "--check", str(workloads)], code=1)  # some of them do not convert
    what = f"convert --check, a folder of {WORKLOADS} workloads in mixed dialects"
    return [Figure(what, seconds, 5, "s"), Figure(f"{what}: peak RSS", peak / 1024**2, 400, "MB")]


def whole_gpus(folder: Path) -> list[Figure]:
    return simulate(folder, "1 GPU each", lambda _: claim_of(1, pair=False))


def mixed_claims(folder: Path) -> list[Figure]:
    # The sizes differ, so that nodes fill unevenly; together they fit.
    return simulate(folder, "1, 2, 4 or 8 GPUs, or a pair", lambda i: claim_of((1, 2, 4, 8, 1)[i % 5], pair=i % 5 == 4))


def simulate(folder: Path, name: str, claim: Callable[[int], str]) -> list[Figure]:
    claims = folder / "claims.yaml"
    claims.write_text("---\n".join(claim(i).replace("NAME", f"claim-{i}") for i in range(CLAIMS)))
    seconds, peak = run([
        ROOTPORT, "simulate", "--topology", str(REPO / "examples/machines/azure-nd-h100-v5.yaml"),
        "--nodes", str(NODES), "--claims", str(claims), "--out", str(folder / "out"),
    ])  # fmt: skip
    what = f"simulate {NODES} nodes, {CLAIMS} claims of {name}"
    return [Figure(what, seconds, 20, "s"), Figure(f"{what}: peak RSS", peak / 1024**2, 600, "MB")]


def claim_of(count: int, *, pair: bool) -> str:
    nic = "    - name: nic\n      exactly: {deviceClassName: rdma.rootport.dev}\n    constraints:\n"
    nic += "    - matchAttribute: rootport.dev/pcieSwitch\n"
    return (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: NAME}\nspec:\n  devices:\n"
        "    requests:\n    - name: gpu\n"
        f"      exactly: {{deviceClassName: gpu.rootport.dev, allocationMode: ExactCount, count: {count}}}\n"
    ) + (nic if pair else "")


def nccl_machine(*, gpus: int, nics: int, vfs: int) -> str:
    """A machine as NCCL writes it: one switch a GPU with a NIC, the VFs spread over the NICs' switches."""
    switches = []
    for i in range(gpus):
        rows = [f'<pci busid="{i:04x}:01:00.0" class="0x030200" vendor="0x10de" device="0x2330"/>']
        rows += [
            f'<pci busid="{i:04x}:02:{f // 8:02x}.{f % 8}" class="0x020700"><nic><net name="mlx5_{i}_{f}" dev="{f}" '
            f'speed="400000" port="1" guid="0x{i * 100 + f + 1:x}" gdr="1"/></nic></pci>'
            for f in range((nics + vfs) // gpus)
        ]
        switches.append(f'<pci busid="{i:04x}:00:00.0" class="0x060400">{"".join(rows)}</pci>')
    half = len(switches) // 2
    cpus = [f'<cpu numaid="{n}">{"".join(part)}</cpu>' for n, part in enumerate((switches[:half], switches[half:]))]
    return f'<system version="1">{"".join(cpus)}</system>'


def median_ms(call: Callable[[str], object]) -> float:
    call("warm-up")
    times = []
    for i in range(21):
        start = time.perf_counter()
        call(f"node-{i}")
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def run(command: list[str], code: int = 0) -> tuple[float, int]:
    """Run a command that ends with that code; its wall time in seconds and its peak RSS in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != code:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return seconds, usage.ru_maxrss * 1024


if __name__ == "__main__":
    raise SystemExit(main())
