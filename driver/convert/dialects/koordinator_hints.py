"""Koordinator's annotations and label for all containers of a pod: joint allocation, hints, partitions, isolation.

Sources, of koordinator-sh/koordinator: apis/extension/device_share.go (the names and forms);
docs/proposals/scheduling/20230803-device-allocate-hint-apis.md (what they mean);
pkg/scheduler/plugins/deviceshare/device_allocator.go and devicehandler_default.go (what the scheduler does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from driver import DRIVER_NAME
from driver.bounded_json import JsonError, parse_json
from driver.convert.dialect import PodFacts, PodReading, Where
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import Near

_T = TypeVar("_T")

__all__ = ["HINT", "ISOLATION", "JOINT", "NAME", "PARTITION", "Hints", "TypeHints", "read_pod"]

NAME: Final = "Koordinator"
JOINT: Final = "scheduling.koordinator.sh/device-joint-allocate"
HINT: Final = "scheduling.koordinator.sh/device-allocate-hint"
PARTITION: Final = "scheduling.koordinator.sh/gpu-partition-spec"
ISOLATION: Final = "koordinator.sh/gpu-isolation-provider"

_MAX_BYTES: Final = 16 * 1024
"""Of an annotation. A hint of each kind for each type of device has some hundred."""
_TYPES: Final = ("gpu", "rdma", "fpga")
_SCOPES: Final[Mapping[str, str]] = {
    "PCIe": f"{DRIVER_NAME}/pcieSwitch",
    "NUMANode": f"{DRIVER_NAME}/numaNode",
    "Node": "",
    "": "",
}
_NVLINK: Final = f"{DRIVER_NAME}/nvlinkDomain"
_STRATEGIES: Final = ("", "ApplyForAll", "RequestsAsCount")
_POLICIES: Final = ("", "DeviceLevel", "PCIeLevel")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeHints:
    """The hint for one type of device.

    Attributes:
        is_vf: Whether virtual functions are wanted.
        strategy: ``ApplyForAll``, ``RequestsAsCount`` or empty.
        is_exclusive: Whether a device counted by ``RequestsAsCount`` is for the pod alone.
    """

    is_vf: bool = False
    strategy: str = ""
    is_exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What a pod's annotations and label say.

    Attributes:
        near: How near its GPUs and NICs are to be to each other.
        types: The hints by type of device.
        together: What must be the same for all its GPUs.
        strategy: How its shares are isolated; empty for not at all.
    """

    near: Near = Near.ANY
    types: Mapping[str, TypeHints] = field(default_factory=dict)
    together: tuple[str, ...] = ()
    strategy: str = ""

    def of(self, type_: str) -> TypeHints:
        """Return the hints for a type of device."""
        return self.types.get(type_, TypeHints())


class _Refused(Exception):  # noqa: N818 - it ends the reading of one annotation
    pass


@dataclass(slots=True)
class _Reader:
    facts: PodFacts
    findings: list[Finding] = field(default_factory=list)

    def say(self, name: str, outcome: Outcome, text: str, where: Where = Where.ANNOTATION) -> None:
        self.findings.append(self.facts.finding(NAME, where, name, outcome, text))

    def attempt(self, name: str, read: Callable[[_Reader], _T], otherwise: _T) -> _T:
        """Return what is read of an annotation; a refusal is a finding, once for each annotation."""
        try:
            return read(self)
        except _Refused as error:
            if not any(
                finding.outcome is Outcome.REFUSED and f"[{name}]" in finding.field for finding in self.findings
            ):
                self.say(name, Outcome.REFUSED, str(error))
            return otherwise

    def value(self, name: str) -> Mapping[str, Any] | None:
        """Return the object of an annotation; None where there is none."""
        text = self.facts.annotations.get(name)
        if text is None:
            return None
        try:
            value = parse_json(text, max_bytes=_MAX_BYTES)
        except JsonError as error:
            raise _Refused(f"cannot be read as JSON: {error}") from None
        if not isinstance(value, Mapping):
            raise _Refused("expected a JSON object")
        return value


def read_pod(facts: PodFacts) -> PodReading:
    """Read the annotations and the label; what cannot be read is REFUSED."""
    reader = _Reader(facts)
    scope, partition = reader.attempt(HINT, _scope, ""), reader.attempt(PARTITION, _partition, "")
    hints = Hints(
        near=reader.attempt(JOINT, _joint, Near.ANY),
        types=reader.attempt(HINT, _types, {}),
        together=tuple(filter(None, (scope, partition))),
        strategy=_isolation(reader),
    )
    return PodReading(hints=hints, findings=tuple(reader.findings), spans=hints.near is not Near.ANY)


