"""``mps``: NVIDIA's Multi-Process Service, one daemon a GPU, with limits in each client's environment.

Sources: NVIDIA's MPS guide (docs.nvidia.com/deploy/mps) and the man page of nvidia-cuda-mps-control.

- A client's variables can only lower what the daemon allows. The daemon is for all claims of the GPU and allows all of
  it: so a client that changes its variables can raise its limit up to the whole GPU.
- The memory limit names the GPU by its ordinal, because by UUID it is not applied reliably
  (NVIDIA/k8s-device-plugin#572). A client's one GPU has the ordinal 0.
- A client needs the daemon's pipe folder alone. Since Volta there is no need of a common ``/dev/shm`` or IPC namespace:
  Amazon's ECS agent gives its containers no more (aws/amazon-ecs-agent#5082).
"""

from __future__ import annotations

from typing import Final

from driver.api.claim_reference import ClaimReference
from driver.config import GpuSharing, MpsSettings
from driver.errors import InputError, NodeError
from driver.plan.cdi import CdiMount
from driver.plan.effects import RunMpsDaemon
from driver.plan.isolation.gpu_shares import NO_CORE, OTHER_CLASS, WHOLE_GPU, gpu_uuid, is_nvidia, shown_share
from driver.plan.isolation.provider import GpuShare, Isolation, IsolationHost, IsolationPlan

__all__ = ["Mps"]

_CONTAINER_FOLDER: Final = "/run/rootport/mps"
_MEBI: Final = 2**20
_ALL_CORE: Final = 100
_VOLTA: Final = (7, 0)
# Writable, as in NVIDIA's own device plugin and DRA driver; the folder is root's.
_OPTIONS: Final = ("rw", "nosuid", "nodev", "noexec", "bind")


class Mps:
    """Programs of several claims at the same time, each process within its limits."""

    strategy = "mps"

    def plan(
        self,
        share: GpuShare,
        sharing: GpuSharing,
        host: IsolationHost,
        claim: ClaimReference,  # noqa: ARG002 - not asked by this strategy
        request: str,  # noqa: ARG002 - not asked by this strategy
        subject: str,
    ) -> IsolationPlan:
        """See :class:`~driver.plan.isolation.provider.IsolationProvider`."""
        _refuse_unfit(share, host, subject)
        settings = sharing.mps or MpsSettings()
        core, memory = _limits(share, settings, subject)
        folder = f"{host.runtime_root}/mps/{share.gpu.name}"
        pipe = f"{_CONTAINER_FOLDER}/{share.gpu.name}"
        env = [f"CUDA_MPS_PIPE_DIRECTORY={pipe}"]
        if core is not None:
            env.append(f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={core}")
        if memory is not None:
            # Rounded down: never more than the share.
            env.append(f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={memory // _MEBI}M")
        return IsolationPlan(
            isolation=WHOLE_GPU if share.whole else _isolation(share, core, memory, host),
            sharing=self.strategy,
            env=tuple(env),
            mounts=(CdiMount(host_path=f"{folder}/pipe", container_path=pipe, options=_OPTIONS),),
            effects=(RunMpsDaemon(gpu=share.gpu.name, uuid=gpu_uuid(share, host, subject), folder=folder),),
        )


def _refuse_unfit(share: GpuShare, host: IsolationHost, subject: str) -> None:
    gpu = share.gpu
    if not is_nvidia(share):
        raise InputError(
            f"{subject}: MPS is NVIDIA's, and this is a GPU of vendor {gpu.vendor}",
            hint="leave out sharing.strategy, or select an NVIDIA GPU",
        )
    if share.ordinal > 0:
        # A client finds one daemon by one variable, and each GPU has a daemon of its own, since each is shared with
        # other claims.
        raise InputError(
            f"{subject}: strategy mps with several GPUs in one request, and a program can use MPS on one GPU only",
            hint="request one GPU with mps in a claim, or "
            + ("set sharing.strategy to exclusive or timeSlicing" if share.whole else OTHER_CLASS),
        )
    if not share.whole and _before_volta(gpu.cuda_compute_capability):
        raise InputError(
            f"{subject}: MPS keeps no limits on GPUs before Volta, and this one's compute capability is "
            f"{gpu.cuda_compute_capability}",
            hint=f"{OTHER_CLASS}, or request the whole GPU",
        )
    if host.mps_control is None and not host.simulated:
        raise NodeError(
            f"{subject}: the node has no nvidia-cuda-mps-control, which strategy mps takes",
            hint="install it with the node's NVIDIA driver (package nvidia-compute-utils), or "
            + ("set sharing.strategy to exclusive or timeSlicing" if share.whole else OTHER_CLASS),
        )


def _before_volta(compute_capability: str | None) -> bool:
    major, _, minor = (compute_capability or "").partition(".")
    return major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) < _VOLTA


def _limits(share: GpuShare, settings: MpsSettings, subject: str) -> tuple[int | None, int | None]:
    """Return percent of the core and bytes of memory for each process; None is no limit.

    A whole GPU has the limits alone that its claim asks for, for its own containers.
    """
    core, memory = (None, None) if share.whole else (share.core or None, share.memory_bytes)
    asked_core, asked_memory = settings.active_thread_percentage, settings.pinned_device_memory_limit
    problems = []
    if asked_core is not None:
        if asked_core > (share.core or _ALL_CORE):
            problems.append(
                f"sharing.mps.activeThreadPercentage {asked_core} is above the share's core of {share.core} %"
            )
        core = asked_core
    if asked_memory is not None:
        memory = asked_memory.ceil()
        if share.memory_bytes is not None and memory > share.memory_bytes:
            problems.append(
                f"sharing.mps.pinnedDeviceMemoryLimit {asked_memory} is above the share's memory of "
                f"{shown_share(None, share.memory_bytes).removesuffix(' of memory')}"
            )
    if memory is not None and memory < _MEBI:
        problems.append(f"MPS limits memory in units of 1Mi, and {memory} bytes are less")
    if problems:
        raise InputError(f"{subject}: {'; '.join(problems)}", hint="lower the limit, or request a larger share")
    return core, memory


def _isolation(share: GpuShare, core: int | None, memory: int | None, host: IsolationHost) -> Isolation:
    limits = shown_share(core, memory) + (
        "" if memory is not None else "; memory is not limited: the GPU's is not known"
    )
    if core is None:
        limits += f"; {NO_CORE}"
    return Isolation(
        enforced=memory is not None,
        by="MPS",
        version=host.driver_version or share.gpu.driver_version,
        message=f"MPS limits each process to {limits}; processes of the claim together may use more, and so may a "
        "program that changes its own CUDA_MPS_* variables, or that runs as root and commands the daemon",
    )
