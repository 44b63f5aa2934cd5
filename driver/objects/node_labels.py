"""Labels of a Node by which users of other systems select GPUs: those of Koordinator and of GPU Feature Discovery.

Sources:

- Koordinator: koordinator-sh/koordinator, apis/extension/device_share.go (the names) and
  pkg/koordlet/statesinformer/impl/states_device_linux.go (the values: a model without "NVIDIA ", with dashes for
  spaces, and only where all GPUs are of it).
- GPU Feature Discovery: NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery/README.md, internal/lm/nvml.go (versions,
  MIG) and internal/lm/resource.go (product, count, memory in MiB, family, compute capability, and which characters a
  product keeps).

What follows from the settings of NVIDIA's device plugin (``gpu.replicas``, ``mig.strategy``, ``mps.capable``), from the
machine (``gpu.machine``) or from a run (``gfd.timestamp``) is not written: there is no such plugin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from driver.model.devices import Gpu
from driver.model.inventory import Inventory

__all__ = ["NODE_LABELS", "node_labels"]

_KOORDINATOR: Final = "node.koordinator.sh/"
_NVIDIA: Final = "nvidia.com/"

NODE_LABELS: Final = (
    *(f"{_KOORDINATOR}{name}" for name in ("gpu-vendor", "gpu-model", "gpu-driver-version")),
    *(
        f"{_NVIDIA}{name}"
        for name in (
            "gpu.product",
            "gpu.count",
            "gpu.memory",
            "gpu.family",
            "gpu.compute.major",
            "gpu.compute.minor",
            "mig.capable",
            "cuda.driver.major",
            "cuda.driver.minor",
            "cuda.driver.rev",
            "cuda.driver-version.major",
            "cuda.driver-version.minor",
            "cuda.driver-version.revision",
            "cuda.driver-version.full",
            "cuda.runtime.major",
            "cuda.runtime.minor",
            "cuda.runtime-version.major",
            "cuda.runtime-version.minor",
            "cuda.runtime-version.full",
        )
    ),
)
"""All labels that :func:`node_labels` may return."""

# k8s.io/apimachinery, pkg/api/validate/content: label values. An empty one is valid.
_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_LENGTH: Final = 63
_NOT_IN_VALUES: Final = re.compile(r"[^A-Za-z0-9_. -]", re.ASCII)
_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?", re.ASCII)


def node_labels(inventory: Inventory) -> dict[str, str]:
    """Return the labels of a node; none where it has no GPUs.

    GPUs that differ in what a label says leave the label out: it would be wrong for some of them. The count is that of
    all GPUs, and those of NVIDIA's labels are about NVIDIA's GPUs alone.

    Args:
        inventory: The node. Its values are the node's own word; each is written as a valid label's value, or not at
            all.
    """
    found = dict(_koordinator(inventory.gpus))
    found |= _nvidia([gpu for gpu in inventory.gpus if gpu.vendor == "nvidia"])
    return {name: value for name, value in found.items() if _VALUE.fullmatch(value)}


def _koordinator(gpus: Sequence[Gpu]) -> Iterator[tuple[str, str]]:
    if vendor := _same(gpu.vendor for gpu in gpus):
        yield f"{_KOORDINATOR}gpu-vendor", vendor
    if model := _same(gpu.model for gpu in gpus):
        yield from _some(f"{_KOORDINATOR}gpu-model", _value(model.removeprefix("NVIDIA ")))
    if version := _same(gpu.driver_version for gpu in gpus):
        yield f"{_KOORDINATOR}gpu-driver-version", version


def _nvidia(gpus: Sequence[Gpu]) -> dict[str, str]:
    if not gpus:
        return {}
    found = {
        "gpu.count": str(len(gpus)),
        "mig.capable": "true" if any(gpu.mig is not None for gpu in gpus) else "false",
    }
    if model := _same(gpu.model for gpu in gpus):
        found |= dict(_some("gpu.product", _value(model)))
    if memory := _same(None if gpu.memory_bytes is None else str(gpu.memory_bytes >> 20) for gpu in gpus):
        found["gpu.memory"] = memory
    if architecture := _same(gpu.architecture for gpu in gpus):
        found |= dict(_some("gpu.family", _value(architecture.lower())))
    if capability := _version(gpu.cuda_compute_capability for gpu in gpus):
        found |= {"gpu.compute.major": capability[0], "gpu.compute.minor": capability[1]}
    if driver := _version(gpu.driver_version for gpu in gpus):
        major, minor, revision = driver
        for form, last in (("cuda.driver", "rev"), ("cuda.driver-version", "revision")):
            found |= {f"{form}.major": major, f"{form}.minor": minor, f"{form}.{last}": revision}
        found["cuda.driver-version.full"] = ".".join(filter(None, driver))
    if cuda := _version(gpu.cuda_driver_version for gpu in gpus):
        for form in ("cuda.runtime", "cuda.runtime-version"):
            found |= {f"{form}.major": cuda[0], f"{form}.minor": cuda[1]}
        found["cuda.runtime-version.full"] = f"{cuda[0]}.{cuda[1]}"
    return {f"{_NVIDIA}{name}": value for name, value in found.items()}


def _same(values: Iterable[str | None]) -> str | None:
    """Return the one value that all have; None where they differ or one is not known."""
    known = set(values)
    return known.pop() if len(known) == 1 else None


def _version(texts: Iterable[str | None]) -> tuple[str, str, str] | None:
    """Return the parts of the version that all have, the last one empty where it has two."""
    match = _VERSION.fullmatch(_same(texts) or "")
    return None if match is None else (match[1], match[2], match[3] or "")


def _value(text: str) -> str:
    """Return a name as GPU Feature Discovery writes it into a label: some characters left out, dashes for spaces."""
    return "-".join(_NOT_IN_VALUES.sub("", text).split())[:_LENGTH].strip("-_.")


def _some(name: str, value: str) -> Iterator[tuple[str, str]]:
    if value:
        yield name, value
