"""Translates what a pod asks of device plugins into a claim.

Names of resources: NVIDIA's k8s-device-plugin (``nvidia.com/gpu``, ``nvidia.com/mig-1g.10gb``), HAMi
(``nvidia.com/gpumem`` in MiB, ``gpumem-percentage``, ``gpucores``), Koordinator (``koordinator.sh/gpu-core``,
``gpu-memory`` in bytes, ``gpu-memory-ratio``, ``gpu`` for percent of both), Mellanox' RDMA shared device plugin
(``rdma/…``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["ClaimLines", "as_claim"]

_SHARES: Final = {
    "nvidia.com/gpucores": ("core", ""),
    "nvidia.com/gpumem": ("memory", "Mi"),
    "nvidia.com/gpumem-percentage": ("memoryRatio", ""),
    "koordinator.sh/gpu-core": ("core", ""),
    "koordinator.sh/gpu-memory": ("memory", ""),
    "koordinator.sh/gpu-memory-ratio": ("memoryRatio", ""),
}
_GPUS: Final = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu")
_MIG: Final = "nvidia.com/mig-"
_RDMA: Final = ("rdma/", "koordinator.sh/rdma")
_PERCENT_OF_BOTH: Final = "koordinator.sh/gpu"
_MOST_SHOWN: Final = 20
_LONGEST_NAME: Final = 80
"""The longest name of a resource: what follows the domain is a label's name, of 63 characters."""
_MOST_OF_A_KIND: Final = 10
"""The most MIG profiles, and RDMA resources, of one container that are described."""
_WHOLE: Final = 100
_CORE_OF_BYTES: Final = "10"
"""The core of a share whose memory is in bytes and whose core is not written: HAMi gives a GPU to ten by default
(``deviceSplitCount``)."""
_CHOOSE_CORE: Final = "choose core: nothing here says how much, and a request without it takes all of the GPU's"


@dataclass(frozen=True, slots=True)
class ClaimLines:
    """A claim in words.

    Attributes:
        resources: What the pod asks for and the claim replaces.
        claim: What its requests and constraints would be, one text each.
        choice: What of it is for the reader to choose; empty where nothing is.
    """

    resources: tuple[str, ...]
    claim: tuple[str, ...]
    choice: str = ""


def as_claim(resources: Mapping[str, str]) -> ClaimLines | None:
    """Return the claim; None if the pod asks for none of these resources, or for an amount of none.

    Args:
        resources: How much a container asks for, by the resource's name.
    """
    given = {
        name: amount[:_MOST_SHOWN] for name, amount in resources.items() if amount != "0" and len(name) <= _LONGEST_NAME
    }
    whole = [name for name in given if name in _GPUS]
    shares = [name for name in given if name in _SHARES or name == _PERCENT_OF_BOTH]
    mig = [name for name in given if name.startswith(_MIG)][:_MOST_OF_A_KIND]
    rdma = [name for name in given if name.startswith(_RDMA)][:_MOST_OF_A_KIND]
    capacity, choice = _share({name: given[name] for name in shares})
    gpus = given[whole[0]] if whole else "1"
    # Koordinator writes several whole GPUs as hundreds of percent, and who has all of a GPU's core has the GPU.
    if percents := [_percent(capacity[key]) for key in ("core", "memoryRatio") if key in capacity]:
        most = max(percents)
        if most > _WHOLE or percents[0] == _WHOLE:
            gpus = str(_percent(gpus) * -(-most // _WHOLE))
            capacity = {}
    lines: list[str] = []
    if whole or shares:
        device_class = "gpu-ratio" if "memoryRatio" in capacity else "gpu"
        asked = ", ".join(f"{key}: {amount}" for key, amount in capacity.items())
        share = f", capacity.requests: {{{asked}}}" if asked else ""
        lines.append(f"deviceClassName: {device_class}.rootport.dev, count: {gpus}{share}")
    for name in mig:
        profile = name.removeprefix(_MIG)
        selector = f'device.attributes["rootport.dev"].profile == "{profile}"'
        lines.append(f"deviceClassName: mig.rootport.dev, count: {given[name]}, selector {selector}")
    if rdma:
        lines.append("deviceClassName: rdma.rootport.dev (or rdma-vf.rootport.dev)")
    if rdma and (whole or shares):
        lines.append(
            "constraints: [{matchAttribute: rootport.dev/pcieSwitch}]"
            if gpus == "1"
            else f"constraints: as `rootport pairs --gpus {gpus}` writes them"
        )
    found = (*whole, *shares, *mig, *rdma)
    return ClaimLines(found, tuple(lines), choice if capacity else "") if found else None


def _share(given: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return what a share asks for, core and memory, and which of them is a guess."""
    if not given:
        return {}, ""
    asked = {_SHARES[name][0]: f"{amount}{_SHARES[name][1]}" for name, amount in given.items() if name in _SHARES}
    both = given.get(_PERCENT_OF_BOTH)
    memory: dict[str, str] = {key: asked[key] for key in ("memory", "memoryRatio") if key in asked}
    core = asked.get("core", both)
    if "memory" in memory:
        memory.pop("memoryRatio", None)  # of one GPU either is asked for
    elif not memory:
        memory = {"memoryRatio": both or str(_WHOLE)}  # HAMi gives all of it
    if core is not None:
        return {"core": core, **memory}, ""
    return {"core": memory.get("memoryRatio", _CORE_OF_BYTES), **memory}, _CHOOSE_CORE


def _percent(amount: str) -> int:
    """Return a whole number; 1 for a text that is none."""
    return int(amount) if amount.isdecimal() and amount.isascii() else 1
