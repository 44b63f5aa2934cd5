"""What is planned for a node's GPUs, from its stored slices, its claims, and what was listed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

import pytest

from controller.modes.claim_lists import ClaimLists, Listed
from controller.modes.layout_in_force import LayoutInForce
from controller.modes.node_modes import NodeModes, NodePlan
from controller.modes.wishes import Wishes
from driver.adapters.kubernetes.resources import JsonObject
from driver.api import API_VERSION
from driver.api.gpu_modes import GpuMode
from driver.api.gpu_policies import GpuPolicies
from driver.layout.slices import resource_slices
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.inventory import Inventory
from driver.modes.gpu import card_of
from driver.modes.rule import Choice, Layout
from tests.support.machines import gpu, node
from tests.support.mig_machines import A30, mig_gpu

GPU = DeviceName("gpu-0000-10-00-0")
RATIO = DeviceName("gpu-ratio-0000-10-00-0")
PARTITION = DeviceName("mig-0000-10-00-0-1g-6gb-0")
SMALL = {f"mig-0000-10-00-0-1g-6gb-{start}" for start in range(4)}
LARGE = DeviceName("mig-0000-10-00-0-4g-24gb-0")


class Lists:
    """Claims are listed when the test wants it."""

    def __init__(self) -> None:
        self.listed: Listed | None = None
        self.asked = False

    def ask(self, _node: str) -> None:
        self.asked = True

    def of(self, _node: str) -> Listed | None:
        return self.listed

    def forget(self, _node: str) -> None:
        self.listed, self.asked = None, False


class InForce:
    def __init__(self, layout: Layout) -> None:
        self.last = layout

    @property
    def now(self) -> Choice:
        return Choice(layout=self.last, reason="Test", message="a test")


class World:
    """A node, the API server that stores its slices, and a clock."""

    def __init__(self, layout: Layout, *buses: str, modes: Sequence[GpuMode] = ("gpu", "gpu-ratio", "mig")) -> None:
        self.time = 1000.0
        self.layout = InForce(layout)
        self.has_taints = True
        self.inventory: Inventory = node(*(mig_gpu(bus, A30) for bus in buses or ("10",)), name="node-a")
        self.in_use: set[str] = set()
        self.unseen: set[str] = set()  # in use, but the watch does not show it
        self.stored: Sequence[JsonObject] = ()
        self.health = NodeHealth()
        self.wishes = Wishes()
        self.writes = 0
        self.offer(*modes)
        self.restart()

    def restart(self) -> None:
        """Begin with a controller that knows nothing but what is stored."""
        self.lists = Lists()
        self.modes = NodeModes(
            layout=cast("LayoutInForce", self.layout),
            lists=cast("ClaimLists", self.lists),
            wishes=self.wishes,
            in_use=lambda _node: self.in_use,
            policies=lambda: self.policies,
            has_taints=lambda: self.has_taints,
            clock=lambda: self.time,
        )

    def offer(self, *modes: GpuMode) -> None:
        wire = {"apiVersion": API_VERSION, "kind": "GpuPolicies", "policies": [{"modes": modes}]}
        self.policies = GpuPolicies.model_validate(wire)

    def wish(self, *names: DeviceName) -> None:
        self.wishes.set({"node-a": {GPU: frozenset(names)}} if names else {})

    def plan(self) -> NodePlan:
        return self.modes.plan(self.inventory, self.health, self.stored)

    def reconcile(self) -> float | None:
        plan = self.plan()
        slices = resource_slices(self.inventory, policies=self.policies, only=plan.only, closed=plan.closed)
        stored = [item.to_wire() for item in slices]
        if not self.has_taints:
            for wire in stored:
                for device in wire["spec"].get("devices", ()):
                    device.pop("taints", None)
        self.writes += stored != self.stored
        self.stored = stored
        return self.modes.carried_out("node-a", plan)

    def passes(self, seconds: float) -> float | None:
        """Let time pass, reconcile, list claims if that was asked for, and reconcile again."""
        self.time += seconds
        again_s = self.reconcile()
        if self.lists.asked:
            self.lists.listed = Listed(began_at=self.time, used=frozenset(self.in_use | self.unseen))
            self.lists.asked = False
            again_s = self.reconcile()
        return again_s

    @property
    def opened(self) -> set[str]:
        return {item["name"] for item in self._devices() if not item.get("taints")}

    @property
    def closed(self) -> set[str]:
        return {item["name"] for item in self._devices() if item.get("taints")}

    @property
    def partitioned(self) -> set[str | None]:
        return {card_of(name) for name in self.opened if name.startswith("mig-")}

    def _devices(self) -> list[JsonObject]:
        return [item for wire in self.stored for item in wire["spec"].get("devices", ())]


def test_a_full_layout_has_nothing_to_plan() -> None:
    world = World(Layout.FULL, "10", "11")
    plan = world.plan()
    assert (plan.only, set(plan.closed), plan.again_s) == ({}, set(), None)
    assert plan.choice is not None


@pytest.mark.parametrize("inventory", [node(name="node-a")], ids=["no-gpu"])
def test_a_node_without_gpus_has_no_layout(inventory: Inventory) -> None:
    world = World(Layout.ONE)
    world.inventory = inventory
    assert world.plan() == NodePlan()


def test_a_mode_is_exchanged_after_half_a_minute_and_a_list() -> None:
    world = World(Layout.ONE)
    assert world.reconcile() is None
    assert world.opened == {GPU}
    world.wish(PARTITION)
    assert world.reconcile() == 30.0
    assert (world.opened, world.closed) == (set(), {GPU})
    assert world.passes(29.0) == 1.0
    assert not world.lists.asked
    assert (world.opened, world.closed) == (set(), {GPU})
    assert world.passes(1.0) is None
    assert (world.opened, world.closed) == ({PARTITION}, set())
    world.wish()
    world.passes(600.0)
    assert world.opened == {PARTITION}


def test_a_list_that_began_before_says_nothing() -> None:
    world = World(Layout.ONE)
    world.reconcile()
    world.wish(PARTITION)
    world.reconcile()
    world.lists.listed = Listed(began_at=world.time + 29.9, used=frozenset())
    world.time += 31.0
    world.reconcile()
    assert world.closed == {GPU}
    assert world.lists.asked


def test_a_claim_that_only_the_list_shows_keeps_the_device() -> None:
    world = World(Layout.ONE)
    world.reconcile()
    world.wish(PARTITION)
    world.reconcile()
    world.unseen = {GPU}
    for _ in range(3):
        world.passes(30.0)
        assert (world.opened, world.closed) == (set(), {GPU})
    world.unseen = set()
    world.passes(10.0)
    assert world.opened == {PARTITION}


def test_a_new_controller_waits_anew() -> None:
    world = World(Layout.ONE)
    world.reconcile()
    world.wish(PARTITION)
    world.reconcile()
    world.restart()
    assert world.passes(3600.0) == 30.0
    assert world.closed == {GPU}
    world.passes(30.0)
    assert world.opened == {PARTITION}


def test_a_wish_that_is_taken_back_opens_the_device_again_at_once() -> None:
    world = World(Layout.ONE)
    world.reconcile()
    world.wish(PARTITION)
    world.reconcile()
    world.wish()
    assert world.reconcile() is None
    assert (world.opened, world.closed) == ({GPU}, set())
    world.wish(PARTITION)
    world.reconcile()
    assert world.passes(29.0) == 1.0  # counted from the second time


def test_wiped_slices_come_back_as_they_were() -> None:
    world = World(Layout.ONE)
    world.wish(LARGE)
    world.reconcile()
    world.wish()
    for lost in ([], world.stored[:0]):
        world.stored = lost
        world.reconcile()
        assert world.opened == {LARGE}


def test_lists_are_forgotten_once_nothing_is_closed() -> None:
    world = World(Layout.ONE)
    world.reconcile()
    world.wish(PARTITION)
    world.reconcile()
    world.passes(30.0)
    assert world.lists.listed is None


class TestLean:
    def test_the_last_gpu_has_all_modes_and_a_gpu_in_use_its_own(self) -> None:
        world = World(Layout.LEAN, "10", "11", "12")
        world.reconcile()
        assert world.partitioned == {"0000-12-00-0"}
        assert {GPU, "gpu-0000-11-00-0", "gpu-0000-12-00-0"} <= world.opened
        world.in_use = {"mig-0000-12-00-0-1g-6gb-0"}
        assert world.modes.claims_changed("node-a")
        assert world.reconcile() == 30.0
        assert world.partitioned == {"0000-11-00-0", "0000-12-00-0"}
        assert world.closed == {"gpu-0000-12-00-0", "gpu-ratio-0000-12-00-0"}
        world.passes(30.0)
        assert not world.closed

    def test_free_gpus_lose_modes_once_a_minute_at_most(self) -> None:
        world = World(Layout.LEAN, "10", "11", "12")
        world.reconcile()

        def use_and_release() -> float | None:
            world.in_use = {"mig-0000-12-00-0-1g-6gb-0"}
            world.reconcile()
            assert world.partitioned == {"0000-11-00-0", "0000-12-00-0"}
            world.in_use = set()
            return world.reconcile()

        assert use_and_release() == 30.0
        assert len(world.partitioned) == 1
        assert use_and_release() == 60.0
        assert len(world.partitioned) == 2
        world.passes(60.0)
        assert len(world.partitioned) == 1
        world.passes(30.0)
        assert not world.closed

    def test_an_unhealthy_gpu_is_not_kept_ready(self) -> None:
        world = World(Layout.LEAN, "10", "11")
        since = datetime(2026, 1, 1, tzinfo=UTC)
        name = DeviceName("gpu-0000-11-00-0")
        fault = Fault(device=name, reason="Xid79", effect=Effect.NO_SCHEDULE, since=since, message="lost")
        world.health = NodeHealth(faults=(fault,))
        world.reconcile()
        assert world.partitioned == {"0000-10-00-0"}

    @pytest.mark.parametrize(
        ("before", "after", "matters"),
        [
            pytest.param(set(), {"gpu-0000-10-00-0"}, False, id="whole: not ahead"),
            pytest.param({"gpu-0000-10-00-0"}, set(), False, id="whole, released: not ahead"),
            pytest.param(set(), {"gpu-0000-12-00-0"}, True, id="whole: ahead"),
            pytest.param(set(), {"mig-0000-12-00-0-1g-6gb-0"}, True, id="first-partition"),
            pytest.param({"mig-0000-12-00-0-1g-6gb-0"}, set(), True, id="last-partition"),
            pytest.param(
                {"mig-0000-12-00-0-1g-6gb-0"},
                {"mig-0000-12-00-0-1g-6gb-0", "mig-0000-12-00-0-1g-6gb-1"},
                False,
                id="second-partition",
            ),
            pytest.param(set(), {"mig-0000-10-00-0-1g-6gb-0"}, True, id="a device that is not published"),
            pytest.param(set(), {"rdma-0000-10-00-0"}, False, id="another-device"),
        ],
    )
    def test_only_what_may_change_the_slices_enqueues(self, before: set[str], after: set[str], matters: bool) -> None:
        world = World(Layout.LEAN, "10", "11", "12")
        world.in_use = before
        world.reconcile()
        world.passes(30.0)
        assert not world.modes.claims_changed("node-a")
        world.in_use = after
        assert world.modes.claims_changed("node-a") is matters

    def test_any_gpu_that_gets_free_counts_where_none_was(self) -> None:
        world = World(Layout.LEAN, "10", "11")
        world.in_use = {"gpu-0000-10-00-0", "gpu-0000-11-00-0"}
        world.reconcile()
        assert not world.partitioned
        world.in_use = {"gpu-0000-11-00-0"}
        assert world.modes.claims_changed("node-a")
        assert world.reconcile() is None
        assert world.partitioned == {"0000-10-00-0"}


def test_a_node_that_was_never_reconciled_waits_for_that() -> None:
    assert not World(Layout.ONE).modes.claims_changed("node-a")


def test_claims_that_change_while_slices_are_written_are_looked_at_again() -> None:
    world = World(Layout.LEAN, "10", "11")
    plan = world.plan()
    world.in_use = {"mig-0000-11-00-0-1g-6gb-0"}
    assert world.modes.carried_out("node-a", plan) == 0.0


def test_a_policy_takes_a_mode_away_but_never_from_a_claim() -> None:
    world = World(Layout.FULL)
    world.in_use = {PARTITION}
    world.reconcile()
    world.offer("gpu")
    assert world.reconcile() == 30.0
    assert world.opened == {GPU}
    assert PARTITION in world.closed
    world.passes(30.0)
    assert (world.opened, world.closed) == ({GPU}, {PARTITION})
    assert any(wire["spec"].get("sharedCounters") for wire in world.stored)  # they charge it
    world.in_use = set()
    assert world.modes.claims_changed("node-a")
    world.passes(0.0)
    assert (world.opened, world.closed) == ({GPU}, set())


def test_without_taints_no_mode_follows_demand_and_a_policy_holds_at_once() -> None:
    world = World(Layout.ONE)
    world.has_taints = False
    world.reconcile()
    world.wish(PARTITION)
    world.reconcile()
    assert world.opened == {GPU}
    world.offer("mig")
    assert world.reconcile() == 30.0
    assert not world.opened
    world.passes(30.0)
    assert world.opened == SMALL
    world.in_use = {PARTITION}
    world.offer("gpu")
    world.reconcile()
    assert world.opened == {PARTITION}


class TestWithoutTaints:
    """Nothing can be closed: what is taken away leaves, and what excludes it opens once it is known to be free."""

    @pytest.mark.parametrize("layout", Layout)
    def test_the_other_mode_comes_after_the_wait_and_a_list(self, layout: Layout) -> None:
        world = World(layout, modes=("gpu",))
        world.has_taints = False
        world.reconcile()
        assert world.opened == {GPU}
        world.offer("mig")
        assert world.reconcile() == 30.0
        assert not world.opened
        assert world.passes(29.0) == 1.0
        assert not world.opened
        world.unseen = {GPU}  # it was allocated just before it left
        for _ in range(2):
            world.passes(10.0)
            assert not world.opened
        world.in_use, world.unseen = {GPU}, set()
        assert world.modes.claims_changed("node-a")
        world.reconcile()
        assert GPU in world.opened
        assert world.opened == {GPU} or any(wire["spec"].get("sharedCounters") for wire in world.stored)
        world.in_use = set()
        world.reconcile()
        assert not world.opened
        world.passes(30.0)
        assert world.opened
        assert all(name.startswith("mig-") for name in world.opened)

    def test_from_all_modes_to_one(self) -> None:
        world = World(Layout.FULL)
        world.has_taints = False
        world.reconcile()
        assert world.opened > {GPU, RATIO, PARTITION}
        world.layout.last = Layout.ONE
        assert world.reconcile() == 30.0
        assert not world.opened
        world.passes(29.0)
        assert not world.opened
        world.passes(1.0)
        assert world.opened == {GPU}

    def test_another_gpu_is_left_alone(self) -> None:
        world = World(Layout.ONE, "10", "11", modes=("gpu",))
        world.has_taints = False
        world.reconcile()
        world.in_use = {"gpu-0000-11-00-0"}
        world.offer("mig")
        world.reconcile()
        assert world.opened == {"gpu-0000-11-00-0"}

    def test_a_mode_that_is_offered_again_at_once_comes_back_at_once(self) -> None:
        world = World(Layout.ONE, modes=("gpu",))
        world.has_taints = False
        for modes in ("mig", "gpu"):
            world.reconcile()
            world.offer(modes)  # type: ignore[arg-type]
        world.reconcile()
        assert world.opened == {GPU}

    @pytest.mark.parametrize("taints", [False, True])
    def test_a_new_controller_or_taints_do_not_end_the_wait(self, *, taints: bool) -> None:
        world = World(Layout.ONE, modes=("gpu",))
        world.has_taints = False
        world.reconcile()
        world.offer("mig")
        world.reconcile()
        if taints:
            world.has_taints = True
        else:
            world.restart()
        world.time += 5.0
        world.reconcile()
        assert not world.opened
        world.passes(29.0 if taints else 30.0)
        assert world.opened == SMALL

    def test_a_controller_that_starts_waits_only_where_nothing_is_published(self) -> None:
        world = World(Layout.FULL)
        world.has_taints = False
        assert world.reconcile() is None
        before = world.opened
        assert before
        world.restart()
        assert world.reconcile() is None
        assert world.opened == before

    def test_nothing_leaves_while_counters_charge_it(self) -> None:
        world = World(Layout.FULL, "10", "11")
        world.has_taints = False
        world.reconcile()
        before = world.opened
        world.layout.last = Layout.LEAN
        world.in_use = {PARTITION}
        assert world.reconcile() is None
        assert world.opened == before


def test_a_gpu_without_device_nodes_has_no_plan() -> None:
    world = World(Layout.ONE)
    world.inventory = node(gpu("10", minor=None), mig_gpu("11", A30), name="node-a")
    assert set(world.plan().only) == {"gpu-0000-11-00-0"}
