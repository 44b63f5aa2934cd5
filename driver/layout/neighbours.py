"""Finds GPUs that are joined by links, and among these the pairs, quads and octets with the most links.

On a hybrid mesh, such as a DGX-1's, all GPUs reach each other, but some pairs have two links, some one and some none.
So each domain is divided into nested groups: an octet consists of two quads, a quad of two pairs. NVIDIA's device
plugin chooses such sets when it allocates (NVIDIA/go-gpuallocator, gpuallocator/staticdgx_policies.go); a scheduler
that takes the first devices that fit has to find them in the devices' order and attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final, TypeAlias

from driver.model.devices import Device, Gpu, LinkKind
from driver.model.pci import PciAddress

__all__ = ["LinkGroups", "Place", "link_groups", "pcie_place"]

Place: TypeAlias = tuple[str, ...]
"""Where a device is, from its widest group to itself: devices of one group have a common beginning."""

_Members: TypeAlias = tuple[int, ...]
_Counts: TypeAlias = tuple[tuple[int, ...], ...]
_OCTET, _QUAD, _PAIR = 8, 4, 2
_MOST_GPUS: Final = 2 * _OCTET
"""Of a domain that is divided. GPUs that are linked directly are 16 at most: one has 36 links (NVML), mostly fewer."""
_MOST_TIES: Final = 16
"""Of ways to divide a domain into octets: a node may describe links of which each is as good as the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkGroups:
    """The groups of one GPU, each named by the lowest address in it.

    Attributes:
        domain: All GPUs that it reaches over links.
        octet: The best eight GPUs that it is one of; None without such a group, as for the following.
        quad: The best four.
        pair: The best two.
    """

    domain: PciAddress
    octet: PciAddress | None = None
    quad: PciAddress | None = None
    pair: PciAddress | None = None


def pcie_place(device: Device) -> Place:
    """Return a device's place in the PCIe tree: NUMA node, root, switches from the outermost in, address."""
    path = device.pcie
    numa_node = "" if path.numa_node is None else f"{path.numa_node:05}"
    return numa_node, path.root or "", *path.switches, device.address


def link_groups(gpus: Iterable[Gpu]) -> Mapping[PciAddress, LinkGroups]:
    """Return the groups of each GPU that has links.

    Links without a peer end at NVSwitches, which join all GPUs of the node that have such links. There any two GPUs are
    equally near, so the domain has no groups. Nor has a mesh of equal links smaller groups than itself.

    Otherwise octets have as many links inside as can be, then the quads in them, then the pairs in these; of equally
    good divisions, the one that keeps GPUs together that are near each other in the PCIe tree. What is left over when
    the number of GPUs is no power of two has smaller groups or none. Every group is connected by its own links.
    """
    known = {gpu.address: gpu for gpu in gpus if gpu.links}
    domains = _domains(known)
    members: dict[PciAddress, list[Gpu]] = {}
    for address, gpu in known.items():
        members.setdefault(domains[address], []).append(gpu)
    found: dict[PciAddress, LinkGroups] = {}
    for domain, joined in members.items():
        joined.sort(key=pcie_place)
        groups: dict[int, dict[int, PciAddress]] = {_OCTET: {}, _QUAD: {}, _PAIR: {}}
        for group in _groups(joined):
            name = min(joined[place].address for place in group)
            groups[len(group)].update(dict.fromkeys(group, name))
        for place, gpu in enumerate(joined):
            found[gpu.address] = LinkGroups(
                domain=domain,
                octet=groups[_OCTET].get(place),
                quad=groups[_QUAD].get(place),
                pair=groups[_PAIR].get(place),
            )
    return found


def _domains(known: Mapping[PciAddress, Gpu]) -> Mapping[PciAddress, PciAddress]:
    """Return for each GPU the lowest address among the GPUs that it reaches."""
    leader = {address: address for address in known}

    def find(address: PciAddress) -> PciAddress:
        while leader[address] != address:
            leader[address] = leader[leader[address]]
            address = leader[address]
        return address

    at_switch: dict[LinkKind, PciAddress] = {}
    for address, gpu in known.items():
        for link in gpu.links:
            peer = at_switch.setdefault(link.kind, address) if link.peer is None else link.peer
            if peer in known:
                low, high = sorted((find(address), find(peer)))
                leader[high] = low
    return {address: find(address) for address in known}


def _groups(joined: Sequence[Gpu]) -> tuple[_Members, ...]:
    """Return the groups of a domain by its GPUs' places in it."""
    at_switch = any(link.peer is None for gpu in joined for link in gpu.links)
    if at_switch or not _PAIR <= len(joined) <= _MOST_GPUS:
        return ()
    places = {gpu.address: place for place, gpu in enumerate(joined)}
    counts = [[0] * len(joined) for _ in joined]
    for place, gpu in enumerate(joined):
        for link in gpu.links:
            if link.peer in places and link.peer != gpu.address:
                counts[place][places[link.peer]] += link.count
    # A link has two ends; a source that sees only one of them is believed.
    ends = range(len(joined))
    return _divided(tuple(tuple(max(counts[a][b], counts[b][a]) for b in ends) for a in ends))


@lru_cache(maxsize=256)
def _divided(counts: _Counts) -> tuple[_Members, ...]:
    everyone = tuple(range(len(counts)))
    if len({counts[a][b] for a, b in combinations(everyone, 2)}) == 1:
        return (everyone,) if len(everyone) in {_OCTET, _QUAD, _PAIR} else ()
    return _best(counts, everyone, _OCTET)[1]


def _best(counts: _Counts, members: _Members, size: int) -> tuple[tuple[int, ...], tuple[_Members, ...]]:
    """Return the links inside the groups of each size from ``size`` on, and these groups."""
    if size < _PAIR:
        return (), ()
    choices = [(0, list[_Members]())]
    if len(members) >= size:
        choices = [(sum(_links(counts, group) for group in groups), groups) for groups in _choices(members, size)]
    most = max(links for links, _ in choices)
    best: tuple[tuple[int, ...], tuple[_Members, ...]] = (), ()
    ties = [choice for choice in choices if choice[0] == most]
    for links, groups in ties[:_MOST_TIES] if size == _OCTET else ties:
        rest = tuple(sorted(set(members).difference(*groups)))
        smaller = [_best(counts, part, size // 2) for part in (*groups, rest)]
        score = (links, *map(sum, zip(*(scores for scores, _ in smaller), strict=True)))
        if score > best[0]:
            own = tuple(group for group in groups if _links(counts, group))
            best = score, (*own, *(group for _, found in smaller for group in found))
    return best


def _choices(members: _Members, size: int) -> Iterator[list[_Members]]:
    """Yield each way to take as many groups of ``size`` as there can be: two at most."""
    if len(members) < 2 * size:
        yield from ([group] for group in combinations(members, size))
        return
    first, *others = members
    for with_first in combinations(others, size - 1):
        yield [(first, *with_first), tuple(sorted(set(others).difference(with_first)))]


def _links(counts: _Counts, group: _Members) -> int:
    """Return how many links the group has inside; none where these do not connect it."""
    ends = sum(sum(map(counts[place].__getitem__, group)) for place in group)
    if ends // 2 < len(group) - 1:
        return 0
    reached, waiting = {group[0]}, [group[0]]
    while waiting:
        row = counts[waiting.pop()]
        new = [place for place in group if row[place] and place not in reached]
        reached.update(new)
        waiting.extend(new)
    return ends // 2 if len(reached) == len(group) else 0
