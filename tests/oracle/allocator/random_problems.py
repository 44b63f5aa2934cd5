"""Random allocation problems, the same for the same seed.

    python -m tests.oracle.allocator.random_problems --seed 1 --count 5000 > problems.jsonl

Each problem has a *flavour* that makes one mechanism likely; its name is the problem's first tag. Devices have few
attributes with few values, so that constraints are neither trivial nor hopeless. By default all flavours are of the
stage ``core`` (whole devices).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from typing import Any, Final

from tests.oracle.allocator import later_stages
from tests.oracle.allocator.quirks import quirks
from tests.oracle.allocator.random_slices import DRIVERS, SliceMaker

__all__ = ["FLAVOURS", "random_problem"]

Json = dict[str, Any]

FLAVOURS: Final = (
    "plain",
    "constraints",
    "distinct",
    "several-claims",
    "all",
    "admin",
    "allocated",
    "node-selection",
    "pools",
    "cel-errors",
    "large",
    "odd-claims",
    "features",
    "pairs",
)

_GPU: Final = 'device.attributes["gpu.example.com"]'
_NIC: Final = 'device.attributes["nic.example.com"]'
_SELECTORS: Final = {
    "gpu.example.com": (
        f'{_GPU}.model == "h100"',
        f"{_GPU}.numa == 0",
        f"{_GPU}.index % 2 == 0",
        f"{_GPU}.index < 3",
        f"{_GPU}.?ecc.orValue(false)",
        f'{_GPU}.driverVersion.isGreaterThan(semver("1.5.0"))',
        'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("").endsWith("1")',
    ),
    "nic.example.com": (f"{_NIC}.speed >= 200", f"{_NIC}.index != 1", f"{_NIC}.numa == 1"),
    "fpga.acme.io": ('device.attributes["fpga.acme.io"].index <= 1', "true"),
}
_RISKY: Final = (f"{_GPU}.ecc", f"{_NIC}.sriov == true", "device.attributes[", "device.nothing == 1")
_ATTRIBUTES: Final = {
    "gpu.example.com": ("gpu.example.com/numa", "gpu.example.com/model", "gpu.example.com/g", "gpu.example.com/ecc"),
    "nic.example.com": ("nic.example.com/numa", "nic.example.com/speed", "nic.example.com/g"),
    "fpga.acme.io": ("fpga.acme.io/g", "fpga.acme.io/index"),
}
_SHARED_ATTRIBUTES: Final = ("resource.kubernetes.io/pcieRoot", "topology.example.com/rack")
_FEATURES: Final = (
    "AdminAccess",
    "ConsumableCapacity",
    "DeviceBindingAndStatus",
    "DeviceTaints",
    "FractionalCapacityRange",
    "ListTypeAttributes",
    "PartitionableDevices",
    "PrioritizedList",
)


def random_problem(seed: int, *, flavour: str | None = None, tiny: bool = False) -> Json:
    """One problem.

    Args:
        seed: Decides everything.
        flavour: One of FLAVOURS or LATER_FLAVOURS; by default the seed decides among FLAVOURS.
        tiny: Few enough devices and requests to try every combination.
    """
    rng = random.Random(seed)
    return _Maker(rng, seed, flavour if flavour is not None else rng.choice(FLAVOURS), tiny=tiny).problem()


class _Maker(SliceMaker):
    def __init__(self, rng: random.Random, seed: int, flavour: str, *, tiny: bool) -> None:
        super().__init__(rng, flavour, tiny=tiny)
        self.seed = seed

    def problem(self) -> Json:
        self.make_slices()
        claims = 1
        if self.flavour in {"several-claims", "admin"} or self.chance(0.25):
            claims = self.rng.choice((2, 2, 3)) if not self.tiny else 2
        made: Json = {
            "id": f"{self.flavour}-{self.seed}",
            "tags": [self.flavour],
            "stage": later_stages.stage_of(self.flavour),
            "nodes": [
                {"metadata": {"name": name, "labels": {"zone": self.rng.choice("ab"), "rank": str(number)}}}
                for number, name in enumerate(self.nodes)
            ],
            "classes": self.classes(),
            "slices": self.slices,
            "allocatedClaims": self.allocated(),
            "claims": [self.claim(number) for number in range(claims)],
        }
        if self.flavour == "ranges" and self.chance(0.5):
            made["features"] = {"FractionalCapacityRange": False}
        if self.flavour == "features":
            made["features"] = self.features()
        made["tags"] += quirks(made)
        return made

    def features(self) -> Json:
        if self.chance(0.3):
            return dict.fromkeys(_FEATURES, False) | {"AdminAccess": True}
        return {name: False for name in _FEATURES if self.chance(0.3)}

    def classes(self) -> list[Json]:
        classes: list[Json] = [{"metadata": {"name": "any"}, "spec": {}}]
        for driver in DRIVERS:
            name = driver.partition(".")[0]
            selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
            classes.append({"metadata": {"name": name}, "spec": {"selectors": [selector]}})
        if self.chance(0.3):
            classes[1]["spec"]["config"] = [
                {"opaque": {"driver": "gpu.example.com", "parameters": {"from": "class", "entry": number}}}
                for number in range(self.rng.choice((1, 2)))
            ]
        return classes

    def allocated(self) -> list[Json]:
        share = 0.4 if self.flavour in {"allocated", "ranges"} else 0.1
        claims: list[Json] = []
        for item in self.slices:
            for device in item["spec"].get("devices", ()):
                if self.chance(share):
                    spec = item["spec"]
                    result: Json = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"]}
                    result["device"] = device["name"]
                    if self.chance(0.15):
                        result["adminAccess"] = True
                    later_stages.dress_result(self.rng, device, result)
                    claims.append(
                        {
                            "metadata": {"name": f"old-{len(claims)}", "namespace": "default"},
                            "status": {"allocation": {"devices": {"results": [result]}}},
                        }
                    )
        return claims

    def claim(self, number: int) -> Json:
        rng = self.rng
        requests = [
            self.request(f"r{place}") for place in range(rng.choice((1, 2, 2, 3) if self.tiny else (1, 1, 2, 2, 3)))
        ]
        constraints: list[Json] = []
        if self.flavour == "pairs":
            requests, constraints = self.pairs()
        elif self.flavour in {"constraints", "distinct", "all"} or self.chance(0.3):
            constraints = [self.constraint(requests) for _ in range(rng.choice((1, 1, 2)))]
        devices: Json = {"requests": requests}
        if constraints:
            devices["constraints"] = constraints
        if self.chance(0.2):
            names = [request["name"] for request in requests]
            devices["config"] = [
                {"opaque": {"driver": "gpu.example.com", "parameters": {"from": "claim"}}},
                {
                    "requests": rng.sample(names, rng.randint(1, len(names))),
                    "opaque": {"driver": "x", "parameters": {}},
                },
            ]
        return {"metadata": {"name": f"claim-{number}", "namespace": "default"}, "spec": {"devices": devices}}

    def pairs(self) -> tuple[list[Json], list[Json]]:
        count = self.rng.randint(1, 2 if self.tiny else 4)
        gpus = [{"name": f"gpu-{place}", "exactly": {"deviceClassName": "gpu"}} for place in range(count)]
        nics = [{"name": f"nic-{place}", "exactly": {"deviceClassName": "nic"}} for place in range(count)]
        constraints: list[Json] = [
            {"requests": [f"gpu-{place}", f"nic-{place}"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}
            for place in range(count)
        ]
        requests = gpus + nics if self.chance(0.5) else [item for pair in zip(gpus, nics, strict=True) for item in pair]
        return requests, constraints

    def request(self, name: str) -> Json:
        rng = self.rng
        driver = rng.choice(self.drivers)
        exactly: Json = {"deviceClassName": driver.partition(".")[0] if self.chance(0.7) else "any"}
        if self.chance(0.3) and exactly["deviceClassName"] != "any":
            exactly["selectors"] = [{"cel": {"expression": rng.choice(_SELECTORS[driver])}}]
        if self.chance(0.5 if self.flavour in {"all", "ranges"} else 0.08):
            exactly["allocationMode"] = "All"
        else:
            self.count(exactly)
        if self.chance(0.4 if self.flavour == "admin" else 0.03):
            exactly["adminAccess"] = True
        if self.flavour == "cel-errors" and self.chance(0.6):
            exactly.setdefault("selectors", []).append({"cel": {"expression": rng.choice(_RISKY)}})
        if self.flavour == "odd-claims":
            self.distort(exactly)
        request: Json = {"name": name, "exactly": exactly}
        later_stages.dress_request(rng, self.flavour, request)
        return request

    def count(self, exactly: Json) -> None:
        rng = self.rng
        if self.flavour == "large" and self.chance(0.5):
            exactly["count"] = rng.choice((8, 15, 16, 20, 31, 32, 33))
        elif self.chance(0.7):
            exactly["count"] = rng.choice((1, 1, 1, 2, 2, 3) if self.tiny else (1, 1, 1, 2, 2, 3, 4))
        if "count" in exactly and self.chance(0.5):
            exactly["allocationMode"] = "ExactCount"

    def distort(self, exactly: Json) -> None:
        what = self.rng.choice(("class", "no-class", "mode", "selector", "fine", "fine"))
        if what == "class":
            exactly["deviceClassName"] = "gone"
        elif what == "no-class":
            del exactly["deviceClassName"]
        elif what == "mode":
            exactly["allocationMode"] = "Some"
        elif what == "selector":
            exactly["selectors"] = [{}]

    def constraint(self, requests: list[Json]) -> Json:
        rng = self.rng
        names = [request["name"] for request in requests]
        attribute = rng.choice(_SHARED_ATTRIBUTES if self.chance(0.4) else _ATTRIBUTES[rng.choice(self.drivers)])
        kind = "matchAttribute"
        if self.flavour == "distinct" or self.chance(0.25):
            kind = "distinctAttribute"
        constraint: Json = {kind: attribute}
        if self.flavour == "odd-claims" and self.chance(0.2):
            constraint = {}
        if self.chance(0.5):
            constraint["requests"] = rng.sample(names, rng.randint(1, len(names)))
        return constraint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--flavour", choices=FLAVOURS + later_stages.LATER_FLAVOURS)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.count):
        problem = random_problem(seed, flavour=options.flavour, tiny=options.tiny)
        sys.stdout.write(json.dumps(problem, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
