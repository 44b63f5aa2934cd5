"""What a pod takes of its node, as kube-scheduler adds it up."""

from __future__ import annotations

from typing import Any

import pytest

from driver.explain.known.needs import HostPort
from driver.explain.known.needs_reading import NEEDS_SPEC, kept_needs, read_needs

Json = dict[str, Any]


def _container(cpu: str = "", memory: str = "", **more: Any) -> Json:
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    return {"name": "c", "resources": {"requests": requests}, **more}


def _pod(spec: Json, **more: Any) -> Json:
    return {"metadata": {"namespace": "ml", "name": "p"}, "spec": spec, **more}


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({"containers": [_container("1", "1Gi"), _container("500m")]}, {"cpu": 1500, "memory": 1 << 30}),
        ({"containers": [_container("1.0001")]}, {"cpu": 1001}),  # rounded up
        ({"containers": [_container("1")], "initContainers": [_container("3")]}, {"cpu": 3000}),
        ({"containers": [_container("2")], "initContainers": [_container("1"), _container("1")]}, {"cpu": 2000}),
        ({"containers": [_container("1")], "initContainers": [_container("1", restartPolicy="Always")]}, {"cpu": 2000}),
        (
            {
                "containers": [_container("1")],
                "initContainers": [_container("1", restartPolicy="Always"), _container("5")],
            },
            {"cpu": 6000},
        ),
        (
            {
                "containers": [_container("1")],
                "initContainers": [_container("5"), _container("1", restartPolicy="Always")],
            },
            {"cpu": 5000},
        ),
        (
            {"containers": [_container("1")], "overhead": {"cpu": "250m", "memory": "64Mi"}},
            {"cpu": 1250, "memory": 64 << 20},
        ),
        (
            {"containers": [_container("1", "1Gi")], "resources": {"requests": {"cpu": "4"}}},
            {"cpu": 4000, "memory": 1 << 30},
        ),
        (
            {"containers": [{"resources": {"limits": {"cpu": "2", "example.com/fpga": "1"}}}]},
            {"cpu": 2000, "example.com/fpga": 1},
        ),
        ({"containers": [_container("0")]}, {}),
        ({}, {}),
    ],
    ids=[
        "sum",
        "rounded up",
        "init",
        "init is less",
        "sidecar",
        "init beside sidecar",
        "init before sidecar",
        "overhead",
        "of the pod",
        "limits",
        "zero",
        "nothing",
    ],
)
def test_what_a_pod_requests(spec: Json, requests: dict[str, int]) -> None:
    assert read_needs(_pod(spec)).requests == requests


def test_a_container_that_is_resized_counts_with_the_most_of_what_it_asks_for_and_has() -> None:
    spec = {"containers": [_container("1")]}
    status = {
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
        ]
    }
    assert read_needs(_pod(spec, status=status)).requests == {"cpu": 3000}


def test_ports_of_the_node_are_read_and_conflict_by_address_and_protocol() -> None:
    ports = [
        {"containerPort": 1, "hostPort": 80},
        {"containerPort": 2},
        {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
    ]
    needs = read_needs(_pod({"containers": [_container(ports=ports)]}))
    assert needs.ports == (HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "UDP", 53))
    every, one = needs.ports
    assert every.conflicts(HostPort("10.0.0.1", "TCP", 80))
    assert not every.conflicts(HostPort("10.0.0.1", "UDP", 80))
    assert not one.conflicts(HostPort("10.0.0.2", "UDP", 53))


def test_what_is_kept_of_a_pod_is_all_that_is_read() -> None:
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone", "matchLabelKeys": ["hash"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = {
        "containers": [_container("1", image="i", env=[{"name": "x"}], ports=[{"hostPort": 1, "containerPort": 1}])],
        "initContainers": [_container("2", restartPolicy="Always")],
        "affinity": {"podAffinity": {required: [term]}, "podAntiAffinity": {required: [term]}},
        "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "overhead": {"cpu": "1"},
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": "c"}}],
        "dnsPolicy": "Default",
    }
    labels = {"labels": {"hash": "1"}}
    wire = {"metadata": {"namespace": "ml", "name": "p", **labels}, "spec": spec}
    kept = {key: spec[key] for key in NEEDS_SPEC if key in spec} | kept_needs(spec)
    assert "image" not in str(kept)
    assert read_needs({**wire, "spec": kept}) == read_needs(wire)
    needs = read_needs(wire)
    assert needs.unchecked == ("its persistent volumes",)
    assert needs.near[0].matches("ml", {"a": "b", "hash": "1"})
    assert not needs.near[0].matches("ml", {"a": "b", "hash": "2"})


def test_no_half_of_a_pod_is_taken_for_all_of_it() -> None:
    needs = read_needs(_pod({"containers": [_container("1")] * 257}))
    assert needs.not_evaluated == ("more than 256 containers",)
    assert not needs.requests


@pytest.mark.parametrize(
    ("expression", "labels", "matches"),
    [
        ({"key": "a", "operator": "In", "values": ["x", "y"]}, {"a": "y"}, True),
        ({"key": "a", "operator": "In", "values": ["x"]}, {}, False),
        ({"key": "a", "operator": "NotIn", "values": ["x"]}, {}, True),
        ({"key": "a", "operator": "NotIn", "values": ["x"]}, {"a": "x"}, False),
        ({"key": "a", "operator": "Exists"}, {"a": ""}, True),
        ({"key": "a", "operator": "DoesNotExist"}, {"a": ""}, False),
    ],
)
def test_what_selectors_select(expression: Json, labels: dict[str, str], matches: bool) -> None:
    term = {"labelSelector": {"matchExpressions": [expression]}, "topologyKey": "zone"}
    spec = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    (found,) = read_needs(_pod(spec)).near
    assert found.matches("ml", labels) == matches
    assert not found.matches("other", labels)
