"""Turns the opaque parameters of other DRA drivers into Rootport's.

Sources: NVIDIA's DRA driver, api/nvidia.com/resource/v1beta1 (gpuconfig.go, migconfig.go, sharing.go); dranet,
pkg/apis/types.go (NetworkConfig).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from driver.api import API_VERSION
from driver.api.validation.errors import FieldError, path_step, shown_value
from driver.config import parse_config
from driver.convert.other_drivers.names import DRANET, NVIDIA

__all__ = ["Parameters", "translate_parameters"]

_VERSIONS: Final = frozenset({"resource.nvidia.com/v1beta1", "gpu.nvidia.com/v1alpha1"})
_HEADER: Final = ("apiVersion", "kind")
_TIME_SLICING: Final = "TimeSlicing"
_MPS: Final = "MPS"
_MPS_NAMES: Final = {
    "defaultActiveThreadPercentage": "activeThreadPercentage",
    "defaultPinnedDeviceMemoryLimit": "pinnedDeviceMemoryLimit",
}
_PER_DEVICE: Final = "defaultPerDevicePinnedMemoryLimit"
_TUNING: Final = frozenset(
    {
        "gsoMaxSize",
        "groMaxSize",
        "gsoIPv4MaxSize",
        "groIPv4MaxSize",
        "disableEbpfPrograms",
        "ethtool",
    }
)
"""Settings of an interface that change how fast it is, not whom it reaches."""


@dataclass(slots=True, kw_only=True)
class Parameters:
    """What became of one entry's parameters.

    Attributes:
        kind: The kind of what the parameters are for, as Rootport names it: GpuConfig, MigConfig, RdmaConfig.
        written: Rootport's parameters; None where its defaults say the same.
        notes: What is different.
        errors: Why there are none, each with its field.
    """

    kind: str = ""
    written: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)


def translate_parameters(driver: str, parameters: object, where: str, *, most_devices: int) -> Parameters:
    """Return Rootport's parameters for those of another driver.

    Args:
        driver: The other driver, one that :mod:`driver.convert.other_drivers.names` knows.
        parameters: JSON as Python data.
        where: The parameters' field path, for the errors.
        most_devices: How many devices a request that they are for has at most.
    """
    made = Parameters()
    if not isinstance(parameters, Mapping):
        made.errors.append(FieldError(where, "expected an object"))
    elif driver == NVIDIA:
        _nvidia(parameters, where, made, most_devices=most_devices)
    elif driver == DRANET:
        _dranet(parameters, where, made)
    if made.written is not None and not made.errors:
        made.written = {"apiVersion": API_VERSION, "kind": made.kind, **made.written}
        problems = parse_config(made.written, where)
        if isinstance(problems, tuple):
            made.errors.extend(problems)
    return made


def _nvidia(parameters: Mapping[str, Any], where: str, made: Parameters, *, most_devices: int) -> None:
    version, kind = (parameters.get(key) for key in _HEADER)
    if not isinstance(version, str) or version not in _VERSIONS or kind not in ("GpuConfig", "MigDeviceConfig"):
        made.errors.append(
            FieldError(
                f"{where}.kind",
                f"{shown_value(kind)} of {shown_value(version)} has no equal: GpuConfig and MigDeviceConfig of "
                "resource.nvidia.com/v1beta1 have",
            )
        )
        return
    made.kind = "GpuConfig" if kind == "GpuConfig" else "MigConfig"
    _refuse_unknown(parameters, (*_HEADER, "sharing"), where, made)
    sharing = parameters.get("sharing")
    if sharing is None:
        return  # NVIDIA's default is time-slicing among the claim's own containers, which is what no strategy means.
    path = f"{where}.sharing"
    if not isinstance(sharing, Mapping):
        made.errors.append(FieldError(path, "expected an object"))
        return
    _refuse_unknown(sharing, ("strategy", "timeSlicingConfig", "mpsConfig"), path, made)
    strategy = sharing.get("strategy")
    if strategy not in (_TIME_SLICING, _MPS):
        made.errors.append(FieldError(f"{path}.strategy", f"{shown_value(strategy)} is not known"))
    elif made.kind == "MigConfig":
        if strategy == _MPS:
            made.errors.append(FieldError(f"{path}.strategy", "Rootport runs no MPS on MIG partitions: leave it out"))
        else:
            made.notes.append("time-slicing is left out: programs in a partition take turns anyway")
    elif strategy == _TIME_SLICING:
        _time_slicing(sharing, path, made)
    else:
        _mps(sharing, path, made, most_devices=most_devices)


def _time_slicing(sharing: Mapping[str, Any], path: str, made: Parameters) -> None:
    settings = _settings(sharing, "timeSlicingConfig", "mpsConfig", path, made)
    _refuse_unknown(settings, ("interval", "timeSlice"), f"{path}.timeSlicingConfig", made)
    interval = settings.get("interval", settings.get("timeSlice"))
    written: dict[str, Any] = {"strategy": "timeSlicing"}
    if interval is not None:
        written["timeSlicing"] = {"interval": interval}
    made.written = {"sharing": written}


def _mps(sharing: Mapping[str, Any], path: str, made: Parameters, *, most_devices: int) -> None:
    settings = dict(_settings(sharing, "mpsConfig", "timeSlicingConfig", path, made))
    if most_devices != 1:
        text = "MPS for several GPUs of a request: Rootport runs it for one GPU of a claim; write a claim for each"
        made.errors.append(FieldError(f"{path}.strategy", text))
    each = settings.pop(_PER_DEVICE, None)
    if each is not None:
        if isinstance(each, Mapping) and list(each) == ["0"]:
            settings["defaultPinnedDeviceMemoryLimit"] = each["0"]
        else:
            text = "Rootport limits the one GPU of the claim: write defaultPinnedDeviceMemoryLimit"
            made.errors.append(FieldError(f"{path}.mpsConfig.{_PER_DEVICE}", text))
    _refuse_unknown(settings, tuple(_MPS_NAMES), f"{path}.mpsConfig", made)
    limits = {_MPS_NAMES[name]: value for name, value in settings.items() if name in _MPS_NAMES}
    made.written = {"sharing": {"strategy": "mps", **({"mps": limits} if limits else {})}}


def _settings(sharing: Mapping[str, Any], own: str, other: str, path: str, made: Parameters) -> Mapping[str, Any]:
    if sharing.get(other) is not None:
        made.errors.append(FieldError(f"{path}.{other}", f"is for another strategy than {sharing['strategy']}"))
    settings = sharing.get(own)
    if settings is not None and not isinstance(settings, Mapping):
        made.errors.append(FieldError(f"{path}.{own}", "expected an object"))
    return settings if isinstance(settings, Mapping) else {}


def _dranet(parameters: Mapping[str, Any], where: str, made: Parameters) -> None:
    made.kind = "RdmaConfig"
    interface = parameters.get("interface", {})
    if not isinstance(interface, Mapping):
        made.errors.append(FieldError(f"{where}.interface", "expected an object"))
        return
    made.written = {"interface": {name: interface[name] for name in ("name", "mtu") if name in interface}}
    others = [
        *((name, f"{where}.interface.{name}") for name in _others(interface, ("name", "mtu"))),
        *((name, f"{where}{path_step(name)}") for name in _others(parameters, ("interface",))),
    ]
    for name, path in others:
        if name in _TUNING:
            made.notes.append(f"{name[:32]} is left out: Rootport does not tune interfaces")
        else:
            made.errors.append(
                FieldError(path, "Rootport moves the interface with the addresses it has, and sets no more")
            )


def _others(data: Mapping[Any, Any], known: Sequence[str]) -> Iterator[str]:
    return (str(name) for name in data if name not in known)


def _refuse_unknown(data: Mapping[Any, Any], known: Sequence[str], path: str, made: Parameters) -> None:
    made.errors.extend(FieldError(f"{path}{path_step(name)}", "is not known") for name in _others(data, known))