def _joint(reader: _Reader) -> Near:
    value = reader.value(JOINT)
    if value is None:
        return Near.ANY
    types = value.get("deviceTypes") or []
    if not isinstance(types, list) or not all(type_ in _TYPES for type_ in types):
        raise _Refused(f"deviceTypes: expected a list of {', '.join(_TYPES)}")
    scope = value.get("requiredScope", "")
    if scope not in ("", "SamePCIe"):
        raise _Refused("requiredScope: expected SamePCIe, or none")
    if "gpu" not in types or "rdma" not in types:
        reader.say(JOINT, Outcome.NOTED, "joins no GPU with an RDMA NIC, so nothing is allocated together")
        return Near.ANY
    if "fpga" in types:
        reader.say(JOINT, Outcome.NOTED, "FPGAs are not allocated near to GPUs: write a constraint on pcieSwitch")
    if scope:
        reader.say(JOINT, Outcome.CONVERTED, f"each GPU and its NIC under one PCIe switch ({DRIVER_NAME}/pcieSwitch)")
        return Near.SWITCH
    reader.say(JOINT, Outcome.CONVERTED, "the nearest NIC: under the GPU's PCIe switch, its root, its NUMA node, any")
    return Near.PREFERRED


def _types(reader: _Reader) -> Mapping[str, TypeHints]:
    value = reader.value(HINT)
    if value is None:
        return {}
    read = {type_: _type(type_, hint) for type_, hint in value.items() if hint is not None}
    if any(hint.get("exclusivePolicy") == "PCIeLevel" for hint in value.values() if hint):
        text = (
            "PCIeLevel has no equal: other pods may get the other devices under the PCIe switch. To keep them away, ask"
            " for all devices of the switch"
        )
        reader.say(HINT, Outcome.NOTED, text)
    else:
        reader.say(HINT, Outcome.CONVERTED, "read into the claim: VFs, number and scope of the devices")
    return read


def _type(type_: str, hint: object) -> TypeHints:
    if type_ not in _TYPES:
        raise _Refused(f"{type_[:32]!r} is no type of device: expected {', '.join(_TYPES)}")
    if not isinstance(hint, Mapping):
        raise _Refused(f"{type_}: expected an object")
    for name in ("selector", "vfSelector"):
        if hint.get(name):
            raise _Refused(
                f"{type_}.{name} selects by labels of Koordinator's Device objects, which Rootport's devices do not"
                " have: leave it out, and select by what the devices have in the claim (docs/user/attributes.md)"
            )
    strategy, policy = (
        _one_of(hint, type_, "allocateStrategy", _STRATEGIES),
        _one_of(hint, type_, "exclusivePolicy", _POLICIES),
    )
    return TypeHints(is_vf=hint.get("vfSelector") is not None, strategy=strategy, is_exclusive=policy == "DeviceLevel")


def _one_of(hint: Mapping[str, Any], type_: str, name: str, known: tuple[str, ...]) -> str:
    value = hint.get(name, "")
    if not isinstance(value, str) or value not in known:
        raise _Refused(f"{type_}.{name}: expected {' or '.join(filter(None, known))}")
    return value


def _scope(reader: _Reader) -> str:
    value = reader.value(HINT)
    hint = value.get("gpu") if value else None
    scope = hint.get("requiredTopologyScope", "") if isinstance(hint, Mapping) else ""
    if not isinstance(scope, str) or scope not in _SCOPES:
        raise _Refused(f"gpu.requiredTopologyScope: expected {', '.join(filter(None, _SCOPES))}")
    return _SCOPES[scope]


def _partition(reader: _Reader) -> str:
    value = reader.value(PARTITION)
    if value is None:
        return ""
    policy = value.get("allocatePolicy") or "BestEffort"
    if policy not in ("BestEffort", "Restricted"):
        raise _Refused("allocatePolicy: expected BestEffort or Restricted")
    if policy == "Restricted":
        # Koordinator has tables for machines with NVSwitches, which have no nvlinkPair and nvlinkQuad.
        text = (
            "the GPUs are joined by NVLink (nvlinkDomain); on machines without NVSwitches nvlinkPair, nvlinkQuad and"
            " nvlinkOctet ask for the best of them"
        )
    else:
        text = (
            "kube-scheduler takes the first GPUs that fit, which are the best linked ones on a free node; to prefer or"
            f" require them, match {_NVLINK} or a group in it in the claim (examples/best-linked-gpus.yaml)"
        )
    if value.get("ringBusBandwidth") is not None:
        text += "; ringBusBandwidth has no equal"
    reader.say(PARTITION, Outcome.NOTED, text)
    return _NVLINK if policy == "Restricted" else ""


def _isolation(reader: _Reader) -> str:
    provider = reader.facts.labels.get(ISOLATION)
    if provider is None:
        return ""
    # Koordinator's documentation writes hami-core as well as HAMi-core.
    if provider.lower() == "hami-core":
        reader.say(ISOLATION, Outcome.CONVERTED, "the strategy hamiCore for shares of GPUs", Where.LABEL)
        return "hamiCore"
    text = "no strategy of Rootport: the share is not limited, choose one (docs/user/gpu-sharing.md)"
    reader.say(ISOLATION, Outcome.NOTED, text, Where.LABEL)
    return ""
