"""Whatever happens, no two claims are given a GPU in ways that exclude each other.

A simulated scheduler chooses among the slices as it saw them up to five seconds ago, and writes up to ten seconds
later. The claims that the controller watches may be a minute old; it may be killed at any point, also between the
slices of a pool; the kubelet wipes slices; the layout changes at will.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from driver.api.gpu_modes import GpuMode
from driver.api.gpu_policies import GpuPolicy
from driver.layout.conflicts import GpuModes
from driver.model.devices import DeviceName
from driver.modes.gpu import GpuState, fitting, known_modes
from driver.modes.rule import Layout
from driver.modes.transition import CLOSED_S, step
from driver.modes.wanted import wanted
from tests.support.mig_machines import A30, mig_gpu

SCHEDULER_LAG_S = 5
WRITE_LAG_S = 10
CONTROLLER_LAG_S = 90
GPUS = tuple(mig_gpu(bus, A30) for bus in ("1b", "43"))
MODES: tuple[tuple[GpuMode, ...], ...] = (("gpu", "gpu-ratio", "mig"), ("mig", "gpu"), ("gpu",))
EVERY = {name: of for card in GPUS for of in [known_modes(card, GpuPolicy())] for name in of.possible}


@dataclass(frozen=True)
class Pool:
    """The slices of the node; the scheduler sees them only while they are complete."""

    opened: frozenset[DeviceName] = frozenset()
    closed: frozenset[DeviceName] = frozenset()
    complete: bool = True

    @property
    def published(self) -> frozenset[DeviceName]:
        return self.opened | self.closed


@dataclass
class Claim:
    device: DeviceName
    lands_at: int
    allocated: bool = False


@dataclass
class Memory:
    """What a controller knows beside the stored objects; lost when it is killed."""

    closed_since: dict[DeviceName, int] = field(default_factory=dict)
    listed_at: int = -1
    listed: frozenset[DeviceName] = frozenset()
    last: Pool | None = None


class Cluster(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.history: list[tuple[int, Pool]] = [(0, Pool())]
        self.seen = 0  # by the scheduler: an index of the history
        self.claims: list[Claim] = []
        self.watched: list[tuple[int, frozenset[DeviceName]]] = [(0, frozenset())]
        self.memory = Memory()
        self.layout, self.modes, self.with_counters = Layout.FULL, MODES[0], True
        self.wishes: dict[DeviceName, frozenset[DeviceName]] = {}
        self.beyond = False  # what only the plugin's last defence is for: see the first rule
        self.reconciled_in_use: frozenset[DeviceName] | None = None

    @initialize(beyond=st.sampled_from((False, False, True)), with_counters=st.booleans())
    def begin(self, beyond: bool, with_counters: bool) -> None:
        """Let allocations be held back for minutes, and a controller be killed while the slices are wiped, or not."""
        self.beyond, self.with_counters = beyond, with_counters
        self.layout = Layout.FULL if with_counters else Layout.ONE

    # What is so at the moment.

    @property
    def pool(self) -> Pool:
        return self.history[-1][1]

    @property
    def in_use(self) -> frozenset[DeviceName]:
        return frozenset(claim.device for claim in self.claims if claim.allocated)

    @property
    def chosen(self) -> frozenset[DeviceName]:
        return frozenset(claim.device for claim in self.claims)

    def gpus(self) -> list[GpuModes]:
        return [known_modes(card, GpuPolicy(modes=self.modes)) for card in GPUS]

    # Time, the scheduler, and pods that end.

    @rule(seconds=st.sampled_from((1, 3, 10, 31, 61)))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            for claim in self.claims:
                if not claim.allocated and claim.lands_at <= self.now:
                    claim.allocated = True
                    self.watched.append((self.now, self.in_use))
            self.reconciled_in_use = None
        # Informers lag by so much at most.
        while self.seen + 1 < len(self.history) and self.history[self.seen + 1][0] <= self.now - SCHEDULER_LAG_S:
            self.seen += 1
        while len(self.watched) > 1 and self.watched[1][0] <= self.now - CONTROLLER_LAG_S:
            del self.watched[0]

    @rule(random=st.randoms(use_true_random=False), catches_up=st.booleans(), delay=st.integers(0, WRITE_LAG_S))
    def scheduler_chooses(self, random: random.Random, catches_up: bool, delay: int) -> None:
        if catches_up:
            self.seen = random.randint(self.seen, len(self.history) - 1)
        view = self.history[self.seen][1]
        for _ in range(2):
            free = [name for name in sorted(view.opened) if self._could_be_given(name, view)]
            if not view.complete or not free:
                break
            lands_at = self.now + (random.randint(60, 300) if self.beyond and random.random() < 0.2 else delay)
            self.claims.append(Claim(random.choice(free), lands_at))

    def _could_be_given(self, name: DeviceName, view: Pool) -> bool:
        if name in self.chosen:
            return False
        of = EVERY[name]
        published = view.published & of.possible.keys()
        if of.fit(published):
            return True  # no counters
        # Without them in the API server nothing keeps the devices apart.
        return not self.with_counters or of.fit({name, *(self.chosen & published)})

    @precondition(lambda self: self.claims)
    @rule(random=st.randoms(use_true_random=False))
    def pod_ends(self, random: random.Random) -> None:
        claim = random.choice(self.claims)
        self.claims.remove(claim)
        if claim.allocated:
            self.watched.append((self.now, self.in_use))
        self.reconciled_in_use = None

    # The administrator, the demand, and failures.

    @rule(layout=st.sampled_from((*Layout, Layout.ONE)), modes=st.sampled_from((*MODES, MODES[0])))
    def configured(self, layout: Layout, modes: tuple[GpuMode, ...]) -> None:
        self.layout, self.modes = layout if self.with_counters else Layout.ONE, modes
        self.reconciled_in_use = None

    @rule(random=st.randoms(use_true_random=False))
    def demand(self, random: random.Random) -> None:
        self.wishes = {
            of.gpu: fitting(of, random.sample(of.names, k=min(3, len(of.names))))
            for of in self.gpus()
            if random.random() < 0.7
        }

    @rule()
    def demand_is_over(self) -> None:
        self.wishes = {}

    @rule()
    def controller_is_killed(self) -> None:
        if self.beyond or self.pool != Pool():
            self.memory = Memory()

    @rule()
    def kubelet_wipes_the_slices(self) -> None:
        if self.beyond or self.memory.last == self.pool:
            self._store(Pool())

    # The controller.

    @rule(killed=st.sampled_from((False, False, False, True)), random=st.randoms(use_true_random=False))
    def list_and_reconcile(self, killed: bool, random: random.Random) -> None:
        self.memory.listed_at, self.memory.listed = self.now, self.in_use
        self.reconcile(lag=random.random() < 0.5, killed=killed, random=random)

    @rule(
        lag=st.booleans(), killed=st.sampled_from((False, False, False, True)), random=st.randoms(use_true_random=False)
    )
    def reconcile(self, lag: bool, killed: bool, random: random.Random) -> None:
        in_use = self.watched[0 if lag else -1][1]
        target = self._target(in_use)
        if killed and target != self.pool:
            # Between two slices of a pool: some devices are as before, some as they were to be.
            before = {name for name in self.pool.published if random.random() < 0.5}
            mixed = Pool(
                opened=frozenset((self.pool.opened & before) | (target.opened - before)),
                closed=frozenset((self.pool.closed & before) | (target.closed - before)),
                complete=False,
            )
            self._store(mixed)
            self.memory = Memory()
            return
        self._store(target)
        self.memory.last = target
        self.reconciled_in_use = in_use
        for name in target.closed:
            self.memory.closed_since.setdefault(name, self.now)
        for name in self.memory.closed_since.keys() - target.closed:
            del self.memory.closed_since[name]

    def _target(self, in_use: frozenset[DeviceName]) -> Pool:
        stored = self.memory.last if self.pool == Pool() and self.memory.last is not None else self.pool
        memory = self.memory
        for name in stored.closed:
            memory.closed_since.setdefault(name, self.now)
        free = {
            name
            for name, since in memory.closed_since.items()
            if since + CLOSED_S <= memory.listed_at and name not in memory.listed
        }
        states = [
            GpuState(
                modes=of,
                opened=stored.opened & of.possible.keys(),
                closed=stored.closed & of.possible.keys(),
                in_use=in_use & of.possible.keys(),
                wish=self.wishes.get(of.gpu, frozenset()),
            )
            for of in self.gpus()
        ]
        aim = wanted(self.layout, states)
        steps = [
            step(state, aim[state.modes.gpu], free=free, with_counters=self.layout is not Layout.ONE)
            for state in states
        ]
        closed = union(item.closed for item in steps)
        return Pool(opened=union(item.published for item in steps) - closed, closed=closed)

    def _store(self, pool: Pool) -> None:
        self.history.append((self.now, pool))
        self.reconciled_in_use = None

    # What must be so.

    @invariant()
    def no_gpu_is_given_in_two_ways(self) -> None:
        if not self.beyond:
            assert all(of.fit(self.in_use & of.possible.keys()) for of in self.gpus()), sorted(self.in_use)

    @invariant()
    def what_is_in_use_stays_published(self) -> None:
        if self.reconciled_in_use is not None:
            assert self.reconciled_in_use <= self.pool.published

    @invariant()
    def without_counters_what_is_open_fits_with_all_that_is_published_and_in_use(self) -> None:
        if self.layout is not Layout.ONE or self.reconciled_in_use is None:
            return
        for of in self.gpus():
            opened, in_use = self.pool.opened & of.possible.keys(), self.reconciled_in_use & of.possible.keys()
            assert not opened or of.fit(opened | in_use), (sorted(opened), sorted(in_use))

    def teardown(self) -> None:
        """Once nothing new happens, everything that is wanted is published, and nothing else."""
        self.claims.clear()
        self.watched = [(self.now, frozenset())]
        for _ in range(4):
            self.list_and_reconcile(killed=False, random=random.Random(0))
            self.time_passes(31)
        for of in self.gpus():
            opened = self.pool.opened & of.possible.keys()
            offered = frozenset(of.names)
            match self.layout:
                case Layout.FULL:
                    assert opened == offered
                case Layout.LEAN:
                    assert opened >= self.wishes.get(of.gpu, frozenset()) & offered
                    assert opened
                case Layout.ONE:
                    wish = fitting(of, [name for name in of.names if name in self.wishes.get(of.gpu, frozenset())])
                    assert opened >= wish
                    assert opened
                    assert of.fit(opened)
        if self.layout is Layout.LEAN:  # a claim for any device finds one on some GPU
            kinds = {kind(name) for of in self.gpus() for name in of.names}
            assert {kind(name) for name in self.pool.opened} == kinds
        assert not self.pool.closed


def kind(name: DeviceName) -> str:
    """What a claim asks for: a mode, or a profile."""
    return name.partition("-0000-")[0] if name.startswith("gpu") else name[len("mig-0000-1b-00-0") :].rpartition("-")[0]


def union(sets: Iterable[frozenset[DeviceName]]) -> frozenset[DeviceName]:
    return frozenset().union(*sets)


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
