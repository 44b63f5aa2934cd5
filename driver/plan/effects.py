"""Effects: what preparing a claim does to the node beside writing files, as data that can be journalled and undone.

An effect is written down before it is begun, and forgotten after it is undone. Doing one twice, or undoing what was
never done, changes nothing. Claims may have an equal effect: it is done for the first and undone after the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

__all__ = [
    "ConfigureVf",
    "CreateMigDevice",
    "Effect",
    "GpuEffect",
    "LeaveMigMode",
    "LendInterface",
    "NicEffect",
    "RunMpsDaemon",
    "SetTimeSlice",
    "TimeSliceInterval",
    "VfSettings",
]

_STRICT: Final = {"extra": "forbid", "strict": True}
"""For the models of pydantic that have effects as fields."""

TimeSliceInterval: TypeAlias = Literal["Default", "Short", "Medium", "Long"]
"""``nvidia-smi compute-policy --set-timeslice``: 0, 1, 2, 3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEffect:
    """An effect on one GPU.

    Attributes:
        gpu: The whole GPU's name in the pool, such as ``gpu-0000-1b-00-0``.
        uuid: The GPU's UUID: NVIDIA's tools and NVML name it so.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    gpu: str
    uuid: str

    @property
    def target(self) -> str:
        """The name in the pool of the GPU that it changes."""
        return self.gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class NicEffect:
    """An effect on one function, physical or virtual, of an RDMA NIC.

    Attributes:
        function: The function's name in the pool, such as ``rdma-0000-1c-00-0`` or ``rdma-vf-0000-1c-00-2``.
        address: Its PCI address.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    function: str
    address: str

    @property
    def target(self) -> str:
        """The name in the pool of the function that it changes."""
        return self.function


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMigDevice(GpuEffect):
    """Make a MIG device: MIG mode on, a GPU instance at a place, a compute instance that has all of it.

    Undone, both instances are gone; and MIG mode is off again when no instance is left on the GPU.

    Attributes:
        profile_id: NVML's number of the GPU instance's profile.
        profile: Its name, such as ``1g.10gb``, for messages.
        start: The placement's first memory slice.
        size: The placement's number of memory slices.
    """

    kind: Literal["CreateMigDevice"] = "CreateMigDevice"
    profile_id: int
    profile: str
    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveMigMode(GpuEffect):
    """Switch MIG mode off, which an administrator has left on: CUDA does not work on the whole GPU in it.

    There is nothing to undo: the next MIG device switches it on.
    """

    kind: Literal["LeaveMigMode"] = "LeaveMigMode"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimeSlice(GpuEffect):
    """Set the GPU's time slice. Undone, it is the driver's default again.

    Attributes:
        interval: How long a slice is.
    """

    kind: Literal["SetTimeSlice"] = "SetTimeSlice"
    interval: TimeSliceInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMpsDaemon(GpuEffect):
    """Run an MPS control daemon for the GPU, whose compute mode is then EXCLUSIVE_PROCESS.

    Undone, the daemon is stopped and the compute mode is DEFAULT.

    Attributes:
        folder: The host's folder of the daemon's pipe and log folders: ``<runtime root>/mps/<gpu>``.
    """

    kind: Literal["RunMpsDaemon"] = "RunMpsDaemon"
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VfSettings:
    """How the PF's driver is to treat a VF (ip-link(8), ``ip link set DEV vf NUM``). None: as it is.

    Attributes:
        vlan: VLAN id that the NIC adds to and takes from all of the VF's packets, 0 for none.
        vlan_qos: Priority in that tag, 0 to 7.
        trust: Whether the VF may do what touches others, such as promiscuous mode.
        spoof_check: Whether packets with another source MAC than the VF's are dropped.
        min_tx_rate: Guaranteed transmit bandwidth in Mb/s, 0 for none.
        max_tx_rate: The most transmit bandwidth in Mb/s, 0 for no limit.
        guid: InfiniBand node and port GUID, as ``00:11:22:33:44:55:66:77``.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    vlan: int | None = None
    vlan_qos: int | None = None
    trust: bool | None = None
    spoof_check: bool | None = None
    min_tx_rate: int | None = None
    max_tx_rate: int | None = None
    guid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureVf(NicEffect):
    """Have the PF's driver treat a VF as the claim asks. Undone, each setting is what it was before.

    Attributes:
        pf_address: The PF's PCI address.
        index: The VF's number at its PF.
        settings: What to set.
        rate_limit: The most transmit bandwidth in Mb/s, if the PF's driver can limit it: the claim is prepared all the
            same if it cannot. None: as it is, or as the settings say.
    """

    kind: Literal["ConfigureVf"] = "ConfigureVf"
    pf_address: str
    index: int
    settings: VfSettings
    rate_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LendInterface(NicEffect):
    """Let the CNI plugin move a network interface, and in exclusive mode its RDMA device, into one pod.

    Done, the node knows that the pod is to get it: the CNI plugin moves it when the pod's sandbox is made, and back
    when that is removed. Undone, it is in the host's network namespace under its own name, with its own MTU.

    Attributes:
        interface: The interface's name on the host; empty where only the RDMA device is moved.
        pod_uid: Which pod gets it.
        claim_uid: For which claim.
        name_in_pod: Its name in the pod; empty as above.
        mtu: Its MTU in the pod; None leaves it.
        rdma_device: The RDMA device that moves along, such as ``mlx5_2``; None in shared mode, where it need not.
    """

    kind: Literal["LendInterface"] = "LendInterface"
    interface: str
    pod_uid: str
    claim_uid: str
    name_in_pod: str
    mtu: int | None
    rdma_device: str | None


Effect: TypeAlias = CreateMigDevice | LeaveMigMode | SetTimeSlice | RunMpsDaemon | ConfigureVf | LendInterface
