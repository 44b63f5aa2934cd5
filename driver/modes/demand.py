"""Finds which GPUs should be published in another way, so that pods which wait for devices can have them.

Only for pods whose claims fit nowhere with what is published: kube-scheduler places the others by itself. For such a
pod the allocator itself is asked, about one node at a time, what the pod would get if some GPUs were published in all
their modes at once, with the counters that make these exclude each other. What it takes is the wish. So a wish never
needs a device that is in use, nor two devices that cannot be in use together, and the policies hold as always.

Pods are taken one after the other, and what each would get counts as in use for the next, so that several claims share
a GPU, and no two of them count on the same device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import Final, Self

from driver.allocator.errors import AllocationError
from driver.allocator.ledger import Holding
from driver.api.resource_v1 import Node
from driver.budget import check
from driver.errors import InputError
from driver.layout.conflicts import GpuModes
from driver.memo import Memo
from driver.model.devices import DeviceName
from driver.modes.gpu import fitting
from driver.modes.hypothesis import NodeNow, Waiting, would_hold
from driver.modes.memory import Case, DemandMemory
from driver.modes.rule import Layout

__all__ = ["DemandRound", "PodWish"]

_CHANGING: Final = 4
"""On so many of the nodes that change anyway another change is tried for a pod."""
_PLACES: Final = 32
"""For pods of so many kinds of places it is remembered on which nodes they may be."""
_FEWEST: Final = 3
_MOST: Final = 16
"""On so many of the others one is tried in one round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWish:
    """What a pod needs to be published.

    Attributes:
        node: The node.
        gpus: By the GPU's name, the devices that it needs of that GPU.
        is_open: Whether these are published by now, and can be allocated.
        held: All that its claims would hold.
        version: The node's version when that was found.
    """

    node: str
    gpus: Mapping[DeviceName, frozenset[DeviceName]]
    is_open: bool = False
    held: tuple[Holding, ...] = field(repr=False)
    version: int = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    """What a pod would get on a node.

    Attributes:
        node: The node.
        held: What its claims would hold.
        changes: By the GPU's name, the devices that it would get of GPUs that do not publish all of these.
        new: How many GPUs would have to change that have no wish yet.
    """

    node: str
    held: tuple[Holding, ...]
    changes: Mapping[DeviceName, frozenset[DeviceName]]
    new: int


