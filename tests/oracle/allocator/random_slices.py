"""Random nodes and slices: pools of several drivers, whole or not, for one node, some or all."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.oracle.allocator import later_stages

__all__ = ["DRIVERS", "SliceMaker"]

Json = dict[str, Any]

DRIVERS: Final = ("gpu.example.com", "nic.example.com", "fpga.acme.io")


class SliceMaker:
    """Makes the nodes and slices of one problem."""

    def __init__(self, rng: random.Random, flavour: str, *, tiny: bool) -> None:
        self.rng = rng
        self.flavour = flavour
        self.tiny = tiny
        self.nodes = [f"node-{number}" for number in range(1 if tiny else rng.choice((1, 1, 2, 3)))]
        self.drivers = DRIVERS[: rng.choice((1, 2) if tiny else (1, 2, 2, 3))]
        if flavour == "pairs":
            self.drivers = DRIVERS[:2]
        self.slices: list[Json] = []
        # Two drivers may well use one name for their pools. (With counters, Kubernetes mixes them up: quirks.jsonl.)
        self.name_by_driver = later_stages.stage_of(flavour) == "core" and self.chance(0.5)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def make_slices(self) -> None:
        for number in range(max(len(self.drivers), self.rng.choice((1, 2) if self.tiny else (1, 2, 3, 4)))):
            self.pool(number)
        later_stages.add_counters(self.rng, self.flavour, self.slices)
        self.rng.shuffle(self.slices)

    def pool(self, number: int) -> None:
        rng = self.rng
        driver = rng.choice(self.drivers) if number >= len(self.drivers) else self.drivers[number]
        most = {"large": 40, "pairs": 8}.get(self.flavour, 7)
        devices = [self.device(driver, index) for index in range(rng.randint(2, 5 if self.tiny else most))]
        selection = self.selection()
        known = {item["spec"]["pool"]["name"] for item in self.slices if item["spec"]["driver"] == driver}
        pool: Json = {"name": f"pool-{len(known) if self.name_by_driver else number}", "generation": 1}
        parts = self.split(devices)
        pool["resourceSliceCount"] = len(parts)
        for part, held in enumerate(parts):
            spec: Json = {"driver": driver, "pool": dict(pool), "devices": held, **selection}
            if selection.get("perDeviceNodeSelection"):
                for device in held:
                    device.update(self.selection(per_device=True))
            self.slices.append({"metadata": {"name": f"{rng.choice('abc')}-{driver}-{number}-{part}"}, "spec": spec})
        if self.flavour == "pools":
            self.spoil(number, driver, pool, selection)

    def split(self, devices: list[Json]) -> list[list[Json]]:
        if len(devices) < 2 or self.chance(0.6):
            return [devices]
        cut = self.rng.randint(1, len(devices) - 1)
        return [devices[:cut], devices[cut:]]

    def spoil(self, number: int, driver: str, pool: Json, selection: Json) -> None:
        """Slices of another generation, a missing slice, a name used twice."""
        mine = [item for item in self.slices if item["spec"]["driver"] == driver and item["spec"]["pool"] == pool]
        if not mine:
            return
        what = self.rng.choice(("older", "newer", "newer-elsewhere", "missing", "duplicate", "fine"))
        extra: Json = {
            "metadata": {"name": f"x-{number}"},
            "spec": {"driver": driver, "pool": dict(pool), "devices": [self.device(driver, 20)], **selection},
        }
        if what == "missing":
            for item in mine:
                item["spec"]["pool"] = pool | {"resourceSliceCount": pool["resourceSliceCount"] + 1}
        elif what == "duplicate":
            name = mine[0]["spec"]["devices"][0]["name"]
            for item in mine:
                item["spec"]["pool"] = pool | {"resourceSliceCount": pool["resourceSliceCount"] + 1}
            extra["spec"]["pool"] = mine[0]["spec"]["pool"]
            extra["spec"]["devices"][0]["name"] = name
            self.slices.append(extra)
        elif what != "fine":
            extra["spec"]["pool"] |= {"generation": 0 if what == "older" else 2, "resourceSliceCount": 1}
            if what == "newer-elsewhere":
                extra["spec"] = {key: extra["spec"][key] for key in ("driver", "pool", "devices")}
                extra["spec"]["nodeName"] = "node-far"
            self.slices.append(extra)

    def selection(self, *, per_device: bool = False) -> Json:
        rng = self.rng
        kind = rng.choice(("node", "all", "all"))
        if self.flavour == "node-selection":
            kind = rng.choice(("node", "all", "selector", "selector", "selector", "device"))
        if kind == "device" and not per_device:
            return {"perDeviceNodeSelection": True}
        if kind in {"node", "device"}:
            return {"nodeName": rng.choice(self.nodes)}
        if kind == "all":
            return {"allNodes": True}
        return {"nodeSelector": {"nodeSelectorTerms": [self.term() for _ in range(2 if self.chance(0.05) else 1)]}}

    def term(self) -> Json:
        rng = self.rng
        choices: list[tuple[str, Json]] = [
            ("matchExpressions", {"key": "zone", "operator": "In", "values": rng.choice((["a"], ["a", "b"]))}),
            ("matchExpressions", {"key": "zone", "operator": "NotIn", "values": ["b"]}),
            ("matchExpressions", {"key": rng.choice(("zone", "gone")), "operator": "Exists"}),
            ("matchExpressions", {"key": rng.choice(("zone", "gone")), "operator": "DoesNotExist"}),
            ("matchExpressions", {"key": "rank", "operator": rng.choice(("Gt", "Lt")), "values": ["1"]}),
            ("matchExpressions", {"key": "zone", "operator": "Gt", "values": ["1"]}),
            ("matchFields", {"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": ["node-0"]}),
        ]
        if self.chance(0.05):
            choices.append(("matchExpressions", {"key": "zone", "operator": "In", "values": []}))
            choices.append(("matchFields", {"key": "metadata.name", "operator": "Exists"}))
        term: Json = {}
        for key, requirement in rng.sample(choices, rng.choice((1, 1, 2))):
            term.setdefault(key, []).append(requirement)
        return {} if self.chance(0.03) else term

    def device(self, driver: str, index: int) -> Json:
        rng = self.rng
        attributes: Json = {
            "index": {"int": index},
            "numa": {"int": rng.choice((0, 1))},
            "g": {"int": rng.choice((1, 2, 3))},
        }
        if driver == "gpu.example.com":
            attributes["model"] = {"string": rng.choice(("a100", "h100"))}
            attributes["driverVersion"] = {"version": rng.choice(("1.2.3", "2.0.0"))}
            if self.chance(0.7):
                attributes["ecc"] = {"bool": self.chance(0.5)}
        if driver == "nic.example.com":
            attributes["speed"] = {"int": rng.choice((100, 200, 400))}
            if self.chance(0.3):
                attributes["sriov"] = {"bool": True}
        if self.chance(0.9):
            attributes["resource.kubernetes.io/pcieRoot"] = {"string": f"pci0000:0{rng.choice((0, 1, 2))}"}
        if self.chance(0.3):
            attributes["topology.example.com/rack"] = {"string": rng.choice(("r1", "r2"))}
        if self.chance(0.1):
            attributes[f"{driver}/g"] = {"int": 3}
        if self.chance(0.05):
            attributes["g"] = {"string": "1"}
        device: Json = {"name": f"{driver.partition('.')[0]}-{index}", "attributes": attributes}
        later_stages.dress_device(rng, self.flavour, device)
        return device
