"""Problems on which Rootport's allocator and Kubernetes' own one are timed beside each other; the same in every run.

Their format is that of tests/data/conformance/README.md. The features are those that Kubernetes 1.36 has on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

import yaml

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.layout.slices import resource_slices
from driver.pairs import Scope, claim_spec
from resourceclasses import device_classes_text
from tests.support.joint_cases import joint_cases
from tests.support.paths import REPO

__all__ = ["hard", "large", "typical"]

Json = dict[str, Any]

DOMAIN: Final = "rootport.dev"
NODES: Final = 5000

_MACHINE: Final = REPO / "examples" / "machines" / "azure-nd-h100-v5.yaml"
_CLASSES: Final = list(yaml.safe_load_all(device_classes_text()))


def typical() -> Iterator[Json]:
    """One to eight devices of one node with one constraint (one device: none): all free, or some in use."""
    plain = _plain_slices("node")
    inventory = read_topology(_MACHINE, node="node", hardware=HardwareFacts(gpu_model="H100"))
    rootport = [item.to_wire() for item in resource_slices(inventory)]
    in_use = {"node": ["gpu-0", "gpu-1", "gpu-4", "nic-0", "nic-5"]}
    for what, claim in _typical_claims().items():
        yield _problem(f"plain slices: {what}", plain, claim)
        yield _problem(f"plain slices, in part in use: {what}", plain, claim, used=in_use)
        yield _problem(f"Rootport's slices: {what}", rootport, claim)


def large() -> Iterator[Json]:
    """Finding one of 5,000 nodes with 8 GPUs each: the last one, or none."""
    nodes = [f"node-{number:04}" for number in range(NODES)]
    slices = [part for node in nodes for part in _plain_slices(node, nics=0)]
    full = [f"gpu-{number}" for number in range(8)]
    five = [f"gpu-{number}" for number in (0, 1, 2, 4, 5)]
    apart = [f"gpu-{number}" for number in (0, 1, 2, 4, 5, 6)]  # one is left in each half
    two = _claim(_requests(gpu=2), [_match("numaNode")])
    for what, claim, used in (
        ("1 GPU, all in use", _claim(_requests(gpu=1)), full),
        ("4 GPUs, 3 free", _claim(_requests(gpu=4), [_match("numaNode")]), five),
        ("2 GPUs of one NUMA node, 1 free in each", two, apart),
    ):
        for last in (True, False):
            busy = dict.fromkeys(nodes[:-1] if last else nodes, used)
            where = "the last node fits" if last else "nothing fits"
            yield _problem(f"{what}: {where}", slices, claim, nodes=nodes, used=busy)


def hard() -> Iterator[Json]:
    """Problems on which trying every combination takes seconds to ages."""
    groups = [_device("gpu", number, g=number % 4) for number in range(64)]
    slices = [_slice("node", "gpus", groups)]
    for count in (17, 20):
        yield _problem(
            f"{count} of 64 alike devices with one of 4 values",
            slices,
            _claim([_exactly("gpu", "gpu", count)], [_match("g")]),
        )
    two = _claim([_exactly("a", "gpu", 8), _exactly("b", "gpu", 9)], [_match("g")])
    yield _problem("two requests for 8 and 9 with one of 4 values", slices, two)
    gpus = [_device("gpu", number, g=number // 2) for number in range(16)]
    nics = [
        _device("nic", number, g=group) for number, group in enumerate((0, 0, 0, 1, *(n // 2 for n in range(4, 16))))
    ]
    uneven = [_slice("node", "all", gpus + nics)]
    for count, in_turn in product((15, 16), (True, False)):
        order = "in turn" if in_turn else "in blocks"
        yield _problem(f"{count} pairs on 8 uneven switches, {order}", uneven, _pairs(count, in_turn=in_turn))
    for count in (12, 14, 16):
        short = [_slice("node", "all", gpus + nics[: count - 1])]
        yield _problem(f"{count} pairs, {count - 1} NICs", short, _pairs(count, in_turn=True))
    yield from _joint()


def _joint() -> Iterator[Json]:
    """Claims of `rootport pairs` for a machine of which a NIC or a GPU is in use."""
    for case in joint_cases():
        if case.pairs.scope is not Scope.LADDER or case.pairs.groups < 4:
            continue
        inventory = replace(case.inventory, node="node")
        for first in (inventory.gpus[:1], inventory.nics[:1]):
            if not first:
                continue
            gone = first[0].name
            slices = [item.to_wire() for item in resource_slices(inventory)]
            spec = claim_spec(case.pairs).to_wire()
            pool = slices[0]["spec"]["pool"]["name"]
            yield _problem(f"{case.id}, without {gone}", slices, spec, used={pool: [gone]})


def _typical_claims() -> dict[str, Json]:
    newer = f'device.attributes["{DOMAIN}"].numaNode >= 0'
    near = [_match("numaNode")]
    return {
        "1 GPU": _claim(_requests(gpu=1)),
        "1 GPU with a selector": _claim([_exactly("gpu", "gpu", 1, newer)]),
        "2 GPUs of one NUMA node": _claim(_requests(gpu=2), near),
        "4 GPUs of one NUMA node": _claim(_requests(gpu=4), near),
        "a GPU-NIC pair": _claim(_requests(gpu=1, rdma=1), [_match("pcieSwitch")]),
        "2 GPUs and 2 NICs of one NUMA node": _claim(_requests(gpu=2, rdma=2), near),
        "4 GPUs and 4 NICs of one NUMA node": _claim(_requests(gpu=4, rdma=4), near),
        "8 GPUs of one model": _claim(_requests(gpu=8), [_match("model")]),
    }


def _requests(**counts: int) -> list[Json]:
    return [_exactly(kind, kind, count) for kind, count in counts.items()]


def _exactly(name: str, kind: str, count: int, *expressions: str) -> Json:
    exactly: Json = {"deviceClassName": f"{kind}.{DOMAIN}", "count": count}
    if expressions:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    return {"name": name, "exactly": exactly}


def _match(attribute: str, *requests: str) -> Json:
    return {"matchAttribute": f"{DOMAIN}/{attribute}", **({"requests": requests} if requests else {})}


def _claim(requests: Sequence[Json], constraints: Sequence[Json] = ()) -> Json:
    """A claim's specification."""
    return {"devices": {"requests": requests, "constraints": constraints}}


