"""The files that a user names: whatever stands in them, it is read, or there is one error of bounded length."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml

from driver.adapters.files.allocation_problems import answer_file
from driver.adapters.files.document import Problem
from driver.adapters.files.policies_file import read_policies
from driver.adapters.files.resource_map_file import read_resource_map
from driver.adapters.files.trace_folder import read_trace
from driver.adapters.files.yaml_documents import read_documents
from driver.adapters.kubernetes.kubeconfig import cluster_context
from driver.adapters.machines.topology import read_topology
from driver.adapters.manifests.claims import read_all_manifests, read_manifests
from driver.adapters.manifests.dumps import read_dumps, read_observed_dump
from driver.adapters.manifests.kustomizations import patch_files
from driver.adapters.manifests.streams import stream_parts
from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.errors import RootportError
from tests.fuzz.fuzzing import Target, check_message
from tests.fuzz.mutation import json_mutated, mutated, spoilt
from tests.fuzz.samples import (
    CSV_TOKENS,
    DUMP,
    MACHINES,
    MANIFESTS,
    PROBLEMS,
    TOPOLOGIES,
    XML_TOKENS,
    YAML_TOKENS,
    objects,
    spoilt_yaml,
)
from tests.support.observed_cluster import small_cluster
from tests.support.traces import NODES, PODS, PUBLISHED, small_trace

pytestmark = pytest.mark.fuzz

_GPU_POLICIES: Final = {
    "apiVersion": "rootport.dev/v1alpha1",
    "kind": "GpuPolicies",
    "policies": [{"nodes": {"names": ["a"]}, "modes": ["gpu", "gpu-ratio"], "coreStep": 5, "memoryStep": "1Gi"}],
}
_NIC_POLICIES: Final = {
    "apiVersion": "rootport.dev/v1alpha1",
    "kind": "NicPolicies",
    "policies": [{"nodes": {"names": ["a"]}, "vfs": "named"}],
}
_DEVICE_POLICIES: Final = {
    "apiVersion": "rootport.dev/v1alpha1",
    "kind": "DevicePolicies",
    "policies": [{"ifNames": ["eth0"], "attributes": {"a.b/c": "d", "a.b/e": {"version": "1.2.3"}}, "offer": False}],
}
_RESOURCE_MAP: Final = {
    "apiVersion": "rootport.dev/v1alpha1",
    "kind": "ResourceMap",
    "resources": [
        {
            "name": "openshift.io/mlnx*",
            "deviceClassName": "rdma-vf.rootport.dev",
            "count": 2,
            "selectors": ['device.attributes["rootport.dev"].rail == 1'],
            "networks": ["ml/roce"],
        },
        {"name": "rdma/hca", "bandwidth": "10G"},
    ],
    "shareStrategy": "hamiCore",
    "leftAlone": ["intel.com/dpdk"],
}
_KUSTOMIZATION: Final = {
    "resources": ["../base"],
    "patches": [{"path": "a.yaml", "target": {"kind": "ResourceClaim"}}, {"patch": "- op: add"}],
    "patchesStrategicMerge": ["b.yaml", "kind: ResourceClaim\n"],
}
_KUBECONFIG: Final = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority-data": "YQ=="}}],
    "users": [{"name": "u", "user": {"token": "t", "client-certificate-data": "YQ==", "client-key-data": "YQ=="}}],
}


def _read_by(read: Callable[[Path], object], path: Path) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read(path)
        except RootportError as error:
            check_message(error)

    return check


def _spoilt_object(*samples: Any) -> Callable[[Random], bytes]:
    def make(random: Random) -> bytes:
        sample = random.choice(samples)
        if random.randrange(2):
            return mutated(random, yaml.safe_dump(sample).encode(), YAML_TOKENS)
        return json.dumps(json_mutated(random, sample)).encode()

    return make


def test_a_file_of_manifests_is_read_or_is_one_error(tmp_path: Path) -> None:
    Target(
        name="manifests",
        make=spoilt_yaml(MANIFESTS),
        check=_read_by(lambda path: read_manifests([path]), tmp_path / "claims.yaml"),
        mebibytes=250,  # nodes of PyYAML, which know their lines
    ).run()


def test_a_file_of_manifests_is_read_as_far_as_it_can_be(tmp_path: Path) -> None:
    path = tmp_path / "claims.yaml"

    def check(data: bytes) -> None:
        path.write_bytes(data)
        for problem in read_all_manifests([path]).problems:
            assert str(problem).isprintable()
            assert len(str(problem)) < 2000

    Target(name="manifests-as-far", make=spoilt_yaml(MANIFESTS), check=check, mebibytes=250).run()


def test_the_parts_of_a_stream_say_what_the_stream_says() -> None:
    def check(data: bytes) -> None:
        text = data.decode("utf-8-sig", errors="ignore")
        problems: list[Problem] = []
        documents = list(read_documents(text, "all.yaml", problems.append))
        if problems:
            return
        parts = stream_parts(text, documents)
        again = [item.data for part in parts for item in read_documents(part.text, "part")]
        assert repr(again) == repr([item.data for item in documents])

    Target(name="stream-parts", make=spoilt_yaml(MANIFESTS), check=check, mebibytes=250).run()


def test_a_kustomization_names_patches_or_none(tmp_path: Path) -> None:
    def check(data: bytes) -> None:
        (tmp_path / "kustomization.yaml").write_bytes(data)
        assert all(Path(path).is_absolute() for path in patch_files([tmp_path]))

    Target(name="kustomizations", make=_spoilt_object(_KUSTOMIZATION), check=check, mebibytes=250).run()


@pytest.mark.parametrize("kind", [GpuPolicies, NicPolicies, DevicePolicies])
def test_a_file_of_policies_is_read_or_is_one_error(tmp_path: Path, kind: type[Any]) -> None:
    Target(
        name="policies",
        make=_spoilt_object(_GPU_POLICIES, _NIC_POLICIES, _DEVICE_POLICIES),
        check=_read_by(lambda path: read_policies(path, kind), tmp_path / "policies.yaml"),
    ).run()


def test_a_resource_map_is_read_or_is_one_error(tmp_path: Path) -> None:
    Target(
        name="resource-map",
        make=_spoilt_object(_RESOURCE_MAP),
        check=_read_by(read_resource_map, tmp_path / "map.yaml"),
    ).run()


def test_a_dump_in_yaml_is_read_or_is_one_error(tmp_path: Path) -> None:
    Target(name="dumps-yaml", make=spoilt_yaml(DUMP), check=_read_by(read_dumps, tmp_path / "dump.yaml")).run()


def test_a_dump_in_json_is_read_or_is_one_error(tmp_path: Path) -> None:
    items = [item for path in DUMP for item in objects(path)]

    def make(random: Random) -> bytes:
        return spoilt(random, {"apiVersion": "v1", "kind": "List", "items": random.sample(items, 3)})

    Target(name="dumps-json", make=make, check=_read_by(read_dumps, tmp_path / "dump.json")).run()


def test_a_dump_of_devices_is_read_or_is_one_error(tmp_path: Path) -> None:
    devices, inventories = small_cluster()
    typed = [item | {"apiVersion": "rootport.dev/v1alpha1", "kind": "NodeInventory"} for item in inventories]
    items = json.loads(json.dumps([*(item.to_wire() for item in devices), *typed]))

    def make(random: Random) -> bytes:
        return spoilt(random, {"apiVersion": "v1", "kind": "List", "items": random.sample(items, 2)})

    Target(name="devices-json", make=make, check=_read_by(read_observed_dump, tmp_path / "dump.json")).run()


def test_a_file_of_problems_is_answered_or_is_one_error(tmp_path: Path) -> None:
    problems = [json.loads(line) for path in PROBLEMS for line in path.read_text().splitlines()[:40]]
    Target(
        name="problems",
        make=lambda random: b"\n".join(spoilt(random, random.choice(problems)) for _ in range(3)),
        check=_read_by(lambda path: list(answer_file(path)), tmp_path / "problems.jsonl"),
    ).run()


def test_a_topology_file_is_read_or_is_one_error(tmp_path: Path) -> None:
    Target(
        name="nccl",
        make=lambda random: mutated(random, random.choice(TOPOLOGIES).read_bytes(), XML_TOKENS),
        check=_read_by(read_topology, tmp_path / "topology.xml"),
    ).run()


def test_a_machine_description_is_read_or_is_one_error(tmp_path: Path) -> None:
    check = _read_by(read_topology, tmp_path / "machine.yaml")
    Target(name="machines", make=spoilt_yaml(MACHINES), check=check).run()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nodes.csv", NODES),
        ("pods/default.csv", PODS),
        ("published-allocation.csv", PUBLISHED),
        ("nodes.csv.gz", NODES),
    ],
)
def test_a_trace_is_read_or_is_one_error(tmp_path: Path, name: str, text: str) -> None:
    folder = small_trace(tmp_path)
    packed = name.endswith(".gz")
    if packed:
        (folder / "nodes.csv").unlink()

    def make(random: Random) -> bytes:
        good = text.encode()
        if packed and random.randrange(2):
            return gzip.compress(mutated(random, good, CSV_TOKENS))
        return mutated(random, gzip.compress(good) if packed else good, CSV_TOKENS)

    def check(data: bytes) -> None:
        (folder / name).write_bytes(data)
        try:
            trace = read_trace(folder)
        except RootportError as error:
            check_message(error)
            return
        assert trace.gpus > 0
        for pods in trace.workloads.values():
            assert all(0 <= pod.gpu_milli <= 128_000 and pod.shape.cpu_milli >= 0 for pod in pods)

    Target(name="traces", make=make, check=check, mebibytes=250).run()


def test_a_kubeconfig_is_read_or_is_one_error(tmp_path: Path) -> None:
    Target(
        name="kubeconfig",
        make=_spoilt_object(_KUBECONFIG),
        check=_read_by(lambda path: cluster_context(kubeconfig=path).api.close(), tmp_path / "config"),
        examples=100,  # the Kubernetes client's loader is slow
    ).run()
