"""A small trace for tests, in both layouts in which traces come."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["NODES", "PODS", "PUBLISHED", "small_trace"]

_DEMANDS: Final = ",".join(map(str, range(131)))
NODES: Final = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"node-{number:02d},64000,262144,{(2, 4, 8)[number % 3]},{('T4', 'G2', 'G3')[number % 3]}\n" for number in range(12)
)
PODS: Final = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n" + "".join(
    f"pod-{number:03d},{2000 + 500 * (number % 7)},4096,{(0, 1, 1, 1, 2)[number % 5]},"
    f"{(0, 1000, 460, 250, 1000)[number % 5]},{('', '', 'T4|G2')[number % 3]},LS\n"
    for number in range(60)
)
PUBLISHED: Final = f"workload,sc_policy,tune,seed,total_gpus,{_DEMANDS}\n" + "".join(
    f"small_pod_list_default,{policy},1.3,{seed},56,{','.join(f'{min(demand, most):.2f}' for demand in range(131))}\n"
    for policy, most in (("01-Random", 80), ("06-FGD", 92))
    for seed in (42, 43)
)


def small_trace(folder: Path, *, theirs: bool = False, packed: bool = False, workloads: Sequence[str] = ()) -> Path:
    """Write a trace of 12 nodes and 60 pods, and return its folder.

    Args:
        folder: Is made.
        theirs: Whether in the layout of the authors' repository.
        packed: Whether the files are compressed.
        workloads: Names; by default there is ``default`` alone.
    """
    names = workloads or ("default",)
    files = (
        {
            "data/csv/openb_node_list_gpu_node.csv": NODES,
            "data/csv/openb_node_list_all_node.csv": f"{NODES}cpu-node,64000,262144,0,nan\n",
            "experiments/analysis/expected_results/analysis_allo_discrete.csv": PUBLISHED,
            **{f"data/csv/openb_pod_list_{name}.csv": PODS for name in names},
        }
        if theirs
        else {
            "nodes.csv": NODES,
            "published-allocation.csv": PUBLISHED,
            **{f"pods/{name}.csv": PODS for name in names},
        }
    )
    for name, text in files.items():
        path = folder / (f"{name}.gz" if packed else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return folder