class DemandRound:
    """One round: pods in turn, each with what is left by those before it.

    A context: what the pods would get counts as in use of the cluster's devices until it ends.

    Args:
        memory: Of the rounds before.
        layout: The cluster's layout.
        nodes: All Nodes.
    """

    def __init__(self, memory: DemandMemory, layout: Layout, nodes: Sequence[Node]) -> None:
        self._memory = memory
        self._cluster = memory.cluster
        self._layout = layout
        self._nodes = {node.metadata.name: node for node in nodes}
        self._held: list[Holding] = []
        self._touched: set[str] = set()
        self._now: dict[str, NodeNow | None] = {}
        # By node and GPU: what each pod has chosen, by its UID.
        self._chosen: defaultdict[str, defaultdict[DeviceName, dict[str, frozenset[DeviceName]]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        # By what a pod asks for and where it may be: nothing gets free in a round, so what failed once fails again.
        self._nothing_published: set[object] = set()
        self._nothing_possible: set[object] = set()
        self._last: dict[object, str] = {}
        self._allowed: Memo[object, dict[str, bool]] = Memo(_PLACES)
        self._kinds: dict[object, list[str]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.ledger.remove(self._held)
        self._held = []

    def keep(self, pod: Waiting, wish: PodWish) -> PodWish | None:
        """Keep the wish that a pod had before; None where it would not get its devices by that any more.

        Raises:
            SpentError: The budget in force is spent.
        """
        version = self._cluster.version(wish.node)
        if version == wish.version:
            self.assume(pod.uid, wish)
            return wish
        now = self._node_now(wish.node)
        if now is None or not self._may_be_on(pod, wish.node):
            return None
        sets = {gpu: self._former_set(wish.node, gpu) for gpu in wish.gpus}
        nothing_else = {gpu.gpu: frozenset[DeviceName]() for gpu in now.gpus if gpu.gpu not in sets}
        held = self._fitting(now, sets | nothing_else, pod) or self._fitting(now, sets, pod)
        taken = {} if held is None else self._taken(now, held)
        chosen = {gpu: names for gpu, names in taken.items() if gpu in wish.gpus}
        if held is None or not chosen:
            return None
        is_open = all(names <= now.opened(gpu) for gpu, names in chosen.items())
        self._record(pod.uid, _Attempt(wish.node, held, chosen, 0))
        return PodWish(node=wish.node, gpus=chosen, is_open=is_open, held=held, version=version)

    def assume(self, uid: str, wish: PodWish) -> None:
        """Keep the wish that a pod had before without another look, by the pod's UID."""
        self._record(uid, _Attempt(wish.node, wish.held, wish.gpus, 0))

    def fits(self, pod: Waiting) -> bool:
        """Whether what is published serves a pod, so that kube-scheduler will place it; then that counts as in use.

        Ask this about all pods before the first change is looked for, which could take it away.

        Raises:
            SpentError: The budget in force is spent.
        """
        case = self._memory.case(pod.demands, nodes=len(self._nodes))
        return self._fits_published(pod, case)

    def find(self, pod: Waiting) -> PodWish | None:
        """Find what should be published for a pod that does not fit; None where no change would help.

        Raises:
            SpentError: The budget in force is spent.
        """
        if self._layout is Layout.FULL or not pod.may_need_gpus or pod.kind in self._nothing_possible:
            return None
        case = self._memory.case(pod.demands, nodes=len(self._nodes))
        best: _Attempt | None = None
        for node in self._candidates(pod, case):
            attempt = self._attempt(node, pod)
            if attempt is None:
                if node not in self._touched:
                    case.in_vain[node] = self._cluster.version(node)
                continue
            if best is None or attempt.new < best.new:
                best = attempt
            if best.new <= 1:
                break
        if best is None:
            self._nothing_possible.add(pod.kind)
            return None
        self._last[pod.kind] = best.node
        self._record(pod.uid, best)
        if not best.changes:
            return None
        return PodWish(node=best.node, gpus=best.changes, held=best.held, version=self._cluster.version(best.node))

    def wishes(self) -> Mapping[str, Mapping[DeviceName, frozenset[DeviceName]]]:
        """Return what should be published, by node and GPU: what the pods have chosen, filled up with more of it.

        The next round goes on from there.
        """
        found: dict[str, dict[DeviceName, frozenset[DeviceName]]] = {}
        for node, of_gpus in self._chosen.items():
            now = self._now.get(node)
            by_name = {} if now is None else {gpu.gpu: gpu for gpu in now.gpus}
            counted_on = {} if now is None else self._taken(now, self._held)
            found[node] = {
                # Where nothing was looked at, all wishes are as they were.
                name: self._former_set(node, name)
                if now is None
                else self._set_of(
                    now, node, by_name[name], frozenset(chain(*chosen.values())), counted_on.get(name, frozenset())
                )
                for name, chosen in of_gpus.items()
                if now is None or name in by_name  # a wish may be older than the inventory
            }
        self._memory.sets = found
        return found

    def modes(self, node: str, gpu: DeviceName, names: frozenset[DeviceName] | None = None) -> str:
        """Return the modes of devices of a GPU with a wish, for a person; of those that are published by default."""
        now = self._now[node]
        found = () if now is None else now.gpus
        of_gpu = next(item for item in found if item.gpu == gpu)
        shown = now.published(gpu) if now is not None and names is None else names or ()
        return "+".join(sorted({mode for name in shown if (mode := of_gpu.mode_of(name)) is not None})) or "nothing"

    def _fits_published(self, pod: Waiting, case: Case) -> bool:
        """Take what serves the pod of what is published, if that is on some node."""
        if pod.kind in self._nothing_published:
            return False
        for name, node in self._nodes.items():
            if name in self._chosen or not self._would_fit(case, node, pod) or not self._may_be_on(pod, name):
                continue
            held = would_hold(self._cluster, self._cluster.index.view(node), pod)
            if held is not None:
                self._record(pod.uid, _Attempt(name, held, {}, 0))
                return True
        self._nothing_published.add(pod.kind)
        return False

    def _would_fit(self, case: Case, node: Node, pod: Waiting) -> bool:
        check()
        name = node.metadata.name
        is_as_known = name not in self._touched
        version = self._cluster.version(name)
        known = case.fits.get(name)
        if is_as_known and known is not None and known[0] == version and known[1] is node:
            return known[2]
        kind = case.likeness.of(node)
        answer = None if kind is None else case.kinds.get(kind)
        if answer is None:
            try:
                answer = would_hold(self._cluster, self._cluster.index.view(node), pod) is not None
            except AllocationError:
                answer = False
            if kind is not None:
                case.kinds[kind] = answer
        if is_as_known:
            case.fits[name] = (version, node, answer)
        return answer

    def _candidates(self, pod: Waiting, case: Case) -> Iterator[str]:
        """Yield the nodes on which a change is tried, the most promising first.

        First those that change anyway; then one node of each kind, those with the fewest free GPUs first, so that nodes
        with all of theirs stay as they are. Where that is in vain, the next round comes to others of these kinds, which
        may differ in what claims ask for.
        """
        changing = [self._last.get(pod.kind), *reversed(self._chosen)]
        first = list(dict.fromkeys(node for node in changing if node is not None))[:_CHANGING]
        yield from (node for node in first if self._may_be_on(pod, node))
        of_kinds = [self._possible(pod, case, names) for names in self._by_kind().values()]
        others = (node for node in chain.from_iterable(zip_longest(*of_kinds)) if node is not None)
        yield from islice(others, min(max(len(of_kinds), _FEWEST), _MOST))

    def _possible(self, pod: Waiting, case: Case, names: Sequence[str]) -> Iterator[str]:
        """Yield those of the nodes, as they were when the round began, on which a change may help."""
        for name in names:
            check()
            if name in self._chosen or case.in_vain.get(name) == self._cluster.version(name):
                continue
            if self._may_be_on(pod, name):
                yield name

    def _by_kind(self) -> dict[object, list[str]]:
        """Return the nodes with GPUs that could change, alike ones together, those with fewest such GPUs first."""
        if self._kinds is None:
            found: defaultdict[object, list[str]] = defaultdict(list)
            rooms: dict[object, int] = {}
            for name, node in self._nodes.items():
                check()
                room = self._memory.room(node)
                if room:
                    kind = self._kind(node)
                    found[kind].append(name)
                    rooms[kind] = room
            self._kinds = {kind: found[kind] for kind in sorted(found, key=lambda kind: rooms[kind])}
        return self._kinds

    def _kind(self, node: Node) -> object:
        pools = self._cluster.index.view(node).pools
        if any(pool.shape is None for pool in pools):
            return node.metadata.name
        return tuple((pool.shape, self._cluster.ledger.use(pool.id)) for pool in pools)

    def _attempt(self, node: str, pod: Waiting) -> _Attempt | None:
        """Let a few GPUs of a node change, and if that is not enough, more of them."""
        now = self._node_now(node)
        if now is None:
            return None
        wished = self._chosen[node].keys() if node in self._chosen else frozenset[DeviceName]()
        changeable = now.changeable()
        first = [gpu for gpu in changeable if gpu.gpu in wished]
        others = [gpu for gpu in changeable if gpu.gpu not in wished]

        def fits(number: int) -> tuple[Holding, ...] | None:
            check()
            changing = {gpu.gpu: frozenset(gpu.names) for gpu in (*first, *others[:number])}
            return self._fitting(now, changing, pod)

        held = next((found for number in ((0, 1) if wished else (1,)) if (found := fits(number)) is not None), None)
        if held is None and len(others) > 1:
            held = fits(len(others))  # if not even that is enough, fewer are not
            number = 2
            while held is not None and number < len(others):
                fewer = fits(number)
                if fewer is not None:
                    held = fewer
                    break
                number *= 2
        if held is None:
            return None
        taken = self._taken(now, held)
        changes = {gpu: names for gpu, names in taken.items() if not names <= now.opened(gpu)}
        return _Attempt(node, held, changes, len(changes.keys() - wished))

    def _fitting(
        self, now: NodeNow, changing: Mapping[DeviceName, frozenset[DeviceName]], pod: Waiting
    ) -> tuple[Holding, ...] | None:
        try:
            view = now.view(changing)
        except (AllocationError, InputError):
            return None
        return would_hold(self._cluster, view, pod, selections=now.selections)

    def _taken(self, now: NodeNow, held: Sequence[Holding]) -> dict[DeviceName, frozenset[DeviceName]]:
        """Return what of each of the node's GPUs is held."""
        found: defaultdict[DeviceName, set[DeviceName]] = defaultdict(set)
        for item in held:
            gpu = now.gpu_of(item.device)
            if gpu is not None:
                found[gpu.gpu].add(DeviceName(item.device.device))
        return {gpu: frozenset(names) for gpu, names in found.items()}

    def _record(self, uid: str, attempt: _Attempt) -> None:
        """Count what the pod would get as in use, and its changes as wished."""
        self._cluster.ledger.add(attempt.held)
        self._held += attempt.held
        self._touched.add(attempt.node)
        for gpu, names in attempt.changes.items():
            self._chosen[attempt.node][gpu][uid] = names

    def _set_of(
        self,
        now: NodeNow,
        node: str,
        gpu: GpuModes,
        chosen: frozenset[DeviceName],
        counted_on: frozenset[DeviceName],
    ) -> frozenset[DeviceName]:
        """Return all that should be published of a GPU, of which pods have chosen some devices.

        A pod of this round may count on a partition that is published already, and so has not chosen it.
        """
        if self._layout is not Layout.ONE or any(gpu.mode_of(name) != "mig" for name in chosen):
            return chosen  # beside what is published, where that is not one mode at a time
        former = self._former_set(node, gpu.gpu)
        preferred = (name for names in (chosen, former) for name in gpu.names if name in names)
        partitions = [name for name in (*preferred, *_more_of(chosen, gpu)) if gpu.mode_of(name) == "mig"]
        return fitting(gpu, partitions, now.in_use(gpu.gpu)) | counted_on

    def _former_set(self, node: str, gpu: DeviceName) -> frozenset[DeviceName]:
        return self._memory.sets.get(node, {}).get(gpu, frozenset())

    def _node_now(self, name: str) -> NodeNow | None:
        if name not in self._now:
            node = self._nodes.get(name)
            self._now[name] = None if node is None else self._memory.node_now(node)
        return self._now[name]

    def _may_be_on(self, pod: Waiting, name: str) -> bool:
        known = self._allowed.of(pod.places, dict[str, bool])
        answer = known.get(name)
        if answer is None:
            check()
            answer = known[name] = pod.may_be_on(name)
        return answer


def _more_of(chosen: frozenset[DeviceName], gpu: GpuModes) -> list[DeviceName]:
    """Return the other partitions of the chosen profiles, one of each profile in turn."""

    def profile(name: DeviceName) -> str:
        return name.rpartition("-")[0]  # the rest is where it is

    others = [[name for name in gpu.names if profile(name) == wanted] for wanted in sorted({*map(profile, chosen)})]
    return [name for name in chain.from_iterable(zip_longest(*others)) if name is not None]
