"""Decides what is published of one node's GPUs next; how that is safe: docs/design/modes.md."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from controller.modes.claim_lists import ClaimLists
from controller.modes.layout_in_force import LayoutInForce
from controller.modes.published import NOTHING, Published, decisive_use, read_published, shared
from controller.modes.wishes import Wishes
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.layout.conflicts import GpuModes
from driver.model.devices import DeviceName
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.modes.gpu import GpuState, card_of, modes_in_order
from driver.modes.rule import Choice, Layout
from driver.modes.transition import CLOSED_S, GpuStep, step
from driver.modes.wanted import Wanted, wanted

__all__ = ["NodeModes", "NodePlan"]

_NONE: Final[frozenset[DeviceName]] = frozenset()
_DROP_EVERY_S: Final = 60.0
"""How often modes of free GPUs that nobody needs are taken out of a node's slices in the layout ``lean``, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """What to publish of a node's GPUs next.

    Attributes:
        choice: The cluster's layout; None where the node has no GPU.
        only: As of :func:`driver.layout.resource_slices`.
        closed: Likewise.
        again_s: Seconds until the node must be reconciled again; None if that is not needed.
        published: What is published once the plan is carried out.
        in_use: The devices that claims have.
        withdrawn: Devices that have left without having been closed, so that nothing is known of them yet.
    """

    choice: Choice | None = None
    only: Mapping[DeviceName, frozenset[DeviceName]] = field(default_factory=dict)
    closed: Collection[DeviceName] = ()
    again_s: float | None = None
    published: Published = NOTHING
    in_use: frozenset[str] = frozenset()
    withdrawn: frozenset[DeviceName] = _NONE


@dataclass(slots=True)
class _Memory:
    """What this process knows of a node beside the stored objects. Without it a change only takes longer.

    Attributes:
        published: What was published last: slices that kubelet has wiped come back as they were.
        use: What decided about that: :func:`decisive_use`.
        closed_since: Since when the devices with the taint are known to have it, in monotonic seconds.
        dropped_at: When modes that nobody needed were last taken away, in monotonic seconds.
        withdrawn_since: Since when devices are withdrawn that were not closed before, in monotonic seconds.
        is_new: Whether this process has not planned anything for the node yet.
        is_short: Whether fewer free GPUs than there should be are published in all modes: any that gets free counts.
    """

    published: Published = NOTHING
    use: frozenset[str] = frozenset()
    closed_since: dict[DeviceName, float] = field(default_factory=dict)
    dropped_at: float | None = None
    withdrawn_since: dict[DeviceName, float] = field(default_factory=dict)
    is_new: bool = True
    is_short: bool = False


class NodeModes:
    """Plans what is published of GPUs. Safe for several threads, if no two of them have the same node.

    Args:
        layout: The cluster's layout.
        lists: Lists claims.
        wishes: What pending claims need.
        in_use: Returns the names of a node's devices that claims have, as far as the watch shows.
        policies: Returns the GPU policies in force.
        device_policies: Returns the device policies in force.
        has_taints: Returns whether the API server keeps taints; may raise ApiServerError. Without them no device can be
            closed: no mode follows demand, and what the policies or the layout take away leaves at once, together with
            all that excludes it, which opens once that is known to be free.
        mig_gpus_ahead: As of :func:`driver.modes.wanted.wanted`.
        closed_s: How long a device stays closed before claims are listed.
        clock: Monotonic seconds.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        layout: LayoutInForce,
        lists: ClaimLists,
        wishes: Wishes,
        in_use: Callable[[str], Collection[str]],
        policies: Callable[[], GpuPolicies],
        device_policies: Callable[[], DevicePolicies] = lambda: DEFAULT_DEVICE_POLICIES,
        has_taints: Callable[[], bool],
        mig_gpus_ahead: int = 1,
        closed_s: float = CLOSED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._layout = layout
        self._lists = lists
        self._wishes = wishes
        self._in_use = in_use
        self._policies = policies
        self._device_policies = device_policies
        self._has_taints = has_taints
        self._mig_gpus_ahead = mig_gpus_ahead
        self._closed_s = closed_s
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: dict[str, _Memory] = {}

    def plan(self, inventory: Inventory, health: NodeHealth, stored: Sequence[JsonObject]) -> NodePlan:
        """Return what to publish next. Once that is stored, call :meth:`carried_out`.

        Args:
            inventory: The node.
            health: What is wrong with its devices.
            stored: Its slices.

        Raises:
            ApiServerError: The API server does not say what decides about the layout.
        """
        node = inventory.node
        gpus = modes_in_order(inventory, self._policies(), self._device_policies())
        if not gpus:
            self.forget(node)
            return NodePlan()
        choice = self._layout.now
        memory = self._of(node)
        published = read_published(stored) | memory.published
        in_use = frozenset(self._in_use(node))
        memory.use = decisive_use(choice.layout, published, in_use)
        has_taints = self._has_taints()  # once: another answer in the middle of a plan would be an unsafe one
        wishes = self._wishes.of(node) if has_taints else {}
        states = _states(gpus, health, published, in_use, wishes)
        if memory.is_new and stored and not has_taints:
            # Of what is not there, this process's predecessor may have withdrawn something a moment ago.
            missing = [name for state in states if not state.opened | state.closed for name in state.modes.possible]
            memory.withdrawn_since = dict.fromkeys(missing, self._clock())
        memory.is_new = False
        known_free = self._free(node, memory, published.closed)
        steps, drop_s, withdrawn = self._steps(choice.layout, states, memory, known_free, has_taints=has_taints)
        leave_s = self._leave_s(node, memory, {name for item in steps for name in item.leaving} | withdrawn)
        closed = frozenset(name for item in steps for name in item.closed)
        opened = frozenset(name for item in steps for name in item.published) - closed
        return NodePlan(
            choice=choice,
            only={
                state.modes.gpu: item.published
                for state, item in zip(states, steps, strict=True)
                if choice.layout is Layout.ONE or item.published != frozenset(state.modes.names)
            },
            closed=closed,
            again_s=_first(drop_s, leave_s),
            published=shared(opened, closed),
            in_use=in_use,
            withdrawn=withdrawn,
        )

    def carried_out(self, node: str, plan: NodePlan) -> float | None:
        """Take note that a plan is stored; return seconds until the node must be reconciled again, if it must."""
        if plan.choice is None:
            return None
        memory = self._of(node)
        memory.published = plan.published
        memory.use = decisive_use(plan.choice.layout, plan.published, plan.in_use)
        now = self._clock()
        memory.closed_since = {name: memory.closed_since.get(name, now) for name in plan.closed}
        memory.withdrawn_since = {name: memory.withdrawn_since.get(name, now) for name in plan.withdrawn}
        if not plan.closed and not plan.withdrawn:
            self._lists.forget(node)
        # What changed while the slices were written was compared with what they were before.
        return 0.0 if frozenset(self._in_use(node)) != plan.in_use else plan.again_s

    def claims_changed(self, node: str) -> bool:
        """Return whether the node must be reconciled because claims have its devices in another way than before."""
        with self._lock:
            memory = self._nodes.get(node)
        if memory is None:
            return False  # it has not been reconciled yet
        if memory.is_short or self._wishes.of(node):
            return True
        return memory.use != decisive_use(self._layout.last, memory.published, self._in_use(node))

    def forget(self, node: str) -> None:
        """Forget a node that is gone, or has no GPU any more."""
        with self._lock:
            self._nodes.pop(node, None)
        self._lists.forget(node)

    def _of(self, node: str) -> _Memory:
        with self._lock:
            return self._nodes.setdefault(node, _Memory())

    def _free(self, node: str, memory: _Memory, closed: frozenset[DeviceName]) -> set[DeviceName]:
        """Return the devices that no claim had when claims were listed, long enough after they were closed.

        Those that were withdrawn without that are forgotten once the same is known of them.
        """
        now, listed = self._clock(), self._lists.of(node)
        # What this process has not closed itself is closed from the moment when it first saw that.
        memory.closed_since = {name: memory.closed_since.get(name, now) for name in closed}
        if listed is None:
            return set()

        def free(since_by_name: Mapping[DeviceName, float]) -> set[DeviceName]:
            return {
                name
                for name, since in since_by_name.items()
                if since + self._closed_s <= listed.began_at and name not in listed.used
            }

        verified = free(memory.withdrawn_since)
        memory.withdrawn_since = {name: since for name, since in memory.withdrawn_since.items() if name not in verified}
        return free(memory.closed_since)

    def _steps(
        self,
        layout: Layout,
        states: Sequence[GpuState],
        memory: _Memory,
        known_free: Collection[DeviceName],
        *,
        has_taints: bool,
    ) -> tuple[list[GpuStep], float | None, frozenset[DeviceName]]:
        """Return each GPU's step, seconds until modes that nobody needs may leave, if any, and what is withdrawn."""
        now = self._clock()
        wait_s = 0.0 if memory.dropped_at is None else max(memory.dropped_at + _DROP_EVERY_S - now, 0.0)
        may_drop = layout is not Layout.LEAN or not wait_s

        def aim(*, may_drop: bool) -> Wanted:
            return wanted(layout, states, mig_gpus_ahead=self._mig_gpus_ahead, may_drop=may_drop)

        aims = aim(may_drop=may_drop)
        withdrawn = _NONE
        if memory.withdrawn_since or not has_taints:
            with_counters = layout is not Layout.ONE
            found = [
                _withdrawal(state, aims[state.modes.gpu], memory.withdrawn_since.keys(), with_counters=with_counters)
                for state in states
            ]
            aims = {state.modes.gpu: item.wanted for state, item in zip(states, found, strict=True)}
            states = [item.gpu for item in found]
            known_free = {name for state in states for name in state.closed}
            withdrawn = frozenset(name for item in found for name in item.withdrawn)
        steps = [
            step(state, aims[state.modes.gpu], free=known_free, with_counters=layout is not Layout.ONE)
            for state in states
        ]
        free = [(state, item) for state, item in zip(states, steps, strict=True) if not state.in_use]
        if may_drop and any(item.leaving - state.closed for state, item in free):
            memory.dropped_at = now
        can = sum(len(state.modes.offered) > 1 for state in states)
        ahead = sum(state.is_healthy and _is_in_all_modes(state, item) for state, item in free)
        memory.is_short = layout is Layout.LEAN and ahead < min(self._mig_gpus_ahead, can)
        return steps, wait_s if not may_drop and aim(may_drop=True) != aims else None, withdrawn

    def _leave_s(self, node: str, memory: _Memory, leaving: Collection[DeviceName]) -> float | None:
        """Return seconds until claims must be listed for devices to leave; ask for it where that is now."""
        now = self._clock()
        since = memory.closed_since | memory.withdrawn_since
        waits = [since.get(name, now) + self._closed_s - now for name in leaving]
        if any(wait <= 0.0 for wait in waits):
            self._lists.ask(node)  # which enqueues the node
        return min((wait for wait in waits if wait > 0.0), default=None)


