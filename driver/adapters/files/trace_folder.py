"""Reads a folder with a trace: nodes, workloads of pods, and published results.

Two layouts are known. One has ``nodes.csv``, ``pods/WORKLOAD.csv`` (or ``pods.csv``, for a single workload) and, if
there are any, the published results in ``published-allocation.csv``. The other is that of
github.com/hkust-adsl/kubernetes-scheduler-simulator (``data/csv``) and github.com/alibaba/clusterdata
(``cluster-trace-gpu-v2023/csv``): ``openb_node_list_gpu_node.csv`` and ``openb_pod_list_WORKLOAD.csv``, and the
published results in ``analysis_allo_discrete.csv``. Each file may be compressed, with a name that ends in ``.gz``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from driver.adapters.files.csv_table import Row, csv_rows
from driver.adapters.files.input_file import path_name, unreadable
from driver.errors import InputError
from driver.placement.replay.run import DEMANDS
from driver.placement.replay.sequence import DEMAND
from driver.placement.replay.trace import Published, Trace, TraceNode, TracePod
from driver.placement.shapes import WHOLE_GPU, NodeShape, PodShape
from driver.spelling import close_matches
from driver.wording import listed

__all__ = ["read_trace"]

_MOST_NODES: Final = 20_000
_MOST_PODS: Final = 250_000
_MOST_PUBLISHED: Final = 50_000
_MOST_FILES: Final = 10_000
_MOST_GPUS: Final = 128
_PODS_A_NODE: Final = 1001
"""As the simulator's nodes have it (data/node_yaml), where a trace has no column ``pods``."""
_NO_LIMIT: Final = 10**18

_NAME: Final = ("sn", "name", "node", "node_name", "hostname", "machine")
_CPU: Final = ("cpu_milli", "cpu_m")
_CORES: Final = ("cpu", "cpus", "cores", "num_cpu")
_MIB: Final = ("memory_mib", "mem_mib", "memory_mb")
_GIB: Final = ("memory_gib", "mem_gib", "memory_gb")
_NODE_GPUS: Final = ("gpu", "gpus", "num_gpu", "gpu_count")
_MODEL: Final = ("model", "gpu_model", "gpu_type", "gpu_spec")
_POD_NAME: Final = ("name", "pod", "pod_name", "job", "job_id", "id")
_POD_GPUS: Final = ("num_gpu", "gpus", "gpu", "gpu_count")
_MODELS: Final = ("gpu_spec", "models", "gpu_models", "model", "gpu_model", "gpu_type")

_TABLE: Final = re.compile(r"(.+?)\.csv(?:\.gz)?", re.DOTALL)
_POD_LIST: Final = re.compile(r".*pod_list_(.+)", re.DOTALL)
_NODE_LISTS: Final = (re.compile(r"nodes"), re.compile(r".*node_list_gpu_node"), re.compile(r".*node_list.*"))
_PUBLISHED: Final = re.compile(r"published-allocation|analysis_allo_discrete")
_NUMBERED: Final = re.compile(r"[0-9]+-")
_PLACES: Final = ("", "csv", "data/csv")
_RESULTS: Final = ("", "csv", "data/csv", "experiments/analysis/expected_results")
_WHAT: Final = (
    "a folder with a trace: nodes.csv and pods/WORKLOAD.csv, or openb_node_list_*.csv and openb_pod_list_*.csv"
)


def read_trace(folder: Path, workloads: Collection[str] = ()) -> Trace:
    """Return the trace in a folder.

    Args:
        folder: With files as said above.
        workloads: Those to read; all if empty.

    Raises:
        InputError: There is no trace, a file of it cannot be read or is not right, or a workload is not there.
    """
    try:
        is_folder = folder.is_dir()
    except OSError:  # a name that no folder can have
        is_folder = False
    if not is_folder:
        raise InputError(f"{path_name(folder)}: not a folder", hint=f"name {_WHAT}")
    tables = [_tables(folder / place) for place in _PLACES]
    nodes_file = next(
        (
            found[name]
            for found in tables
            for pattern in _NODE_LISTS
            for name in sorted(found)
            if pattern.fullmatch(name)
        ),
        None,
    )
    pod_files = next((pods for place in _PLACES if (pods := _pod_files(folder / place))), {})
    if nodes_file is None or not pod_files:
        lacks = "nodes" if nodes_file is None else "pods"
        raise InputError(f"{path_name(folder)}: has no file of {lacks}", hint=f"name {_WHAT}")
    for name in workloads:
        if name not in pod_files:
            near = close_matches(name, list(pod_files))
            have = f"did you mean {near[0]}?" if near else f"there are {listed(sorted(pod_files), shown=30)}"
            raise InputError(f"{path_name(folder)}: has no workload {name}", hint=have)
    nodes = _nodes(nodes_file)
    chosen = sorted(workloads or pod_files, key=lambda name: (name != "default", name))
    published = next(
        (
            found[name]
            for place in _RESULTS
            for found in (_tables(folder / place),)
            for name in found
            if _PUBLISHED.fullmatch(name)
        ),
        None,
    )
    return Trace(
        nodes,
        {name: _pods(pod_files[name]) for name in chosen},
        () if published is None else tuple(_published(published, frozenset(chosen))),
    )


