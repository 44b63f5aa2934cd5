"""Collects the names and values that there are, and finds which of them a wrong one was meant to be.

Of what is published; and, for what a node may publish that none does now, of what Rootport's layout can publish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from driver import DRIVER_NAME
from driver.api.resource_v1 import Device, DeviceAttribute
from driver.config.gpu_classes import SHARED_GPU_CLASSES
from driver.layout import attributes as published
from driver.model.devices import DeviceType
from driver.spelling import alike, close_matches, is_one_domain, is_part, nearest, plain

__all__ = [
    "CAPACITIES",
    "OWN_ATTRIBUTES",
    "OWN_CAPACITIES",
    "OWN_CLASSES",
    "Vocabulary",
    "attribute_text",
    "kinds_with_capacity",
    "misspelled_class",
    "of_other_kinds",
    "suggest",
]

_OWN_CAPACITY_NAMES: Final = frozenset(
    {"BANDWIDTH", "BANDWIDTH_RATIO", "CORE", "MEMORY", "MEMORY_RATIO", "SHARES", "VFS"}
)


def _full(name: str, driver: str = DRIVER_NAME) -> str:
    return name if "/" in name else f"{driver}/{name}"


OWN_ATTRIBUTES: Final[frozenset[str]] = frozenset(
    _full(getattr(published, name)) for name in published.__all__ if name not in _OWN_CAPACITY_NAMES
)
"""Full names of the attributes that Rootport can publish (docs/user/attributes.md)."""

OWN_CAPACITIES: Final[frozenset[str]] = frozenset(_full(getattr(published, name)) for name in _OWN_CAPACITY_NAMES)
"""Full names of the capacities that Rootport can publish."""

CAPACITIES: Final[Mapping[DeviceType, frozenset[str]]] = {
    kind: frozenset(map(_full, names))
    for kind, names in {
        DeviceType.GPU: (published.CORE, published.MEMORY, published.SHARES),
        DeviceType.GPU_RATIO: (published.CORE, published.MEMORY_RATIO, published.SHARES),
        DeviceType.MIG: (published.MEMORY,),
        DeviceType.RDMA: (published.BANDWIDTH, published.BANDWIDTH_RATIO),
        DeviceType.RDMA_VF: (published.VFS, published.BANDWIDTH, published.BANDWIDTH_RATIO),
        DeviceType.FPGA: (),
    }.items()
}
"""Full names of the capacities that a device of a kind may have."""

OWN_CLASSES: Final[frozenset[str]] = frozenset(
    {f"{kind}.{DRIVER_NAME}" for kind in DeviceType} | SHARED_GPU_CLASSES.keys()
)
"""The DeviceClasses that Rootport is installed with: one for each type of device."""

# What people write who know other drivers or tools, where spelling alone does not lead there.
_OTHER_WORDS: Final[Mapping[str, str]] = {
    "cores": "core",
    "computecapability": "cudaComputeCapability",
    "gpumemory": "memory",
    "memorybytes": "memory",
    "node": "numaNode",
    "numa": "numaNode",
    "productname": "model",
    "product": "model",
    "pci": "pciBusID",
    "pciaddress": "pciBusID",
    "pcieroot": "pcieRoot",
    "speed": "linkSpeed",
    "switch": "pcieSwitch",
    "vram": "memory",
}
_BANDWIDTHS: Final = frozenset({_full(published.BANDWIDTH), _full(published.BANDWIDTH_RATIO)})
_SHORTEST_PART: Final = 3
_SURELY_NEAR: Final = 0.75
_MOST_COMPARED: Final = 2000
"""How many values difflib looks at: it takes 20 µs each, and serial numbers are as many as devices."""


class Vocabulary:
    """Names and values of devices, with how many devices have them.

    Attributes:
        devices: How many devices there are, by driver.
        attributes: How many devices have an attribute, by its full name (``rootport.dev/model``).
        capacities: Likewise for capacities.
        classes: Names of DeviceClasses.
    """

    def __init__(self, classes: Collection[str] = ()) -> None:
        self.devices: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.capacities: Counter[str] = Counter()
        self.classes: frozenset[str] = frozenset(classes)
        # By name, then by value; texts are made when asked for.
        self._values: dict[str, Counter[int]] = {}
        self._objects: dict[int, DeviceAttribute] = {}

    @classmethod
    def of(cls, devices: Iterable[tuple[str, Device]], classes: Collection[str] = ()) -> Vocabulary:
        """Return the vocabulary of what is published; takes about 2 µs a device where equal values are one object.

        Args:
            devices: Each with the driver that publishes it, whose domain its short names have.
            classes: Names of DeviceClasses.
        """
        found = cls(classes)
        counted: dict[str, Counter[tuple[str, int]]] = {}
        capacities: dict[str, Counter[str]] = {}
        for driver, device in devices:
            of_driver = counted.get(driver)
            if of_driver is None:
                of_driver = counted[driver] = Counter()
                capacities[driver] = Counter()
            found.devices[driver] += 1
            values = device.attributes.values()
            found._objects.update(zip(map(id, values), values, strict=True))
            of_driver.update(zip(device.attributes, map(id, values), strict=True))
            capacities[driver].update(device.capacity.keys())
        for driver, of_driver in counted.items():
            for (name, value), count in of_driver.items():
                full = _full(name, driver)
                found.attributes[full] += count
                found._values.setdefault(full, Counter())[value] += count
            for name, count in capacities[driver].items():
                found.capacities[_full(name, driver)] += count
        return found

    def values(self, attribute: str) -> tuple[tuple[str, int], ...]:
        """Return the values of an attribute as texts, with how many devices have each, the most frequent first.

        Args:
            attribute: Its full name.
        """
        texts: Counter[str] = Counter()
        for value, count in self._values.get(attribute, {}).items():
            texts[attribute_text(self._objects[value])] += count
        return tuple(sorted(texts.items(), key=lambda item: (-item[1], item[0])))

    def knows_attribute(self, name: str) -> bool:
        """Whether a device has an attribute of that full name, or Rootport could publish one."""
        return name in self.attributes or name in OWN_ATTRIBUTES

    def suggest_attribute(self, name: str) -> str | None:
        """Return the full name of the attribute that was meant; None where ``name`` is one, or none is near.

        Args:
            name: A full name; without a domain, any domain will do.
        """
        if self.knows_attribute(name):
            return None
        # What is published is meant rather than what could be.
        return suggest(name, self.attributes) or suggest(name, OWN_ATTRIBUTES)

    def suggest_capacity(self, name: str) -> str | None:
        """Return the capacity that was meant, in the form of ``name``: with a domain or without.

        In a claim's ``capacity.requests`` a short name is the one that the device has.
        """
        short = "/" not in name
        both = [
            {full.partition("/")[2] for full in known} if short else set(known)
            for known in (self.capacities, OWN_CAPACITIES)
        ]
        # A name that Rootport has means what it says: 50 of bandwidthRatio are not 50 of bandwidth.
        if any(name in names for names in both):
            return None
        for names in both:
            near = suggest(name, names)
            if near is not None:
                return near
        return None

    def suggest_value(self, attribute: str, value: str) -> str | None:
        """Return the value of an attribute that was meant; None where a device has ``value``, or none is near.

        Args:
            attribute: Its full name.
            value: A text; a number as CEL writes it.
        """
        known = [text for text, _ in self.values(attribute)]
        if value in known:
            return None
        same = alike(value, known)
        if same is not None:
            return same
        # "H100" is meant where "NVIDIA H100 80GB HBM3" is the one that has it.
        wanted = plain(value)
        if len(wanted) >= _SHORTEST_PART:
            containing = [text for text in known if wanted in plain(text) or is_part(plain(text), wanted)]
            if containing:
                return containing[0]
        return nearest(value, known[:_MOST_COMPARED])

    def suggest_class(self, name: str) -> str | None:
        """Return the DeviceClass of its domain that was meant; None if ``name`` exists or should, or none is near."""
        if name in self.classes or name in OWN_CLASSES:
            return None
        known = [text for text in sorted(self.classes) if is_one_domain(name, text)]
        by_start = {text.partition(".")[0]: text for text in reversed(known)}
        return alike(name, known) or by_start.get(name.partition(".")[0].lower()) or nearest(name, known)

    def class_hint(self, name: str) -> str:
        """Write a hint about a DeviceClass that is not there; empty where nothing is known of it."""
        if name in OWN_CLASSES:
            return f"{name} is one of Rootport's own: kubectl apply -k resourceclasses/ makes it"
        meant = self.suggest_class(name)
        return f"did you mean {meant}?" if meant is not None else ""


def misspelled_class(name: str, known: Collection[str]) -> str | None:
    """Return the DeviceClass that is surely meant, also where there may be classes that are not known; or None.

    :meth:`Vocabulary.suggest_class` finds more: it is for names that no class has.
    """
    near = close_matches(name.lower(), sorted(known), cutoff=_SURELY_NEAR)
    return near[0] if near and is_one_domain(name, near[0]) else None


def suggest(name: str, known: Collection[str]) -> str | None:
    """Return the name that was meant: by case and separators, by a wrong domain, by another word, by spelling.

    Args:
        name: A name, with its domain or without.
        known: All that there are, in any order.
    """
    domain, _, short = name.rpartition("/")
    names = sorted(known)
    # Of equals, one of the domain that was written.
    names.sort(key=lambda text: text.rpartition("/")[0] != domain)
    same = alike(name, names)
    if same is not None:
        return same
    shorts = [text.rpartition("/")[2] for text in names]
    meant = alike(short, shorts) or alike(_OTHER_WORDS.get(plain(short), ""), shorts)
    if meant is None:
        near = nearest(short, shorts)
        wanted = plain(short)
        parts = [text for text in shorts if is_part(plain(text), wanted)]
        longer = [text for text in shorts if len(wanted) >= _SHORTEST_PART and plain(text).startswith(wanted)]
        # "gpuModel" is a model; the longest name that is in it says most. "mem" is the one that begins so.
        meant = max(parts, key=len, default=longer[0] if len(set(longer)) == 1 else near)
    return None if meant is None else names[shorts.index(meant)]


def of_other_kinds(
    name: str, of_kind: Collection[str], anywhere: Mapping[DeviceType, frozenset[str]]
) -> tuple[str, str] | None:
    """Return a name that devices of other kinds have, as it is spelled, and ``gpu-ratio devices have it``; else None.

    Args:
        name: A full name, perhaps misspelled.
        of_kind: What the devices in question have, by full names.
        anywhere: What devices of each kind have.
    """
    # Its spelling may be the lesser mistake: memoryratio, of a class whose devices have no memoryRatio either.
    same = alike(name, of_kind) or alike(name, frozenset().union(*anywhere.values())) or name
    others = sorted(kind.value for kind, names in anywhere.items() if same in names)
    return (same, f"{', '.join(others)} devices have it") if others and same not in of_kind else None


def kinds_with_capacity(name: str, of_kind: Collection[str], types: Collection[str]) -> str:
    """Return which of Rootport's devices have a capacity that some lack: ``gpu-ratio devices have it``; empty for none.

    Args:
        name: As a request names it.
        of_kind: What the devices in question have, as they publish it.
        types: Their types. Devices of one of these have it unless its value is not known.
    """
    nics = {DeviceType.RDMA.value, DeviceType.RDMA_VF.value}
    if _full(name) in _BANDWIDTHS and _BANDWIDTHS & {*map(_full, of_kind)} and nics.issuperset(types):
        return "a NIC has one of the two, by its policy, and bandwidthRatio where its speed is not known"
    if own := sorted(kind.value for kind, names in CAPACITIES.items() if kind in types and _full(name) in names):
        return f"{', '.join(own)} devices have it where it is known"
    found = of_other_kinds(_full(name), [_full(text) for text in of_kind], CAPACITIES)
    return found[1] if found is not None and found[0] == _full(name) else ""


def attribute_text(value: DeviceAttribute) -> str:
    """Return the value as plain text: of a string the string itself."""
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        return str(value.int_value)
    if value.bool_value is not None:
        return "true" if value.bool_value else "false"
    if value.version_value is not None:
        return value.version_value
    lists = (value.int_values, value.bool_values, value.string_values, value.version_values)
    return str(list(next((items for items in lists if items is not None), ())))