def _pairs(count: int, *, in_turn: bool) -> Json:
    gpus = [_exactly(f"gpu-{number}", "gpu", 1) for number in range(count)]
    nics = [_exactly(f"nic-{number}", "rdma", 1) for number in range(count)]
    requests = [part for pair in zip(gpus, nics, strict=True) for part in pair] if in_turn else gpus + nics
    return _claim(requests, [_match("g", f"gpu-{number}", f"nic-{number}") for number in range(count)])


def _plain_slices(node: str, *, nics: int = 8) -> list[Json]:
    """Eight GPUs and so many NICs, a pair under a switch, four switches to a NUMA node; no sharing, no counters."""
    kinds = {"gpu": 8, "nic": nics}
    devices = [
        _device(
            kind,
            number,
            index=number,
            model="H100" if kind == "gpu" else "ConnectX-7",
            uuid=f"{kind}-{node}-{number}",
            numaNode=number // 4,
            pcieSwitch=f"{number:04x}:00:00.0",
        )
        for kind, count in kinds.items()
        for number in range(count)
    ]
    return [_slice(node, "devices", devices)]


def _device(kind: str, number: int, **attributes: str | int) -> Json:
    """Attribute names without a domain belong to the driver's."""
    values = {name: {"int" if isinstance(value, int) else "string": value} for name, value in attributes.items()}
    kind_of = {"gpu": "gpu", "nic": "rdma"}[kind]
    return {"name": f"{kind}-{number}", "attributes": {"type": {"string": kind_of}, **values}}


def _slice(node: str, name: str, devices: Sequence[Json]) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DOMAIN, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-{name}"}, "spec": spec}


def _problem(
    what: str,
    slices: Sequence[Json],
    claim: Json,
    *,
    nodes: Sequence[str] = ("node",),
    used: Mapping[str, Sequence[str]] | None = None,
) -> Json:
    """``used``: devices in use, by pool."""
    return {
        "id": what,
        "features": {"ListTypeAttributes": False},
        "nodes": [{"metadata": {"name": name}} for name in nodes],
        "classes": _CLASSES,
        "slices": slices,
        "claims": [{"metadata": {"name": "claim", "namespace": "default"}, "spec": claim}],
        "allocatedClaims": [_holder(pool, names) for pool, names in (used or {}).items()],
    }


def _holder(pool: str, devices: Sequence[str]) -> Json:
    results = [{"request": "r", "driver": DOMAIN, "pool": pool, "device": name} for name in devices]
    return {"metadata": {"name": pool}, "status": {"allocation": {"devices": {"results": results}}}}
