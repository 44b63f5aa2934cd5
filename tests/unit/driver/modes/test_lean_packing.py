"""With the layout lean, the scheduler's first fit fills one GPU after the other, though only some are in all modes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from driver.adapters.manifests.claims import read_manifest_text
from driver.allocator import Allocator
from driver.api.gpu_policies import GpuPolicy
from driver.api.resource_v1 import AllocationResult, Node, ObjectMeta
from driver.layout.slices import resource_slices
from driver.model.devices import DeviceName
from driver.modes.gpu import GpuState, card_of, known_modes
from driver.modes.rule import Layout
from driver.modes.transition import step
from driver.modes.wanted import wanted
from resourceclasses import device_classes_text
from tests.support.class_claims import class_claim
from tests.support.machines import node
from tests.support.mig_machines import mig_gpu

CLASSES = [m.device_class for m in read_manifest_text(device_classes_text(), "device-classes.yaml").classes]
BUSES = ("1b", "43", "52", "61")
MACHINE = node(*(mig_gpu(bus) for bus in BUSES))
NODE = Node(metadata=ObjectMeta(name="node-a"))


class LeanNode:
    """The node after each claim, as the controller has published it; nothing that is closed has left yet."""

    def __init__(self) -> None:
        self.results: list[AllocationResult] = []
        self.opened: frozenset[DeviceName] = frozenset()
        self.closed: frozenset[DeviceName] = frozenset()
        self._reconcile()

    def give(self, kind: str, **asked: Any) -> str | None:
        """Place one claim, and return the bus of the GPU that it got; None where nothing is free."""
        allocator = Allocator(self._slices, CLASSES)
        allocator.commit(self.results)
        results = allocator.allocate(NODE, [class_claim(kind, **asked)])
        if results is None:
            return None
        self.results += results
        self._reconcile()
        card = card_of(results[0].devices.results[0].device)
        assert card is not None
        return card.split("-")[1]

    def _reconcile(self) -> None:
        in_use = frozenset(DeviceName(each.device) for result in self.results for each in result.devices.results)
        states = []
        for gpu in MACHINE.gpus:
            modes = known_modes(gpu, GpuPolicy())
            of = frozenset(modes.possible)
            states.append(GpuState(modes=modes, opened=self.opened & of, closed=self.closed & of, in_use=in_use & of))
        aims = wanted(Layout.LEAN, states)
        steps = {state.modes.gpu: step(state, aims[state.modes.gpu], with_counters=True) for state in states}
        only: Mapping[DeviceName, frozenset[DeviceName]] = {gpu: each.published for gpu, each in steps.items()}
        self.closed = frozenset(name for each in steps.values() for name in each.closed)
        self.opened = frozenset(name for each in steps.values() for name in each.published) - self.closed
        self._slices = resource_slices(MACHINE, only=only, closed=self.closed)


def test_small_partitions_fill_one_gpu_before_the_next_one_is_broken() -> None:
    lean = LeanNode()
    assert [lean.give("mig", profile="1g.10gb") for _ in range(28)] == [
        bus for bus in reversed(BUSES) for _ in range(7)
    ]
    assert lean.give("mig") is None


def test_whole_gpus_come_from_the_front_and_partitions_from_the_back() -> None:
    lean = LeanNode()
    kinds = [("gpu", {}), ("mig", {"profile": "3g.40gb"})] * 2 + [("gpu", {}), ("mig", {"profile": "4g.40gb"})]
    assert [lean.give(kind, **asked) for kind, asked in kinds] == ["1b", "61", "43", "61", "52", None]
    assert lean.give("gpu") is None


def test_shares_by_percent_fill_one_gpu_before_the_next_one() -> None:
    lean = LeanNode()
    shares = [lean.give("gpu-ratio", core=50, memoryRatio=50) for _ in range(4)]
    assert shares == ["61", "61", "52", "52"]


@pytest.mark.parametrize("last", ["gpu", "gpu-ratio", "mig"])
def test_every_mode_is_there_to_the_last_gpu(last: str) -> None:
    lean = LeanNode()
    assert None not in [lean.give("gpu") for _ in range(3)]
    assert lean.give(last) == "61"
