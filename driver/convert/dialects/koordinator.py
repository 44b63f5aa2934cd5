"""Koordinator's device scheduling: GPUs by percent and memory, RDMA NICs and FPGAs by percent.

Sources, of koordinator-sh/koordinator: apis/extension/device_share.go and deprecated.go (the names, those of
``kubernetes.io`` are the older ones); pkg/scheduler/plugins/deviceshare/utils.go (which combinations are valid) and
devicehandler_gpu.go, devicehandler_default.go (how many devices they are); pkg/koordlet/runtimehooks/hooks/gpu/gpu.go
(what containers see). Its scheduler adds up what all containers of a pod ask for; here each gets its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from driver.api.quantity import Quantity
from driver.convert.dialect import Amount, Asked, Dialect, Meaning, PodNote, Reading, Resource, Where
from driver.convert.dialects.koordinator_hints import HINT, ISOLATION, JOINT, NAME, PARTITION, Hints, read_pod
from driver.convert.dialects.nvidia import whole_gpus
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest, FpgaRequest, GpuRequest, Near, NicRequest

__all__ = ["KOORDINATOR", "RESERVATION", "is_reservation"]

_T = TypeVar("_T")

_WHOLE: Final = 100
_GPU_MEANINGS: Final = frozenset(
    {
        Meaning.GPUS,
        Meaning.GPU_CARDS,
        Meaning.CORE,
        Meaning.MEMORY,
        Meaning.MEMORY_PERCENT,
        Meaning.BOTH_PERCENT,
    }
)
_VALID: Final = frozenset(
    {
        frozenset({Meaning.GPUS}),
        frozenset({Meaning.BOTH_PERCENT}),
        *(
            frozenset({memory, *others})
            for memory in (Meaning.MEMORY, Meaning.MEMORY_PERCENT)
            for others in ((), (Meaning.CORE,), (Meaning.GPU_CARDS,), (Meaning.CORE, Meaning.GPU_CARDS))
        ),
    }
)
"""What may stand together in one request (utils.go, ValidDeviceResourceCombinations)."""


class _Refused(Exception):  # noqa: N818 - it ends the reading of one type of device
    def __init__(self, amount: Amount, text: str) -> None:
        super().__init__(text)
        self.amount = amount


@dataclass(slots=True)
class _Reader:
    asked: Asked
    hints: Hints
    findings: list[Finding] = field(default_factory=list)

    def note(self, amount: Amount, text: str) -> None:
        self.findings.append(self.asked.noted(amount, text))

    def attempt(self, read: Callable[[_Reader], Sequence[_T]]) -> tuple[_T, ...]:
        """Return what is read of one type of device; nothing where it is refused."""
        try:
            return tuple(read(self))
        except _Refused as error:
            self.findings.append(self.asked.refused(error.amount, str(error)))
            return ()


def _read(asked: Asked) -> Reading:
    hints = asked.hints if isinstance(asked.hints, Hints) else Hints()
    reader = _Reader(asked, hints)
    gpus = reader.attempt(_gpus)
    nics = reader.attempt(_nics)
    fpgas = reader.attempt(_fpgas)
    request = DeviceRequest(gpus=gpus, nics=nics, fpgas=fpgas, near=hints.near, nic_each=hints.near is not Near.ANY)
    _note_nic_each(reader, request)
    return Reading(request=request, findings=tuple(reader.findings))


def _gpus(reader: _Reader) -> Sequence[GpuRequest]:
    amounts = [amount for amount in reader.asked.amounts if amount.resource.meaning in _GPU_MEANINGS]
    if not amounts:
        return ()
    by_meaning = {amount.resource.meaning: amount for amount in amounts}
    names = ", ".join(amount.name for amount in amounts)
    if len(by_meaning) < len(amounts) or frozenset(by_meaning) not in _VALID:
        raise _Refused(
            amounts[0],
            f"Koordinator does not schedule a request for {names}: write gpu alone, or gpu-memory or gpu-memory-ratio,"
            " with or without gpu-core, with or without gpu.shared",
        )
    if Meaning.GPUS in by_meaning:
        return _cards(reader, by_meaning[Meaning.GPUS])
    return (_share(reader, by_meaning),)


def _cards(reader: _Reader, amount: Amount) -> Sequence[GpuRequest]:
    count, said = whole_gpus(reader.asked, amount)
    reader.findings += said
    return (GpuRequest(count=count, vendor=amount.resource.vendor, together=reader.hints.together),) if count else ()


def _share(reader: _Reader, amounts: dict[Meaning, Amount]) -> GpuRequest:
    both = amounts.get(Meaning.BOTH_PERCENT)
    core, ratio = amounts.get(Meaning.CORE, both), amounts.get(Meaning.MEMORY_PERCENT, both)
    memory, cards = amounts.get(Meaning.MEMORY), amounts.get(Meaning.GPU_CARDS)
    if cards is not None:
        count = cards.value
        for amount in (core, ratio, memory):
            if amount is not None and amount.value % count:
                raise _Refused(amount, f"is spread over {count} GPUs ({cards.name}): expected a multiple of {count}")
    else:
        for amount in filter(None, (core, ratio)):
            if amount.value > _WHOLE and amount.value % _WHOLE:
                raise _Refused(
                    amount, f"{amount.value} percent: above 100 expected a multiple of 100, which is so many whole GPUs"
                )
        count = _cards_of_percent(ratio, core, memory)
    for amount in filter(None, (core, ratio)):
        if amount.value // count > _WHOLE:
            raise _Refused(
                amount, f"{amount.value // count} percent of one GPU: no GPU has more than 100; write gpu.shared"
            )
    request = GpuRequest(
        count=count,
        core=(core.value // count or None) if core is not None else None,
        memory=memory.value // count if memory is not None else None,
        memory_percent=ratio.value // count if ratio is not None else None,
        strategy=reader.hints.strategy,
        together=reader.hints.together,
    )
    asked = ratio or memory
    if request.core is None and request.is_share and asked is not None:
        reader.note(
            asked,
            "Koordinator neither counts nor limits compute here: the claim has no core, so that memory decides how"
            " many share a GPU; write the core it needs if it is to be counted",
        )
    return request


def _cards_of_percent(ratio: Amount | None, core: Amount | None, memory: Amount | None) -> int:
    """Return how many GPUs percentages above 100 are.

    With memory in bytes, compute says it: the versions up to 1.4 divided the bytes by the memory of a node's GPUs, and
    newer ones do not schedule such a pod.
    """
    if ratio is not None:
        return max(ratio.value // _WHOLE, 1)
    if core is None or memory is None:
        return 1
    count = max(core.value // _WHOLE, 1)
    if memory.value % count:
        raise _Refused(memory, f"is spread over {count} GPUs ({core.name}): expected a multiple of {count}")
    return count


def _nics(reader: _Reader) -> Sequence[NicRequest]:
    amounts = reader.asked.all(Meaning.NICS)
    if not amounts:
        return ()
    amount, count, percent = _devices(reader, amounts, "rdma")
    is_vf = reader.hints.of("rdma").is_vf
    bandwidth = ratio = None
    is_alone = reader.hints.near is Near.ANY
    if is_vf and 1 < percent < _WHOLE:  # 1 is how Koordinator's users write any VF
        reader.note(
            amount,
            f"{percent} percent of a NIC beside a VF: the claim takes a VF and reserves no bandwidth; write bandwidth"
            " or bandwidthRatio, whichever the pools of your VFs have",
        )
    elif percent < _WHOLE and not is_vf and is_alone:
        ratio = percent
        reader.note(
            amount,
            f"{percent} percent of a NIC, as bandwidthRatio: {percent}: nothing limits it, it is counted so that pods"
            " share the NIC. It fits NICs that are published by percent, and others where percentages are rewritten"
            " (docs/user/rdma.md); else write bandwidth",
        )
    elif percent < _WHOLE and not is_vf:
        bandwidth = reader.asked.pod.settings.nic_bandwidth * percent // _WHOLE
        reader.note(
            amount,
            f"{percent} percent of a NIC: as bandwidth, {Quantity.of(bandwidth)} bits per second; nothing limits it, it"
            " is counted so that pods share the NIC. Write what your NICs have",
        )
    is_whole = percent == _WHOLE and not is_vf
    speed = reader.asked.pod.settings.nic_bandwidth if is_whole else None
    return (NicRequest(count=count, is_vf=is_vf, bandwidth=bandwidth, bandwidth_percent=ratio, speed=speed),)


def _fpgas(reader: _Reader) -> Sequence[FpgaRequest]:
    amounts = reader.asked.all(Meaning.FPGAS)
    if not amounts:
        return ()
    amount, count, percent = _devices(reader, amounts, "fpga")
    if percent < _WHOLE:
        reader.note(amount, f"{percent} percent of an FPGA: Rootport gives whole FPGAs, so the claim takes all of it")
    return (FpgaRequest(count=count),)


def _devices(reader: _Reader, amounts: Sequence[Amount], type_: str) -> tuple[Amount, int, int]:
    """Return how many devices are asked for, 0 for all of a node, and what percentage of each."""
    amount, hint = amounts[0], reader.hints.of(type_)
    if len(amounts) > 1:
        raise _Refused(amounts[1], f"asks for the same as {amount.name}: write one of them")
    if amount.value > _WHOLE:
        if amount.value % _WHOLE:
            raise _Refused(amount, f"{amount.value} percent: above 100 expected a multiple of 100, so many devices")
        return amount, amount.value // _WHOLE, _WHOLE
    if hint.strategy == "ApplyForAll":
        return amount, 0, amount.value
    if hint.strategy == "RequestsAsCount":
        return amount, amount.value, _WHOLE if hint.is_exclusive else 1
    return amount, 1, amount.value


def _note_nic_each(reader: _Reader, request: DeviceRequest) -> None:
    if not (request.nic_each and request.gpus and request.nics):
        return
    gpus, nics = request.gpus[0].count, request.nics[0].count
    if 0 < nics < gpus:
        reader.note(reader.asked.all(Meaning.NICS)[0], _nic_each_text(request, gpus))


def _nic_each_text(request: DeviceRequest, gpus: int) -> str:
    text = "Koordinator gives a NIC for each PCIe switch that has one of the GPUs: "
    if request.near is Near.SWITCH and request.nics[0].speed is not None:
        text += (
            f"each of the {gpus} GPUs gets a share of a NIC's bandwidth under its switch, so that GPUs under one switch"
            " share its NIC. The rest of that NIC can be given to other claims;"
        )
    else:
        text += f"the claim asks for one for each of the {gpus} GPUs."
    return f"{text} for nodes that you know, `rootport pairs --gpus {gpus} --nic-per switch` writes one with whole NICs"


def _resources() -> tuple[Resource, ...]:
    meanings = {
        "gpu": Meaning.BOTH_PERCENT,
        "gpu.shared": Meaning.GPU_CARDS,
        "gpu-core": Meaning.CORE,
        "gpu-memory": Meaning.MEMORY,
        "gpu-memory-ratio": Meaning.MEMORY_PERCENT,
        "rdma": Meaning.NICS,
        "fpga": Meaning.FPGAS,
    }
    own = [
        Resource(name=f"{domain}/{name}", meaning=meaning)
        for domain in ("koordinator.sh", "kubernetes.io")
        for name, meaning in meanings.items()
    ]
    return (
        *own,
        *(
            Resource(name=name, meaning=Meaning.GPUS, shared=True, vendor=vendor)
            for name, vendor in (("nvidia.com/gpu", "nvidia"), ("amd.com/gpu", "amd"))
        ),
    )


_QUOTA: Final = (
    "kube-scheduler does not know Koordinator's ElasticQuota: count claims in a ResourceQuota"
    " (gpu., gpu-ratio. and mig.rootport.dev.deviceclass.resource.k8s.io/devices: all three), or use Kueue"
)
_GANG: Final = (
    "kube-scheduler schedules the pods of this gang one by one: use Kueue, JobSet with Kueue, or Kubernetes' own gang"
    " scheduling where the cluster has it"
)
RESERVATION: Final = (
    "reservations hold no claims: a ResourceClaim that pods name, instead of a template, keeps its devices from its"
    " first pod to its last"
)
_QOS: Final = (
    "Koordinator's CPU and memory QoS goes on where koordlet runs; for order of scheduling use a PriorityClass"
)
_PREEMPTION: Final = "kube-scheduler preempts by PriorityClass, and no pod for the devices of a claim"


def is_reservation(data: Mapping[str, Any]) -> bool:
    """Whether an object is a Reservation, whose pod template is of no pod (apis/scheduling/v1alpha1)."""
    version = data.get("apiVersion")
    return (
        data.get("kind") == "Reservation"
        and isinstance(version, str)
        and version.startswith("scheduling.koordinator.sh/")
    )


KOORDINATOR: Final = Dialect(
    name=NAME,
    source=(
        "koordinator-sh/koordinator: apis/extension, pkg/scheduler/plugins/deviceshare,"
        " docs/proposals/scheduling/20230803-device-allocate-hint-apis.md; koordinator.sh, Device Scheduling - GPU/RDMA"
    ),
    resources=_resources(),
    read=_read,
    read_pod=read_pod,
    notes=(
        PodNote(name=JOINT, leaves=True),
        PodNote(name=HINT, leaves=True),
        PodNote(name=PARTITION, leaves=True),
        PodNote(name=ISOLATION, where=Where.LABEL),
        PodNote(
            name="scheduling.koordinator.sh/device-allocated",
            text="a result of Koordinator's scheduler, not a request: the claim's status has the devices",
            leaves=True,
            outcome=Outcome.CONVERTED,
        ),
        PodNote(name="quota.scheduling.koordinator.sh/preemptible", where=Where.LABEL, text=_PREEMPTION),
        PodNote(name="quota.scheduling.koordinator.sh/*", where=Where.LABEL, text=_QUOTA),
        PodNote(name="gang.scheduling.koordinator.sh/*", text=_GANG),
        PodNote(name="pod-group.scheduling.sigs.k8s.io*", where=Where.LABEL, text=_GANG),
        PodNote(name="scheduling.koordinator.sh/reservation-*", text=RESERVATION),
        PodNote(name="scheduling.koordinator.sh/exact-match-reservation", text=RESERVATION),
        PodNote(name="scheduling.koordinator.sh/reservation-*", where=Where.LABEL, text=RESERVATION),
        PodNote(name="scheduling.koordinator.sh/preemption-policy", where=Where.LABEL, text=_PREEMPTION),
        PodNote(name="scheduling.koordinator.sh/disable-preemptible", where=Where.LABEL, text=_PREEMPTION),
        PodNote(name="koordinator.sh/qosClass", where=Where.LABEL, text=_QOS),
        PodNote(name="koordinator.sh/priority", where=Where.LABEL, text=_QOS),
    ),
    schedulers=frozenset({"koord-scheduler"}),
    scheduler_text=(
        "kube-scheduler allocates claims; what koord-scheduler did beside (quota, gangs, reservations, load) ends"
    ),
    several_text=(
        "Koordinator shows all GPUs of the pod to every container of it; with claims a container has what it asks for"
        " itself, and one that asks for none has none"
    ),
)
