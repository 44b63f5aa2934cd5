"""What HAMi and Volcano have in common: so many vGPUs of the same memory and core each, and annotations on models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from driver.convert.dialect import Amount, Asked, Meaning, PodFacts, Reading, Where
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest, GpuRequest, Match, Wanted
from driver.layout import attributes

__all__ = [
    "ALL",
    "MIB",
    "NOT_COUNTED",
    "NO_TYPE",
    "NVIDIA_GPUS",
    "STRATEGIES",
    "USE_TYPE",
    "VgpuHints",
    "VgpuRules",
    "mode_refusal",
    "read_vgpus",
    "wanted_models",
    "wanted_uuids",
]

ALL: Final = 100
"""Percent: all of a GPU's core or memory."""

NVIDIA_GPUS: Final = "nvidia"
"""The attribute ``vendor`` of the GPUs that these systems share."""

NOT_COUNTED: Final = (
    "; compute is neither counted nor limited: the claim has no core, so that memory decides how many share a GPU"
)
"""Of a share that names no core, for the end of its note."""

MIB: Final = 1024**2
USE_TYPE: Final = "nvidia.com/use-gputype"
NO_TYPE: Final = "nvidia.com/nouse-gputype"
STRATEGIES: Final = {"hami-core": "hamiCore", "mps": "mps"}
"""Rootport's strategies by the modes of both."""