def _tables(folder: Path) -> dict[str, Path]:
    """Return the CSV files of a folder, by their names without endings; none if it is not there."""
    found: dict[str, Path] = {}
    try:
        for number, path in enumerate(folder.iterdir()):
            if number >= _MOST_FILES:
                raise InputError(f"{path_name(folder)}: has more than {_MOST_FILES:,} files", hint=f"name {_WHAT}")
            if match := _TABLE.fullmatch(path.name):
                # What is not compressed comes first.
                found[match[1]] = min(path, found.get(match[1], path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise unreadable(folder, error, _WHAT) from error
    return found


def _pod_files(folder: Path) -> dict[str, Path]:
    inside = _tables(folder / "pods")
    if inside:
        return inside
    beside = _tables(folder)
    lists = {match[1]: path for name, path in beside.items() if (match := _POD_LIST.fullmatch(name))}
    return lists or ({"pods": beside["pods"]} if "pods" in beside else {})


def _nodes(path: Path) -> tuple[TraceNode, ...]:
    nodes: list[TraceNode] = []
    for row in csv_rows(path, "a file of nodes", needs=[_NODE_GPUS], most_rows=_MOST_NODES):
        gpus = _whole(row, _NODE_GPUS) or 0
        if gpus > _MOST_GPUS:
            raise row.error(_NODE_GPUS, f"{gpus} GPUs; at most {_MOST_GPUS} can be in a node")
        shape = NodeShape(
            _amount(row, (_CPU, 1), (_CORES, 1000), rounded=math.floor, otherwise=_NO_LIMIT),
            _amount(row, (_MIB, 1 << 20), (_GIB, 1 << 30), rounded=math.floor, otherwise=_NO_LIMIT),
            _PODS_A_NODE if (pods := _whole(row, ("pods",))) is None else pods,
            row.text(*_MODEL) or "",
            (WHOLE_GPU,) * gpus,
        )
        nodes.append(TraceNode(row.text(*_NAME) or f"node-{len(nodes):06d}", shape))
    if not any(node.shape.gpus for node in nodes):
        raise InputError(f"{path_name(path)}: has no node with a GPU")
    return tuple(nodes)


def _pods(path: Path) -> tuple[TracePod, ...]:
    pods: list[TracePod] = []
    shapes: dict[PodShape, PodShape] = {}
    for row in csv_rows(path, "a file of pods", needs=[_POD_GPUS], most_rows=_MOST_PODS):
        gpus, gpu_milli = _gpus(row)
        models = frozenset(model.strip() for model in (row.text(*_MODELS) or "").split("|") if model.strip())
        shape = PodShape(
            _amount(row, (_CPU, 1), (_CORES, 1000), rounded=math.ceil, otherwise=0),
            _amount(row, (_MIB, 1 << 20), (_GIB, 1 << 30), rounded=math.ceil, otherwise=0),
            gpus,
            gpu_milli,
            models if gpus else frozenset(),
        )
        pods.append(TracePod(row.text(*_POD_NAME) or f"pod-{len(pods):06d}", shapes.setdefault(shape, shape)))
    if not any(pod.shape.gpus for pod in pods):
        raise InputError(f"{path_name(path)}: has no pod that asks for a GPU")
    return tuple(pods)


def _gpus(row: Row) -> tuple[int, int]:
    """Return how many GPUs a pod asks for, and how much of each."""
    count = row.number(*_POD_GPUS) or 0.0
    milli = _whole(row, ("gpu_milli",))
    if not count:
        return 0, 0
    if count < 1 and milli is None:
        milli, count = math.ceil(count * WHOLE_GPU), 1.0
    if count != int(count) or count > _MOST_GPUS:
        raise row.error(_POD_GPUS, f"{count:g} is not a number of GPUs: 0 to {_MOST_GPUS}, or a part of one")
    if milli == 0:
        raise row.error(("gpu_milli",), f"0 is no part of {count:g} GPUs: 1 to {WHOLE_GPU} thousandths of each")
    # Some traces have the sum of several GPUs there; the simulator takes it for whole ones as well.
    return int(count), WHOLE_GPU if milli is None else min(milli, WHOLE_GPU)


def _amount(row: Row, *units: tuple[tuple[str, ...], int], rounded: Callable[[float], int], otherwise: int) -> int:
    """Return the amount in the first unit that the file has a column for."""
    for columns, unit in units:
        number = row.number(*columns)
        if number is not None:
            return min(rounded(number * unit), _NO_LIMIT)
    return otherwise


def _whole(row: Row, columns: tuple[str, ...]) -> int | None:
    number = row.number(*columns)
    if number is not None and number != int(number):
        raise row.error(columns, f"{number:g} is not a whole number")
    return None if number is None else int(number)


def _published(path: Path, workloads: Collection[str]) -> Iterator[Published]:
    needs = [("workload",), ("sc_policy", "policy"), ("seed",)]
    for row in csv_rows(path, "a file of published results", needs=needs, most_rows=_MOST_PUBLISHED):
        name = row.text("workload") or ""
        match = _POD_LIST.fullmatch(name)
        workload = match[1] if match else name
        ratio = row.number("tune")
        if workload not in workloads or (ratio is not None and abs(100 * ratio - DEMAND) > 1e-6):
            continue
        policy = row.text("sc_policy", "policy") or ""
        prefix = _NUMBERED.match(policy)
        yield Published(
            workload,
            policy[prefix.end() :] if prefix else policy,
            _whole(row, ("seed",)) or 0,
            tuple(row.number(str(demand)) for demand in DEMANDS),
        )
