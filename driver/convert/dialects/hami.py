"""HAMi: vGPUs of NVIDIA's GPUs by ``nvidia.com/gpu`` with memory and core of each, and annotations on the pod.

Sources: Project-HAMi/HAMi v2.9, pkg/device/nvidia/device.go (GenerateResourceRequests, Fit, checkGPUtype,
mutateContainerResource), pkg/device/devices.go (CheckUUID), pkg/util/types.go, docs/config.md.
"""

from __future__ import annotations

from typing import Final

from driver.convert.dialect import Asked, Dialect, Meaning, PodFacts, PodNote, PodReading, Reading, Resource, Where
from driver.convert.dialects.vgpus import (
    MIB,
    NO_TYPE,
    STRATEGIES,
    USE_TYPE,
    VgpuHints,
    VgpuRules,
    mode_refusal,
    read_vgpus,
    wanted_models,
    wanted_uuids,
)
from driver.convert.findings import Finding, Outcome
from driver.layout import attributes

__all__ = ["HAMI"]

_NAME: Final = "HAMi"
_NUMBER: Final = "nvidia.com/gpu"
_USE_UUID: Final = "nvidia.com/use-gpuuuid"
_NO_UUID: Final = "nvidia.com/nouse-gpuuuid"
_NUMA: Final = "nvidia.com/numa-bind"
_MODE: Final = "nvidia.com/vgpu-mode"
_GPU_POLICY: Final = "hami.io/gpu-scheduler-policy"
_NODE_POLICY: Final = "hami.io/node-scheduler-policy"
_PRIORITY: Final = "nvidia.com/priority"

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""What Go's strconv.ParseBool takes for true."""

_RULES: Final = VgpuRules(
    system=_NAME,
    number=_NUMBER,
    core_above_all="is taken as 100 percent, which is what HAMi does",
    limits=(
        "HAMi's library keeps a container within its share; Rootport's default strategy limits nothing. Where nodes "
        "have the library, set the annotation nvidia.com/vgpu-mode: hami-core, or shareStrategy in the resource map"
    ),
)
_RESULT: Final = "was written by HAMi's scheduler: it leaves with the resources"

_POLICIES: Final = {
    "binpack": "kube-scheduler packs no devices; nothing is to be done",
    "spread": "kube-scheduler spreads no devices; for GPUs to itself leave memory and core out",
    "numa": "for GPUs of one NUMA node set nvidia.com/numa-bind, and the claim gets a constraint",
    "topology-aware": "for GPUs that NVLink joins match rootport.dev/nvlinkDomain or nvlinkPair in a constraint",
}
_MUTEX: Final = "mutex"


def _read(asked: Asked) -> Reading:
    hints = asked.hints if isinstance(asked.hints, VgpuHints) else VgpuHints()
    others = asked.all(Meaning.OTHER)
    notes = tuple(asked.noted(amount, "has no equal: programs on a GPU have no priorities") for amount in others)
    if len(others) == len(asked.amounts):
        return Reading(findings=tuple(asked.refused(amount, "is of a GPU, and none is asked for") for amount in others))
    reading = read_vgpus(asked, _RULES, hints)
    return Reading(request=reading.request, findings=reading.findings + notes)


def _read_pod(facts: PodFacts) -> PodReading:
    found = (
        wanted_models(_NAME, facts, USE_TYPE, negated=False),
        wanted_models(_NAME, facts, NO_TYPE, negated=True),
        wanted_uuids(_NAME, facts, _USE_UUID, negated=False),
        wanted_uuids(_NAME, facts, _NO_UUID, negated=True),
    )
    findings = [finding for _, finding in found if finding is not None]
    together: tuple[str, ...] = ()
    if _NUMA in facts.annotations:
        bound = facts.annotations[_NUMA] in _TRUE
        together = (attributes.STANDARD_NUMA_NODE,) if bound else ()
        text = f"a constraint, matchAttribute: {attributes.STANDARD_NUMA_NODE}" if bound else "binds nothing"
        findings.append(facts.finding(_NAME, Where.ANNOTATION, _NUMA, Outcome.CONVERTED, text))
    strategy, is_exclusive = _mode(facts, findings), _policy(facts, findings)
    wanted = tuple(each for each, _ in found if each is not None)
    hints = VgpuHints(wanted=wanted, together=together, strategy=strategy, is_exclusive=is_exclusive)
    return PodReading(hints=hints, findings=tuple(findings))


def _mode(facts: PodFacts, findings: list[Finding]) -> str:
    """Return the strategy of the mode that the pod wants; a GPU is in any of those that the text has in it."""
    written = facts.annotations.get(_MODE)
    if written is None:
        return ""
    strategy = next((ours for mode, ours in STRATEGIES.items() if mode in written), "")
    outcome, text = Outcome.CONVERTED, f"strategy {strategy}"
    if not strategy:
        outcome, text = Outcome.REFUSED, mode_refusal(_NAME, is_mig="mig" in written)
    findings.append(facts.finding(_NAME, Where.ANNOTATION, _MODE, outcome, text))
    return strategy


def _policy(facts: PodFacts, findings: list[Finding]) -> bool:
    """Note what the policy says; return whether the pod wants GPUs that nobody else uses."""
    written = facts.annotations.get(_GPU_POLICY)
    if written is None:
        return False
    names = [part.strip() for part in written.split(",")]
    if _MUTEX in names:
        text = "whole GPUs: HAMi gives it those that nobody uses, and others may share them later"
        findings.append(facts.finding(_NAME, Where.ANNOTATION, _GPU_POLICY, Outcome.NOTED, text))
        return True
    text = "; ".join(_POLICIES[name] for name in names if name in _POLICIES) or "no policy that HAMi knows"
    findings.append(facts.finding(_NAME, Where.ANNOTATION, _GPU_POLICY, Outcome.NOTED, f"has no equal: {text}"))
    return False


HAMI: Final = Dialect(
    name=_NAME,
    source="Project-HAMi/HAMi v2.9: pkg/device/nvidia/device.go, pkg/device/devices.go, docs/config.md",
    resources=(
        Resource(name=_NUMBER, meaning=Meaning.GPUS, shared=True),
        Resource(name="nvidia.com/gpumem", meaning=Meaning.MEMORY, unit=MIB),
        Resource(name="nvidia.com/gpumem-percentage", meaning=Meaning.MEMORY_PERCENT),
        Resource(name="nvidia.com/gpucores", meaning=Meaning.CORE),
        Resource(name=_PRIORITY, meaning=Meaning.OTHER),
    ),
    read=_read,
    read_pod=_read_pod,
    notes=(
        *(PodNote(name=name, leaves=True) for name in (USE_TYPE, NO_TYPE, _USE_UUID, _NO_UUID, _NUMA, _MODE)),
        PodNote(name=_GPU_POLICY, leaves=True),
        PodNote(
            name=_NODE_POLICY,
            text="has no equal: kube-scheduler's own scores choose the node",
            leaves=True,
        ),
        *(
            PodNote(name=f"hami.io/{name}", text=_RESULT, leaves=True)
            for name in (
                "vgpu-node",
                "vgpu-time",
                "bind-time",
                "bind-phase",
                "vgpu-devices-to-allocate",
                "vgpu-devices-allocated",
            )
        ),
    ),
    schedulers=frozenset({"hami-scheduler"}),
    scheduler_text=(
        "kube-scheduler allocates claims; HAMi's packing and spreading ends, and its quota by GPU memory: a"
        " ResourceQuota counts claims for gpu.rootport.dev, gpu-ratio.rootport.dev and mig.rootport.dev, each by itself"
    ),
)