def _states(
    gpus: Sequence[GpuModes],
    health: NodeHealth,
    published: Published,
    in_use: frozenset[str],
    wishes: Mapping[DeviceName, frozenset[DeviceName]],
) -> list[GpuState]:
    """Return what there is of each of a node's GPUs."""
    unhealthy = health.taints().keys()
    opened, closed, used = (_by_card(names) for names in (published.opened, published.closed, in_use))
    return [
        GpuState(
            modes=modes,
            opened=opened.get(card, _NONE),
            closed=closed.get(card, _NONE),
            in_use=used.get(card, _NONE),
            wish=wishes.get(modes.gpu, _NONE),
            is_healthy=modes.gpu not in unhealthy and not health.rivals_of(modes.gpu),
        )
        for modes in gpus
        for card in (card_of(modes.gpu),)
    ]


def _is_in_all_modes(gpu: GpuState, now: GpuStep) -> bool:
    opened = {gpu.modes.mode_of(name) for name in now.published - now.closed}
    return len(gpu.modes.offered) > 1 and opened.issuperset(gpu.modes.offered)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Withdrawal:
    """What of a GPU leaves where no taint can close it first.

    Attributes:
        gpu: The GPU, with what leaves as if it had been closed and were free.
        wanted: What may be published beside what has left.
        withdrawn: What has left, or does so now, and may still be allocated by a scheduler that has not noticed.
    """

    gpu: GpuState
    wanted: frozenset[DeviceName]
    withdrawn: frozenset[DeviceName]


def _withdrawal(
    gpu: GpuState, wanted: frozenset[DeviceName], before: Collection[DeviceName], *, with_counters: bool
) -> _Withdrawal:
    """Withdraw what is not wanted, and what excludes that, until it is known that no claim has got it.

    Counters do not charge what has left. So where there are any, nothing leaves but what the policies take away.
    """
    published, possible = gpu.opened | gpu.closed, gpu.modes.possible
    if with_counters:
        wanted |= published & set(gpu.modes.names)
    unsure = {name for name in before if name in possible} | (published - wanted)
    unsure -= gpu.in_use  # it stays
    if unsure:
        wanted = frozenset(name for name in wanted if gpu.modes.fit({*unsure, name}))
    return _Withdrawal(
        gpu=replace(gpu, opened=published & wanted, closed=published - wanted),
        wanted=wanted,
        withdrawn=frozenset(unsure | (published - wanted)) - gpu.in_use - wanted,
    )


def _by_card(names: Collection[str]) -> dict[str | None, frozenset[DeviceName]]:
    found = defaultdict[str | None, set[DeviceName]](set)
    for name in names:
        found[card_of(name)].add(DeviceName(name))
    return {card: frozenset(of_card) for card, of_card in found.items()}


def _first(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)
