"""``hamiCore``: HAMi-core, a library between a program and CUDA that counts what the program allocates and launches.

Source of the names: Project-HAMi/HAMi-core, src/multiprocess/multiprocess_memory_limit.{c,h}, src/libvgpu.c,
src/utils.c, src/hostpid_fallback_lock.c, README.md; Project-HAMi/HAMi, nvinternal/plugin/server.go.

- The library looks for itself at ``/usr/local/vgpu/libvgpu.so``.
- Limits are ``CUDA_DEVICE_MEMORY_LIMIT`` (bytes, where it has no suffix) and ``CUDA_DEVICE_SM_LIMIT`` (percent; without
  it there is none). With a number behind the name they are for one ordinal; these have none and hold for every GPU of
  the container. A container may name several requests of a claim, and no request's plan knows the ordinals of all: so
  all shares of a claim by HAMi-core must be equal.
- ``/overrideEnv`` has lines ``NAME=value``, which replace the environment's: a shell from ``su``, or a program that was
  started without an environment, is limited as well. Older versions read them after the limits (HAMi-core#356).
- ``CUDA_DEVICE_MEMORY_SHARED_CACHE`` names the file in which the container's processes add up what they use: 2 MiB.
- ``/tmp/vgpulock`` has to be there: releases lock the file ``lock`` in it while a program finds out its process id on
  the host, by the processes that NVML sees come and go. HAMi gives all containers of a node one folder of the host, in
  which any of them can hold the lock for good, or fill the host's disk. Here it is a small file system of the
  container's own, which the kernel bounds and which goes with the container; the file above lies in it too. So two
  containers whose programs start at the same moment may mistake each other's process, as two pods may in HAMi where
  the lock is given up; later releases try again (``own_pid_candidates``).
- What is read beside these is left alone: ``CUDA_TASK_PRIORITY`` and ``CUDA_OVERSUBSCRIBE`` are for HAMi's monitor and
  its oversold memory, ``LIBVGPU_HOSTPID_BROKER`` for its broker.
"""

from __future__ import annotations

from typing import Final

from driver.api.claim_reference import ClaimReference
from driver.config import GpuSharing, HamiCoreSettings
from driver.errors import InputError, NodeError
from driver.plan.cdi import TMPFS, CdiMount
from driver.plan.isolation.gpu_shares import NO_CORE, OTHER_CLASS, WHOLE_GPU, is_nvidia, shown_share
from driver.plan.isolation.provider import (
    ClaimFile,
    GpuShare,
    HamiCoreLibrary,
    Isolation,
    IsolationHost,
    IsolationPlan,
)

__all__ = ["HamiCore"]

_LIBRARY: Final = "/usr/local/vgpu/libvgpu.so"
_ASSUMED: Final = HamiCoreLibrary(host_path=_LIBRARY, version="assumed")
_READ_ONLY: Final = ("ro", "nosuid", "nodev", "bind")
_LOCK_FOLDER: Final = "/tmp/vgpulock"  # noqa: S108 - HAMi-core's name for it
_LOCK_OPTIONS: Final = ("nosuid", "nodev", "noexec", "mode=1777", "size=16m", "nr_inodes=64")
"""For every user, as HAMi makes it. There is room for the file of what is used, eight times over."""

_ASSUMED_ONLY: Final = "it is assumed that the node has a HAMi-core that works"
_WAYS_AROUND: Final = (
    "containers of the claim together may use more, and so may a program that does not load the library: one that is "
    "linked statically, uses another C library than glibc, or calls NVIDIA's kernel driver itself"
)


class HamiCore:
    """A library that is loaded into each program of the container; none for a whole GPU."""

    strategy = "hamiCore"

    def plan(
        self,
        share: GpuShare,
        sharing: GpuSharing,
        host: IsolationHost,
        claim: ClaimReference,
        request: str,  # noqa: ARG002 - not asked by this strategy
        subject: str,
    ) -> IsolationPlan:
        """See :class:`~driver.plan.isolation.provider.IsolationProvider`."""
        if share.whole:
            return IsolationPlan(isolation=WHOLE_GPU, sharing=self.strategy)
        if not is_nvidia(share):
            raise InputError(
                f"{subject}: HAMi-core is for NVIDIA's GPUs, and this is one of vendor {share.gpu.vendor}",
                hint="leave out sharing.strategy, or select an NVIDIA GPU",
            )
        library = host.hami_core or (_ASSUMED if host.simulated else None)
        if library is None:
            why = f": {host.hami_core_problem}" if host.hami_core_problem else ""
            raise NodeError(
                f"{subject}: the node has no HAMi-core library that works, which strategy hamiCore takes{why}",
                hint=f"install HAMi-core's libvgpu.so on the node, or {OTHER_CLASS}",
            )
        policy = (sharing.hami_core or HamiCoreSettings()).core_policy
        env = _environment(share, policy, claim)
        preload = ClaimFile(relative_path=f"{claim.uid}/hami-core.preload", content=f"{_LIBRARY}\n".encode())
        limits = ClaimFile(
            relative_path=f"{claim.uid}/hami-core.env", content="".join(f"{line}\n" for line in env).encode()
        )
        return IsolationPlan(
            isolation=_isolation(share, policy, library, assumed=library is _ASSUMED),
            sharing=self.strategy,
            env=env,
            mounts=(
                CdiMount(host_path=library.host_path, container_path=_LIBRARY, options=_READ_ONLY),
                _file_mount(host, preload, "/etc/ld.so.preload"),
                _file_mount(host, limits, "/overrideEnv"),
                CdiMount(host_path=TMPFS, container_path=_LOCK_FOLDER, options=_LOCK_OPTIONS, type=TMPFS),
            ),
            files=(preload, limits),
        )


def _environment(share: GpuShare, policy: str, claim: ClaimReference) -> tuple[str, ...]:
    memory = () if share.memory_bytes is None else (f"CUDA_DEVICE_MEMORY_LIMIT={share.memory_bytes}",)
    return (
        *memory,
        *((f"CUDA_DEVICE_SM_LIMIT={share.core}",) if share.core else ()),
        f"GPU_CORE_UTILIZATION_POLICY={policy}",
        # HAMi-core takes CUDA's ordinals for NVML's when it reads how busy a GPU is; so they are in this order alone.
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        # By claim: the limits that one claim wrote into the file must not become another's.
        f"CUDA_DEVICE_MEMORY_SHARED_CACHE={_LOCK_FOLDER}/{claim.uid}.cache",
    )


def _file_mount(host: IsolationHost, file: ClaimFile, container_path: str) -> CdiMount:
    return CdiMount(
        host_path=f"{host.files_root}/{file.relative_path}", container_path=container_path, options=_READ_ONLY
    )


def _isolation(share: GpuShare, policy: str, library: HamiCoreLibrary, *, assumed: bool) -> Isolation:
    core = None if policy == "disable" or not share.core else share.core
    unlimited = [
        *(["the core is not limited: corePolicy is disable"] if share.core and core is None else []),
        *(["memory is not limited: the GPU's is not known"] if share.memory_bytes is None else []),
    ]
    return Isolation(
        enforced=not unlimited,
        by="HAMi-core",
        version=library.version,
        message="; ".join(
            (
                f"HAMi-core limits each container to {shown_share(core, share.memory_bytes)}",
                *(() if share.core else (NO_CORE,)),
                *unlimited,
                *((_ASSUMED_ONLY,) if assumed else ()),
                _WAYS_AROUND,
            )
        ),
    )
