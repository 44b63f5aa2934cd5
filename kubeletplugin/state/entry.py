"""The entry of a prepared claim, as it stands in the checkpoint and in the claim's CDI spec.

The devices are the plan's own dataclasses: their fields, in their order, are the format on disk. A new field needs a
new version of the checkpoint and a migration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from driver.api.claim_reference import ClaimReference
from driver.api.strict import rule, write
from driver.model.devices import DeviceType
from driver.plan import HeldDevice, PreparedDevice
from driver.plan.effects import Effect, LendInterface
from kubeletplugin.service import ClaimPrepared

__all__ = ["Entry", "EntryFile", "entry_devices", "lists_all_fields"]

_GPU_MODES: Final = frozenset({DeviceType.GPU, DeviceType.GPU_RATIO, DeviceType.MIG})


def entry_devices() -> Any:
    """Return the field of the devices in the answer to the kubelet, of a class that is read from a file."""
    return rule(check=_with_gpu_modes)


def _with_gpu_modes(devices: tuple[PreparedDevice, ...], _: object) -> tuple[PreparedDevice, ...]:
    for device in devices:
        if device.use is not None and device.use.mode not in _GPU_MODES:
            raise ValueError(f"a GPU is not used as {device.use.mode}")
    return devices


def lists_all_fields(devices: Sequence[PreparedDevice], written: Mapping[str, Any]) -> bool:
    """Whether every field of the devices was written: the plan's classes have defaults, and the file has none.

    Args:
        devices: As they were read.
        written: What they were read from, with the field ``devices``.
    """
    return bool(write(devices) == written["devices"])


# Every field is in the file: none has a default, so that a file that lacks one does not pass.
@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFile:
    """A file that containers of the claim see: device metadata (KEP-5304), or what isolates a share.

    Attributes:
        path: Relative to the folder for such files.
        content: The file's text.
    """

    path: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A claim that is prepared.

    Attributes:
        uid: The claim's UID: the only thing that identifies it.
        namespace: For messages, and to find the claim in the API.
        name: As namespace.
        state: ``prepared``: it is what the kubelet got. ``rebuilt``: read back from the claim's CDI file
            after the checkpoint was lost. ``outdated``: a MIG device of the claim had to be made anew and is another
            one now. In the latter two states it is planned anew from the claim before the kubelet gets it again.
        boot_id: The boot of the node it was prepared in: after another boot device nodes may be numbered anew, and no
            effect is left.
        devices: The answer to the kubelet, in its order.
        effects: What was done to the node for it, in its order.
        cdi_spec: The content of the claim's CDI file.
        files: The claim's other files.
    """

    uid: str
    namespace: str
    name: str
    state: Literal["prepared", "rebuilt", "outdated"]
    boot_id: str
    devices: tuple[PreparedDevice, ...] = entry_devices()
    effects: tuple[Effect, ...]
    cdi_spec: str
    files: tuple[EntryFile, ...]

    @property
    def claim(self) -> ClaimReference:
        """The claim."""
        return ClaimReference(namespace=self.namespace, name=self.name, uid=self.uid)

    @property
    def answer(self) -> ClaimPrepared:
        """The answer to the kubelet."""
        return ClaimPrepared(devices=self.devices)

    @property
    def held_devices(self) -> tuple[HeldDevice, ...]:
        """What the claim holds of the node's devices."""
        return tuple(device.held_by(self.claim) for device in self.devices)

    @property
    def lent_to(self) -> frozenset[str]:
        """The UIDs of the pods that network interfaces are lent to; there is one at most."""
        return frozenset(effect.pod_uid for effect in self.effects if isinstance(effect, LendInterface))
