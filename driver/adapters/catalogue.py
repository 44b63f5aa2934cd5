"""The catalogue of GPU and NIC models: what a PCI id, or the little that NCCL writes, says about a device.

It contains only what is certain: no fact is taken from an entry that may be the wrong one. The data is in
catalogue.yaml beside this file; the user's flags (:class:`HardwareFacts`) win over it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeVar

from driver.adapters.files.yaml_documents import read_documents
from driver.api.validation.errors import shown
from driver.errors import InputError
from driver.model.devices import MigPlacement, MigProfile
from driver.model.pci import PciAddress
from driver.spelling import close_matches

__all__ = [
    "Catalogue",
    "GpuFacts",
    "GpuModel",
    "HardwareFacts",
    "NicModel",
    "Platform",
    "find_gpu_model",
    "gpu_facts",
    "is_fpga",
    "load",
    "nic_model",
    "platform_attributes",
    "vendor_name",
]

T = TypeVar("T")

_MIB: Final = 1024**2
_GIB: Final = 1024**3
_MAX_ATTRIBUTE: Final = 64
# Words that may be left out of a model's name.
_BRANDS: Final = frozenset({"nvidia", "amd", "tesla", "instinct"})
_PROCESSING_ACCELERATOR: Final = 0x1200
_XILINX: Final = 0x10EE
_ALTERA: Final = 0x1172
_AMAZON: Final = 0x1D0F
_INTEL: Final = 0x8086
# Linux, drivers/fpga/dfl-pci.c: the physical functions of Intel's FPGA cards.
_INTEL_FPGAS: Final = frozenset({0x09C4, 0x0B2B, 0x0B30, 0xBCBD, 0xBCC0, 0xBCCE})
# PCI ID Repository (https://pci-ids.ucw.cz); the names are the values of the attribute "vendor".
_VENDORS: Final[Mapping[int, str]] = {
    0x10DE: "nvidia",
    0x15B3: "nvidia",  # Mellanox
    0x1002: "amd",
    0x1022: "amd",
    0x1DD8: "amd",  # Pensando
    _XILINX: "xilinx",
    _AMAZON: "amazon",
    0x14E4: "broadcom",
    _INTEL: "intel",
    _ALTERA: "altera",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """A GPU model; the fields are explained in catalogue.yaml."""

    name: str
    pci: tuple[str, ...] = ()
    memory_mib: int
    architecture: str
    compute_capability: str | None = None
    compute_units: int | None = None
    nominal: bool = False
    mig: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NicModel:
    """A NIC model."""

    name: str
    pci: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A cloud machine whose topology file has only bus ids, and the XML attributes that the file leaves out."""

    name: str
    attributes: Mapping[PciAddress, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The content of catalogue.yaml."""

    gpus: tuple[GpuModel, ...]
    mig_profiles: Mapping[str, tuple[MigProfile, ...]]
    nics: tuple[NicModel, ...]
    platforms: tuple[Platform, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """What is known of a GPU; None for unknown facts.

    Attributes:
        model: The model's name, as NVML or AMD SMI writes it.
        memory_bytes: The memory, as the card's driver reports it.
        memory_is_nominal: Whether ``memory_bytes`` is the data sheet's size, of which the driver reports less.
        architecture: The architecture, such as ``Hopper`` or ``gfx90a``.
        cuda_compute_capability: The compute capability, as ``major.minor``.
        mig_profiles: The GPU instance profiles; empty if the model has none, or they are not known.
    """

    model: str | None = None
    memory_bytes: int | None = None
    memory_is_nominal: bool = False
    architecture: str | None = None
    cuda_compute_capability: str | None = None
    mig_profiles: tuple[MigProfile, ...] = ()

    @property
    def memory_note(self) -> str | None:
        """A warning for people who plan with ``memory_bytes``; None if it is the driver's own figure."""
        if not (self.memory_is_nominal and self.memory_bytes):
            return None
        size = f"{self.memory_bytes / _GIB:g} GiB"
        return f"{self.model or 'GPU'}: the memory, {size}, is the nominal size; the driver may report less"


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareFacts:
    """The user's facts about all GPUs of a node (``--gpu-model``, ``--gpu-memory``), which win over all sources.

    Attributes:
        gpu_model: A model's name; see :func:`find_gpu_model` for how loosely it may be written.
        gpu_memory_bytes: The memory of each GPU, in bytes.
    """

    gpu_model: str | None = None
    gpu_memory_bytes: int | None = None


@cache
def load() -> Catalogue:
    """Return the catalogue, which is read once."""
    text = files("driver.adapters").joinpath("catalogue.yaml").read_text(encoding="utf-8")
    [document] = read_documents(text, "catalogue.yaml")
    data = document.data
    return Catalogue(
        gpus=tuple(GpuModel(**_frozen(entry)) for entry in data["gpus"]),
        mig_profiles={key: tuple(_mig_profile(*line) for line in lines) for key, lines in data["mig_profiles"].items()},
        nics=tuple(NicModel(**_frozen(entry)) for entry in data["nics"]),
        platforms=tuple(Platform(**entry) for entry in data["platforms"]),
    )


def vendor_name(vendor_id: int) -> str:
    """Return the name of a PCI vendor; for an unknown one its id, such as ``0x1d94``."""
    return _VENDORS.get(vendor_id, f"0x{vendor_id:04x}")


def is_fpga(vendor_id: int, device_id: int | None, class_code: int | None) -> bool:
    """Whether a PCI function's ids alone show that it is an FPGA card.

    Processing accelerators of Xilinx and Altera are; Intel makes others as well (NPUs), so there the device id decides.

    Args:
        vendor_id: PCI vendor id.
        device_id: PCI device id; None if the source has none.
        class_code: Base class and subclass, such as 0x1200; None if the source has none.
    """
    if vendor_id == _AMAZON:
        # 0xF0xx are the FPGA instances' (AWS FPGA Development Kit, "AWS FPGA PCIe Memory Address Map"). The class is
        # chosen by the author of the card's logic.
        return device_id is not None and device_id & 0xFF00 == 0xF000
    if class_code != _PROCESSING_ACCELERATOR:
        return False
    return vendor_id in (_XILINX, _ALTERA) or (vendor_id == _INTEL and device_id in _INTEL_FPGAS)


def nic_model(pci_id: str) -> str | None:
    """Return a NIC model's name by PCI id (``15b3:1021``)."""
    return next((nic.name for nic in load().nics if pci_id in nic.pci), None)


def platform_attributes(bus_ids: Iterable[PciAddress]) -> tuple[str, Mapping[PciAddress, Mapping[str, str]]] | None:
    """Return the platform whose topology file lists exactly these bus ids, and what its entries leave out."""
    wanted = frozenset(bus_ids)
    found = (platform for platform in load().platforms if platform.attributes.keys() == wanted)
    return next(((platform.name, platform.attributes) for platform in found), None)


def gpu_facts(
    *,
    pci_id: str | None = None,
    architecture: str | None = None,
    compute_capability: str | None = None,
    compute_units: int | None = None,
    hardware: HardwareFacts = HardwareFacts(),
) -> GpuFacts:
    """Return what is known of a GPU from what a source says about it.

    If several models match, only what they agree on is taken. A model and a memory size follow from a PCI id, or, if
    the source has none, from AMD's architecture together with the number of compute units; never from a compute
    capability, which GPUs outside of this catalogue share.

    Args:
        pci_id: The PCI id, such as ``10de:2330``.
        architecture: An LLVM target such as ``gfx90a``.
        compute_capability: The compute capability, such as ``9.0``.
        compute_units: The compute units of an AMD GPU.
        hardware: The user's facts, which win.

    Raises:
        InputError: ``hardware`` names no model, or several.
    """
    gpus = load().gpus
    described: Iterable[GpuModel] = ()
    if pci_id is not None:
        described = [gpu for gpu in gpus if pci_id in gpu.pci]
        finer = [gpu for gpu in described if gpu.compute_units == compute_units]
        described = finer or described
    elif architecture is not None and compute_units is not None:
        described = [gpu for gpu in gpus if (gpu.architecture, gpu.compute_units) == (architecture, compute_units)]
    alike = described or [gpu for gpu in gpus if compute_capability and gpu.compute_capability == compute_capability]
    memory_mib = _agreed(described, lambda gpu: gpu.memory_mib)
    facts = GpuFacts(
        model=_agreed(described, lambda gpu: gpu.name),
        memory_bytes=memory_mib * _MIB if memory_mib else None,
        memory_is_nominal=bool(memory_mib) and any(gpu.nominal for gpu in described),
        architecture=architecture or _agreed(alike, lambda gpu: gpu.architecture),
        cuda_compute_capability=compute_capability or _agreed(described, lambda gpu: gpu.compute_capability),
        mig_profiles=_mig_profiles(_agreed(described, lambda gpu: gpu.mig)),
    )
    return _with_flags(facts, hardware)


def find_gpu_model(name: str) -> GpuModel:
    """Return the model that a loosely written name means: ``h100``, ``a100 80gb sxm``, ``MI300X``.

    Brand names, case and punctuation do not count; words may be shortened (``sxm`` for ``SXM4``) or left out as long as
    only one model matches.

    Raises:
        InputError: No model matches, or several do; the message lists the nearest ones.
    """
    words = _words(name)
    gpus = load().gpus
    for gpu in gpus:
        if any(words == _words(known) for known in (gpu.name, *gpu.aliases)):
            return gpu
    fitting = [gpu for gpu in gpus if words and all(_has_word(gpu, word) for word in words)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise InputError(
            f"the GPU model {shown(name)} may be any of {', '.join(gpu.name for gpu in fitting)}",
            hint="name one of them",
        )
    raise _UnknownModelError(
        f"the GPU model {shown(name)} is not in the catalogue",
        hint=f"{_near(name)}; for another model give its full name and its memory (--gpu-memory)",
    )


def _frozen(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def _mig_profiles(key: str | None) -> tuple[MigProfile, ...]:
    return () if key is None else load().mig_profiles[key]


def _mig_profile(name: str, number: int, compute_slices: int, mebibytes: int, instances: int, *more: Any) -> MigProfile:
    *engines, places = more
    multiprocessors, decoders, encoders, copy_engines, jpeg_engines, ofa_engines = engines
    return MigProfile(
        name=name,
        profile_id=number,
        compute_slices=compute_slices,
        memory_bytes=mebibytes << 20,
        max_instances=instances,
        placements=tuple(
            MigPlacement(start=int(start), size=int(size))
            for start, _, size in (place.partition(":") for place in places.split())
        ),
        multiprocessors=multiprocessors,
        copy_engines=copy_engines,
        decoders=decoders,
        encoders=encoders,
        jpeg_engines=jpeg_engines,
        ofa_engines=ofa_engines,
    )


class _UnknownModelError(InputError):
    """No model matches; if its memory is given as well, the user's own name is good enough."""


def _with_flags(facts: GpuFacts, hardware: HardwareFacts) -> GpuFacts:
    if hardware.gpu_model is not None:
        try:
            model = find_gpu_model(hardware.gpu_model)
        except _UnknownModelError:
            if hardware.gpu_memory_bytes is None:
                raise
            facts = replace(facts, model=_attribute_text(hardware.gpu_model))
        else:
            facts = GpuFacts(
                model=model.name,
                memory_bytes=model.memory_mib * _MIB,
                memory_is_nominal=model.nominal,
                architecture=model.architecture,
                cuda_compute_capability=model.compute_capability,
                mig_profiles=_mig_profiles(model.mig),
            )
    if hardware.gpu_memory_bytes is not None:
        facts = replace(facts, memory_bytes=hardware.gpu_memory_bytes, memory_is_nominal=False)
    return facts


def _attribute_text(name: str) -> str:
    # The model becomes a string attribute of a device: at most 64 characters (resource.k8s.io/v1,
    # DeviceAttributeMaxValueLength).
    text = " ".join(name.split())
    if not 1 <= len(text) <= _MAX_ATTRIBUTE or not text.isprintable():
        raise InputError(f"the GPU model {shown(name)} cannot be published", hint="use 1 to 64 printable characters")
    return text


def _agreed(gpus: Iterable[GpuModel], fact: Callable[[GpuModel], T | None]) -> T | None:
    values = {fact(gpu) for gpu in gpus}
    return values.pop() if len(values) == 1 else None


def _words(name: str) -> tuple[str, ...]:
    return tuple(word for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in _BRANDS)


def _has_word(gpu: GpuModel, word: str) -> bool:
    return any(known == word or (len(word) > 1 and known.startswith(word)) for known in _words(gpu.name))


def _near(name: str) -> str:
    by_words = {" ".join(_words(gpu.name)): gpu.name for gpu in load().gpus}
    near = close_matches(" ".join(_words(name))[:_MAX_ATTRIBUTE], by_words, count=5, cutoff=0.4)
    return f"nearest: {', '.join(by_words[key] for key in near)}" if near else f"known: {', '.join(by_words.values())}"
