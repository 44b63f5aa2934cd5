"""The modes of GPUs while the layout changes, on the real node: none is ever in two, and every claim gets its turn."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.resources import NODE_INVENTORIES, PODS, RESOURCE_CLAIMS
from driver.api.gpu_policies import GpuPolicy
from driver.layout.conflicts import gpu_modes
from driver.layout.taints import MODE_CHANGE_TAINT
from driver.modes.gpu import card_of
from driver.objects.inventories import inventory_of, parse_node_inventory
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import gpu_claim, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport

LAYOUTS: Final = ("one", "lean", "full", "one", "lean")
QUICK: Final = "tests.support.quick_controller"


@pytest.fixture
def controller(rootport: RunningRootport) -> Iterator[Callable[[str], None]]:
    """Starts a controller with another layout in place of the one that runs; at the end the usual one runs again."""

    def start(layout: str) -> None:
        assert rootport.controller is not None
        rootport.controller.stop()
        rootport.start_controller(f"--gpu-layout={layout}", module=QUICK)
        rootport.wait_until_controller_is_ready()

    yield start
    rootport.delete_all()
    assert rootport.controller is not None
    rootport.controller.stop()
    rootport.start_controller()
    rootport.wait_until_controller_is_ready()


class Watch:
    """Looks at the claims and the slices all the time."""

    def __init__(self, rootport: RunningRootport) -> None:
        (wire,) = rootport.cluster.list(NODE_INVENTORIES, field_selector=f"metadata.name={NODE_NAME}")
        inventory = inventory_of(parse_node_inventory(wire))
        self._gpus = {card_of(gpu.name): gpu_modes(gpu, GpuPolicy()) for gpu in inventory.gpus}
        self._rootport = rootport
        self.wrong: list[str] = []
        self.looks = 0

    def look(self) -> None:
        # Slices first: what a claim has by now may have been published only after these.
        slices = self._rootport.slices()
        for card, names in self._of_cards(self._allocated()).items():
            if not self._gpus[card].fit(names):
                self.wrong.append(f"in use at once: {sorted(names)}")
        for card, names in self._of_cards(self._open_without_counters(slices)).items():
            if not self._gpus[card].fit(names):
                self.wrong.append(f"open at once: {sorted(names)}")
        self.looks += 1

    def _allocated(self) -> Iterator[str]:
        for claim in self._rootport.cluster.list(RESOURCE_CLAIMS):
            allocation = claim.get("status", {}).get("allocation") or {}
            for result in allocation.get("devices", {}).get("results", ()):
                if result["driver"] == "rootport.dev":
                    yield result["device"]

    @staticmethod
    def _open_without_counters(slices: list[dict[str, Any]]) -> Iterator[str]:
        pools = {(one["spec"]["pool"]["generation"], one["spec"]["pool"]["resourceSliceCount"]) for one in slices}
        if len(pools) != 1 or next(iter(pools))[1] != len(slices):
            return  # under way: the scheduler does not look at it
        for one in slices:
            for device in one["spec"].get("devices", ()):
                is_closed = any(taint["key"] == MODE_CHANGE_TAINT for taint in device.get("taints", ()))
                if not is_closed and not device.get("consumesCounters"):
                    yield device["name"]

    @staticmethod
    def _of_cards(names: Iterator[str]) -> Mapping[str, set[Any]]:
        found: dict[str, set[Any]] = {}
        for name in names:
            card = card_of(name)
            if card is not None:
                found.setdefault(card, set()).add(name)
        return found


@contextmanager
def watched(rootport: RunningRootport) -> Iterator[Watch]:
    stop, watch = threading.Event(), Watch(rootport)

    def run() -> None:
        while not stop.wait(0.1):
            watch.look()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield watch
    finally:
        stop.set()
        thread.join()
    assert watch.wrong == []
    assert watch.looks > 50


def any_mode(chance: random.Random) -> dict[str, Any]:
    match chance.randrange(4):
        case 0:
            return {}
        case 1:
            return {"core": "40", "memory": "10Gi"}
        case 2:
            return {"type_": "gpu-ratio", "core": "25", "memoryRatio": "20"}
        case _:
            return {"type_": "mig", "profile": chance.choice(["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb"])}


def test_no_gpu_is_in_two_modes_while_layouts_change_and_every_claim_gets_its_turn(
    rootport: RunningRootport, controller: Callable[[str], None]
) -> None:
    """A pod for each GPU and round, in any mode; those of the round before end while the next ones wait already."""
    chance = random.Random(16)
    gpus = rootport.host.gpus
    former: list[str] = []

    def is_running(names: list[str]) -> Callable[[], bool]:
        def found() -> bool:
            phases = {item["metadata"]["name"]: item["status"]["phase"] for item in rootport.cluster.list(PODS)}
            return all(phases.get(name) == "Running" for name in names)

        return found

    with watched(rootport):
        for round_, layout in enumerate(LAYOUTS):
            names = [f"r{round_}-{number}" for number in range(len(gpus))]
            objects = []
            for name, gpu in zip(names, gpus, strict=True):
                objects += [gpu_claim(name, gpu, **any_mode(chance)), pod(name, claim=name)]
            rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))
            controller(layout)
            if former:
                ended = [f"{kind}/{name}" for name in former for kind in ("pod", "resourceclaim")]
                rootport.cluster.kubectl("delete", *ended)
            try:
                wait_until(f"all pods run with the layout {layout}", is_running(names), timeout_s=150)
            except TimeoutError as error:
                story = rootport.cluster.kubectl("describe", "pods,resourceclaims", check=False)
                raise TimeoutError(f"{error}\n{story[-6000:]}") from None
            former = names
