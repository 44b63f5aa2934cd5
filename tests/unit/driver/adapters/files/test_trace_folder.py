"""Folders with traces: what is read, in which layouts, and one clear error for whatever is not right."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from driver.adapters.files import csv_table, trace_folder
from driver.adapters.files.trace_folder import read_trace
from driver.errors import InputError
from driver.placement.shapes import NodeShape, PodShape
from tests.support.traces import NODES, PODS, small_trace

POD_COLUMNS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def trace_of(folder: Path, nodes: str = NODES, pods: str = PODS, published: str | None = None) -> Path:
    (folder / "pods").mkdir()
    (folder / "nodes.csv").write_text(nodes)
    (folder / "pods" / "default.csv").write_text(pods)
    if published is not None:
        (folder / "published-allocation.csv").write_text(published)
    return folder


def error_of(folder: Path, *workloads: str) -> str:
    with pytest.raises(InputError) as caught:
        read_trace(folder, workloads)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("theirs", [False, True], ids=["folder", "repository"])
def test_both_layouts_have_the_same_trace(tmp_path: Path, theirs: bool, packed: bool) -> None:
    trace = read_trace(small_trace(tmp_path, theirs=theirs, packed=packed))
    assert (len(trace.nodes), trace.gpus) == (12, 56)
    assert trace.nodes[1].name == "node-01"
    assert trace.nodes[1].shape == NodeShape(64_000, 262_144 << 20, 1001, "G2", (1000,) * 4)
    [pods] = trace.workloads.values()
    assert [pod.name for pod in pods[:2]] == ["pod-000", "pod-001"]
    assert pods[0].shape == PodShape(2000, 4096 << 20, 0, 0)
    assert pods[2].shape == PodShape(3000, 4096 << 20, 1, 460, frozenset({"T4", "G2"}))
    assert [(each.workload, each.policy, each.seed) for each in trace.published] == [
        ("default", "Random", 42),
        ("default", "Random", 43),
        ("default", "FGD", 42),
        ("default", "FGD", 43),
    ]
    assert trace.published[2].allocation[90:94] == (90.0, 91.0, 92.0, 92.0)


def test_the_folder_that_has_the_tables_of_the_repository_will_do(tmp_path: Path) -> None:
    folder = small_trace(tmp_path, theirs=True) / "data" / "csv"
    assert len(read_trace(folder).nodes) == 12


def test_a_single_workload_may_stand_beside_the_nodes(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    assert {name: len(pods) for name, pods in read_trace(tmp_path).workloads.items()} == {"pods": 60}


def test_of_several_workloads_those_named_are_read_and_default_comes_first(tmp_path: Path) -> None:
    folder = small_trace(tmp_path, workloads=("cpu", "default", "b"))
    assert list(read_trace(folder).workloads) == ["default", "b", "cpu"]
    (folder / "pods" / "cpu.csv").write_text("nonsense")
    assert list(read_trace(folder, ["b", "default"]).workloads) == ["default", "b"]


def test_columns_may_have_other_names_units_and_places(tmp_path: Path) -> None:
    nodes = "GPUs , Name, cores, memory_gib,pods,more\n4, a, 16, 64, 20,\n0,b,8,,,x\n"
    pods = "gpus,cpu,gpu_type\n1,0.5,\n2,1.25,A100|H100\n0.25,1,\n\n,2,A100\n"
    trace = read_trace(trace_of(tmp_path, nodes, pods))
    assert [node.shape for node in trace.nodes] == [
        NodeShape(16_000, 64 << 30, 20, "", (1000,) * 4),
        NodeShape(8000, 10**18, 1001, "", ()),
    ]
    assert [pod.shape for pod in trace.workloads["default"]] == [
        PodShape(500, 0, 1, 1000),
        PodShape(1250, 0, 2, 1000, frozenset({"A100", "H100"})),
        PodShape(1000, 0, 1, 250),
        PodShape(2000, 0, 0, 0),
    ]
    assert [pod.name for pod in trace.workloads["default"]] == [f"pod-{number:06d}" for number in range(4)]
    assert trace.published == ()


def test_a_byte_order_mark_numbers_of_pandas_and_words_for_nothing_are_read(tmp_path: Path) -> None:
    pods = f"\ufeff{POD_COLUMNS}a,2000.0,NaN,1.0,1e3,nan\r\nb,None,10,0,,\r\n"
    trace = read_trace(trace_of(tmp_path, pods=pods))
    assert [pod.shape for pod in trace.workloads["default"]] == [
        PodShape(2000, 0, 1, 1000),
        PodShape(0, 10 << 20, 0, 0),
    ]


def test_the_sum_of_whole_gpus_is_whole_gpus(tmp_path: Path) -> None:
    trace = read_trace(trace_of(tmp_path, pods="job_id,num_gpu,gpu_milli\n7,2,2000\n"))
    [pod] = trace.workloads["default"]
    assert (pod.name, pod.gpu_milli, pod.shape.gpu_milli) == ("7", 2000, 1000)


def test_published_runs_of_another_demand_and_of_other_workloads_are_left_out(tmp_path: Path) -> None:
    published = "workload,policy,tune,seed,100\ndefault,a,1.3,1,90\ndefault,b,0.9,1,80\nother,c,1.3,1,70\n"
    [found] = read_trace(trace_of(tmp_path, published=published)).published
    assert (found.policy, found.allocation[100], found.allocation[99]) == ("a", 90.0, None)


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        pytest.param("", "pods/default.csv:1: no column num_gpu; there are: none", id="empty"),
        pytest.param("name,cpu_milli\na,1\n", ":1: no column num_gpu; there are: name and cpu_milli", id="no column"),
        pytest.param("num_gpu,num_gpu\n1,1\n", ":1: the column num_gpu is there twice", id="twice"),
        pytest.param("num_gpu,a\n1,1\n1\n", ":3: 1 columns, where the first line names 2", id="too few cells"),
        pytest.param("num_gpu\nmany\n", ":2: num_gpu: 'many' is not a number from 0 to 1e15", id="word"),
        pytest.param("num_gpu\n-1\n", ":2: num_gpu: '-1' is not a number", id="negative"),
        pytest.param("num_gpu\n1e99\n", ":2: num_gpu: '1e99' is not a number", id="huge"),
        pytest.param("num_gpu\n1.5\n", ":2: num_gpu: 1.5 is not a number of GPUs", id="one and a half"),
        pytest.param("num_gpu\n4000\n", ":2: num_gpu: 4000 is not a number of GPUs: 0 to 128", id="too many"),
        pytest.param("num_gpu,gpu_milli\n1,0\n", ":2: gpu_milli: 0 is no part of 1 GPUs", id="nothing"),
        pytest.param("num_gpu,gpu_milli\n1,2.5\n", ":2: gpu_milli: 2.5 is not a whole number", id="part of a part"),
        pytest.param("num_gpu\n0\n", "default.csv: has no pod that asks for a GPU", id="no GPU"),
        pytest.param('num_gpu\n"1\n', ":2: is not CSV: unexpected end of data", id="open quote"),
        pytest.param("num_gpu\n" + "1" * 200_000, ":2: is not CSV: field larger", id="long cell"),
        pytest.param("a," * 2000, ":1: more than 1000 columns", id="columns"),
    ],
)
def test_an_error_names_file_line_and_column(tmp_path: Path, pods: str, says: str) -> None:
    assert says in error_of(trace_of(tmp_path, pods=pods))


def test_a_node_has_no_more_gpus_than_there_can_be(tmp_path: Path) -> None:
    assert "nodes.csv:2: gpu: 129 GPUs; at most 128" in error_of(trace_of(tmp_path, nodes="gpu\n129\n"))


def test_nodes_without_gpus_are_no_cluster_for_this(tmp_path: Path) -> None:
    assert "nodes.csv: has no node with a GPU" in error_of(trace_of(tmp_path, nodes="gpu\n0\n"))


def test_what_is_not_text_is_said(tmp_path: Path) -> None:
    folder = trace_of(tmp_path)
    (folder / "pods" / "default.csv").write_bytes(b"num_gpu\n\xff\n")
    assert "pods/default.csv: not UTF-8 text" in error_of(folder)


@pytest.mark.parametrize(
    "content",
    [b"num_gpu\n1\n", gzip.compress(b"num_gpu\n1\n")[:-9], gzip.compress(b"num_gpu\n1\n")[:12] + b"\xff" * 9],
    ids=["plain", "cut", "spoilt"],
)
def test_what_is_not_compressed_is_said(tmp_path: Path, content: bytes) -> None:
    folder = trace_of(tmp_path)
    (folder / "pods" / "default.csv").unlink()
    (folder / "pods" / "default.csv.gz").write_bytes(content)
    assert "pods/default.csv.gz: is not compressed by gzip, or not whole" in error_of(folder)


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    folder = trace_of(tmp_path)
    (folder / "nodes.csv").unlink()
    (folder / "nodes.csv.gz").write_bytes(gzip.compress(b"\n" * (65 << 20), 1))
    assert "nodes.csv.gz: larger than 64 MiB unpacked" in error_of(folder)


def test_more_rows_than_are_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_folder, "_MOST_NODES", 3)
    assert "nodes.csv:5: more than 3 rows" in error_of(trace_of(tmp_path))


def test_a_large_plain_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "_MOST_BYTES", 100)
    assert "nodes.csv: larger than" in error_of(trace_of(tmp_path))


def test_a_folder_without_a_trace_says_what_is_missing(tmp_path: Path) -> None:
    assert error_of(tmp_path).startswith(f"{tmp_path}: has no file of nodes (name a folder with a trace: nodes.csv and")
    (tmp_path / "nodes.csv").write_text(NODES)
    assert error_of(tmp_path).startswith(f"{tmp_path}: has no file of pods")
    for wrong in (tmp_path / "no" / "such", tmp_path / "nodes.csv", tmp_path / ("x" * 300)):
        assert error_of(wrong).startswith(f"{wrong}: not a folder")


def test_a_workload_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    folder = small_trace(tmp_path, workloads=("default", "multigpu50"))
    assert error_of(folder, "multigpu40").endswith("has no workload multigpu40 (did you mean multigpu50?)")
    assert error_of(folder, "x").endswith("has no workload x (there are default and multigpu50)")


def test_a_folder_of_too_many_files_is_not_walked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_folder, "_MOST_FILES", 1)
    assert "has more than 1 files" in error_of(trace_of(tmp_path))
