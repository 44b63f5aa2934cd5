"""Allocation problems about the best linked GPUs of a DGX-1 and a DGX-2, for both allocators.

python -m tests.support.link_problems > problems.jsonl
python -m tests.oracle.allocator.compare --answer problems.jsonl > tests/data/conformance/link-groups.jsonl
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from driver.adapters.machines.topology import read_topology
from driver.model.inventory import Inventory
from tests.support.machines import published
from tests.support.topologies import machine_file

__all__ = ["LEVELS", "gpu_names", "link_problems"]

Json = dict[str, Any]

LEVELS: Final = {2: "nvlinkPair", 4: "nvlinkQuad", 8: "nvlinkOctet"}
"""The attribute by which so many GPUs are asked for."""
_KEPT: Final = ("type", "index", "nvlinkDomain", *LEVELS.values())
_CLASS: Final = "gpu.rootport.dev"
_NODE: Final = "n"


def gpu_names(machine: str) -> dict[str, int]:
    """The number of each GPU of a machine, by the device's name."""
    return {gpu.name: gpu.index for gpu in _inventory(machine).gpus}


def link_problems() -> Iterator[Json]:
    """Claims that use up a free machine, by first fit and by constraints; and ladders after random GPUs are taken."""
    for machine, sizes in (("dgx-1-v100", (2, 4, 8)), ("dgx-2", (2, 4, 8, 16))):
        gpus = len(gpu_names(machine))
        for size in sizes:
            claims = [_claim(f"c{number}", size) for number in range(gpus // size)]
            yield _problem(f"{machine}-{size}-first-fit", machine, claims)
            if machine == "dgx-1-v100":
                matching = [_claim(f"c{number}", size, LEVELS[size]) for number in range(gpus // size)]
                yield _problem(f"{machine}-{size}-constraint", machine, matching)
    for seed in range(12):
        draw = random.Random(seed)
        size = draw.choice((2, 2, 4))
        names = sorted(gpu_names("dgx-1-v100"))
        used = draw.sample(names, draw.randint(1, len(names) - size))
        yield _problem(f"dgx-1-v100-{size}-after-{seed}", "dgx-1-v100", [_ladder("c", size)], used)


def _inventory(machine: str) -> Inventory:
    return read_topology(machine_file(machine))


def _problem(name: str, machine: str, claims: Sequence[Json], used: Sequence[str] = ()) -> Json:
    devices = [
        {
            "name": device.name,
            "attributes": {key: device.attributes[key].to_wire() for key in _KEPT if key in device.attributes},
        }
        for device in published(_inventory(machine), "gpu")
    ]
    pool = {"name": _NODE, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "rootport.dev", "nodeName": _NODE, "pool": pool, "devices": devices}
    return {
        "id": name,
        "stage": "shares",
        "tags": ["link-groups"],
        "node": {"metadata": {"name": _NODE}},
        "classes": [{"metadata": {"name": _CLASS}, "spec": {}}],
        "slices": [{"metadata": {"name": "s"}, "spec": spec}],
        "allocatedClaims": [_allocated(f"used-{number}", device) for number, device in enumerate(used)],
        "claims": list(claims),
    }


def _claim(name: str, size: int, attribute: str | None = None) -> Json:
    devices: Json = {"requests": [{"name": "gpus", "exactly": _asked(size)}]}
    if attribute is not None:
        devices["constraints"] = [{"matchAttribute": f"rootport.dev/{attribute}"}]
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": devices}}


def _ladder(name: str, size: int) -> Json:
    """As examples/best-linked-gpus.yaml, from the group of that size to the domain."""
    steps = [attribute for group, attribute in LEVELS.items() if 8 > group >= size] + ["nvlinkDomain"]
    made = _claim(name, size)
    made["spec"]["devices"] = {
        "requests": [{"name": "gpus", "firstAvailable": [{"name": step.lower(), **_asked(size)} for step in steps]}],
        "constraints": [
            {"requests": [f"gpus/{step.lower()}"], "matchAttribute": f"rootport.dev/{step}"} for step in steps
        ],
    }
    return made


def _asked(size: int) -> Json:
    return {"deviceClassName": _CLASS, "allocationMode": "ExactCount", "count": size}


def _allocated(name: str, device: str) -> Json:
    result = {"request": "gpus", "driver": "rootport.dev", "pool": _NODE, "device": device}
    return _claim(name, 1) | {"status": {"allocation": {"devices": {"results": [result]}}}}


if __name__ == "__main__":
    sys.stdout.writelines(json.dumps(problem, separators=(",", ":")) + "\n" for problem in link_problems())
