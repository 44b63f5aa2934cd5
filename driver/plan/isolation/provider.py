"""The interface of isolation providers: each keeps a share of a GPU within its limits on this node.

A provider decides and does nothing: it returns what the container gets (environment, mounts, files) and what has to be
done on the host (effects), and whether that really enforces the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from driver.api.claim_reference import ClaimReference
from driver.config import GpuSharing
from driver.model.devices import DeviceName, Gpu
from driver.plan.cdi import CdiMount
from driver.plan.effects import Effect

if TYPE_CHECKING:  # most plugins have read none, and need not load it
    from driver.api.gpu_policies import GpuPolicies, GpuPolicy

__all__ = [
    "ClaimFile",
    "GpuShare",
    "HamiCoreLibrary",
    "Isolation",
    "IsolationHost",
    "IsolationPlan",
    "IsolationProvider",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShare:
    """A claim's share of a GPU.

    Attributes:
        gpu: The GPU.
        core: Percent of its core that is reserved, 0 to 100; a share with none has no limit of it.
        memory_bytes: Bytes of its memory, whichever way they were asked for; None where the GPU's memory is not known.
        whole: Whether the claim takes all of the memory, so that nobody else can be given a share.
        ordinal: Which of the request's GPUs it is, from 0, in the order of PCI addresses: CUDA's own order within a
            container that has ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
    """

    gpu: Gpu
    core: int
    memory_bytes: int | None
    whole: bool
    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HamiCoreLibrary:
    """HAMi-core on the node.

    Attributes:
        host_path: The host's path of ``libvgpu.so``.
        version: The version by which HAMi's installer names the file, such as ``v2.9.0``; else ``sha256:`` and the
            first 12 digits of that digest, for the library itself has no version.
    """

    host_path: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationHost:
    """What the node has for isolation; None for what it lacks.

    Attributes:
        driver_version: NVIDIA's kernel driver, such as ``580.159.03``.
        nvidia_smi: The host's path of ``nvidia-smi``.
        mps_control: The host's path of ``nvidia-cuda-mps-control``.
        hami_core: HAMi-core's library, which was seen to load.
        hami_core_problem: Why there is none that works; empty where there is one, or nobody looked.
        runtime_root: The host's folder for what lives until the next boot, such as MPS pipes: ``/run/rootport``.
        files_root: The host's folder below which :class:`ClaimFile` are written.
        policies: The administrator's rules for GPUs; None where there are none.
        in_use: Of GPUs of which somebody has a share, the sharing (:attr:`driver.plan.uses.GpuUse.sharing`).
        simulated: Whether nothing is known of the host and everything is assumed to be there, for ``rootport
            simulate``.
    """

    driver_version: str | None = None
    nvidia_smi: str | None = None
    mps_control: str | None = None
    hami_core: HamiCoreLibrary | None = None
    hami_core_problem: str = ""
    runtime_root: str = "/run/rootport"
    files_root: str = "/var/lib/kubelet/plugins/rootport.dev/device-metadata"
    policies: GpuPolicies | None = None
    in_use: Mapping[DeviceName, str] = field(default_factory=dict)
    simulated: bool = False

    def policy_of(self, gpu: Gpu | None, node: str) -> GpuPolicy | None:
        """Return the administrator's rules for a GPU of a node; None where there are none, and for no GPU."""
        if gpu is None or self.policies is None:
            return None
        return self.policies.of(model=gpu.model, node=node, address=gpu.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFile:
    """A file to write before a container of the claim starts; containers see it read-only.

    Attributes:
        relative_path: ``<claim uid>/<name>``, below the folder of all such files. The name is a DNS label with an
            extension, such as ``gpu.json``.
        content: All of it.
    """

    relative_path: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """Whether a share's limits hold.

    Attributes:
        enforced: Whether a program that uses the GPU in the usual way is kept within its share. False is advisory.
        by: What enforces it, or would: ``device`` (the GPU belongs to the claim alone), ``MIG``, ``MPS``,
            ``HAMi-core``, ``time-slicing``.
        version: That one's version; None where it has none of its own.
        message: For a person: what is limited to how much by what, and what could get around it.
    """

    enforced: bool
    by: str
    version: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationPlan:
    """A provider's decision for one share.

    Attributes:
        isolation: What to report to the user.
        sharing: The strategy with the settings that all users of the GPU must agree on, such as
            ``timeSlicing interval=Default`` (:attr:`driver.plan.uses.GpuUse.sharing`).
        env: Environment variables, ``NAME=value``; of two with one name in a claim both must have one value.
        mounts: Files and folders of the host; equal ones are mounted once.
        files: Files to write for the claim; equal ones are written once.
        effects: What has to be done on the host.
    """

    isolation: Isolation
    sharing: str
    env: tuple[str, ...] = ()
    mounts: tuple[CdiMount, ...] = ()
    files: tuple[ClaimFile, ...] = ()
    effects: tuple[Effect, ...] = ()


class IsolationProvider(Protocol):
    """One sharing strategy."""

    @property
    def strategy(self) -> str:
        """The strategy's name in ``GpuConfig.sharing.strategy``."""
        ...

    def plan(
        self,
        share: GpuShare,
        sharing: GpuSharing,
        host: IsolationHost,
        claim: ClaimReference,
        request: str,
        subject: str,
    ) -> IsolationPlan:
        """Decide how the share is kept within its limits.

        Args:
            share: What the claim was given.
            sharing: The claim's settings, with their defaults.
            host: What the node has.
            claim: Whose share it is.
            request: The request's name, without a subrequest: a DNS label.
            subject: Names claim, request and device in the errors.

        Raises:
            InputError: The settings contradict the share; another claim is needed.
            NodeError: The node lacks what the strategy takes; the hint names what to install.
        """
        ...