_MOST_VALUES: Final = 16
_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._()/+-]{0,63}", re.ASCII)
_UUID: Final = re.compile(r"GPU-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)
_TYPE_PREFIX: Final = "NVIDIA-"
"""A card's type is this and its product name (HAMi: pkg/device-plugin/nvidiadevice/nvinternal/plugin/register.go)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuHints:
    """What the pod's annotations say of all its vGPUs.

    Attributes:
        wanted: What each GPU has to be.
        together: As in :class:`~driver.convert.requests.GpuRequest`.
        strategy: Likewise.
        is_exclusive: Whether no other pod may use the GPUs.
    """

    wanted: tuple[Wanted, ...] = ()
    together: tuple[str, ...] = ()
    strategy: str = ""
    is_exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuRules:
    """In what the two differ.

    Attributes:
        system: The system's name.
        number: The resource that says how many vGPUs.
        core_above_all: What more than 100 percent of core means; empty if such a container is never scheduled.
        limits: The text about what kept a container within its share.
    """

    system: str
    number: str
    core_above_all: str
    limits: str


def read_vgpus(asked: Asked, rules: VgpuRules, hints: VgpuHints) -> Reading:
    """Return what a container asks for: a number of GPUs, and of each the same memory and core."""
    if rules.number in asked.zeros:
        text = f"is of 0 GPUs ({rules.number}), and {rules.system} gives none: take it out, or write how many GPUs"
        return Reading(findings=tuple(asked.refused(amount, text) for amount in asked.amounts))
    number, memory = asked.one(Meaning.GPUS), asked.one(Meaning.MEMORY)
    percent, core = asked.one(Meaning.MEMORY_PERCENT), asked.one(Meaning.CORE)
    strategy = hints.strategy or asked.pod.settings.share_strategy
    findings: list[Finding] = []
    if core is not None and core.value > ALL:
        if not rules.core_above_all:
            return _refused(asked, core, "is of one vGPU, and a GPU has 100 percent: write 1 to 100")
        findings.append(asked.noted(core, rules.core_above_all))
    if percent is not None and memory is not None:
        findings.append(asked.noted(percent, f"is left out: {memory.name} is there too, and it is what counts"))
        percent = None
    if percent is not None and percent.value > ALL:
        return _refused(asked, percent, "is of one vGPU, and a GPU has 100 percent: write 1 to 100")
    count = 1 if number is None else number.value
    if hints.strategy == "mps" and count > 1 and number is not None:
        return _refused(asked, number, "a claim can have one GPU with MPS: use another mode, or one GPU")
    gpus = GpuRequest(
        count=count,
        core=None if core is None else min(core.value, ALL),
        memory=None if memory is None else memory.value * memory.resource.unit,
        memory_percent=None if percent is None else percent.value,
        vendor=NVIDIA_GPUS,
        wanted=hints.wanted,
        together=hints.together,
    )
    if hints.is_exclusive or gpus.core == ALL or _is_whole(gpus):
        findings.extend(_whole_notes(asked, (memory, percent), is_whole=_is_whole(gpus)))
        gpus = GpuRequest(count=count, vendor=NVIDIA_GPUS, wanted=gpus.wanted, together=gpus.together)
    else:
        gpus = _share(gpus, strategy)
        if not strategy and (limited := memory or percent or core) is not None:
            findings.append(asked.noted(limited, rules.limits + ("" if core is not None else NOT_COUNTED)))
    return Reading(request=DeviceRequest(gpus=(gpus,)), findings=tuple(findings))


def _share(gpus: GpuRequest, strategy: str) -> GpuRequest:
    """Return a share; of one that names its core alone, all the memory is meant."""
    is_core_alone = gpus.memory is None and gpus.memory_percent is None
    return GpuRequest(
        count=gpus.count,
        core=gpus.core,
        memory=gpus.memory,
        memory_percent=ALL if is_core_alone else gpus.memory_percent,
        core_is_limited=gpus.core is not None,
        strategy=strategy,
        vendor=gpus.vendor,
        wanted=gpus.wanted,
        together=gpus.together,
    )


def _is_whole(gpus: GpuRequest) -> bool:
    return gpus.memory is None and gpus.memory_percent in (None, ALL) and gpus.core in (None, ALL)


def _whole_notes(asked: Asked, amounts: Sequence[Amount | None], *, is_whole: bool) -> list[Finding]:
    text = "is left out: the container has the GPU to itself, and a whole GPU's memory is not limited"
    return [] if is_whole else [asked.noted(amount, text) for amount in amounts if amount is not None]


def _refused(asked: Asked, amount: Amount, text: str) -> Reading:
    return Reading(findings=(asked.refused(amount, text),))


def mode_refusal(system: str, *, is_mig: bool) -> str:
    """Return why a mode that is none of :data:`STRATEGIES` is refused, and what to write."""
    if is_mig:
        text = "chooses the MIG profile by the memory, a claim names it: ask for nvidia.com/mig-1g.10gb or another"
        return f"{system} {text}"
    return f"no mode that {system} knows: write {' or '.join(STRATEGIES)}"


def wanted_models(
    dialect: str, facts: PodFacts, name: str, *, negated: bool, prefix: str = _TYPE_PREFIX
) -> tuple[Wanted | None, Finding | None]:
    """Read an annotation that lists card types; each is compared as a part of the type, in either case.

    Args:
        dialect: The dialect's name.
        facts: The pod.
        name: The annotation.
        negated: Whether it lists what the pod must not get.
        prefix: What a card's type has before its model.

    Returns:
        What the devices have to be, if anything; and the finding, if the pod has the annotation.
    """
    if name not in facts.annotations:
        return None, None
    texts = _listed(facts.annotations[name])
    if not texts or len(texts) > _MOST_VALUES or any(_MODEL.fullmatch(text) is None for text in texts):
        problem = f"expected 1 to {_MOST_VALUES} models, separated by commas, such as A100,V100"
        return None, facts.finding(dialect, Where.ANNOTATION, name, Outcome.REFUSED, problem)
    models = [text[len(prefix) :] if text.upper().startswith(prefix) else text for text in texts]
    if any(model.upper() in prefix for model in models):
        # Every card's type has it in it.
        if negated:
            problem = "excludes every NVIDIA GPU: write the models that the pod must not get"
            return None, facts.finding(dialect, Where.ANNOTATION, name, Outcome.REFUSED, problem)
        text = "any NVIDIA GPU: the vendor is in the request's selector"
        return None, facts.finding(dialect, Where.ANNOTATION, name, Outcome.CONVERTED, text)
    wanted = Wanted(attribute=attributes.MODEL, values=tuple(models), match=Match.CONTAINS, negated=negated)
    text = f"a selector on the model, {'none' if negated else 'one'} of {', '.join(models)}"
    return wanted, facts.finding(dialect, Where.ANNOTATION, name, Outcome.CONVERTED, text)


def wanted_uuids(dialect: str, facts: PodFacts, name: str, *, negated: bool) -> tuple[Wanted | None, Finding | None]:
    """Read an annotation that lists UUIDs of GPUs, as :func:`wanted_models` does models."""
    if name not in facts.annotations:
        return None, None
    texts = _listed(facts.annotations[name])
    if not texts or len(texts) > _MOST_VALUES or any(_UUID.fullmatch(text) is None for text in texts):
        problem = f"expected 1 to {_MOST_VALUES} UUIDs of GPUs, separated by commas, as `nvidia-smi -L` prints them"
        return None, facts.finding(dialect, Where.ANNOTATION, name, Outcome.REFUSED, problem)
    wanted = Wanted(attribute=attributes.UUID, values=tuple(texts), negated=negated)
    text = f"a selector on the uuid, {'none' if negated else 'one'} of {len(texts)}"
    return wanted, facts.finding(dialect, Where.ANNOTATION, name, Outcome.CONVERTED, text)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",", _MOST_VALUES + 1) if part.strip()]
