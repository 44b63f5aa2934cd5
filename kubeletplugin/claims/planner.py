"""Plans claims on this node: :mod:`driver.plan` with the node's driver files, folders and means of isolation."""

from __future__ import annotations

import logging
import posixpath
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from driver import DRIVER_NAME
from driver.adapters.nvml.driver_files import driver_files_are_there, find_driver_files, kernel_driver_version
from driver.api.allocated_claim import AllocatedClaim
from driver.errors import InputError, NodeError
from driver.layout.strategies import offered_strategy
from driver.model.devices import DeviceName, MigInstance
from driver.model.inventory import Inventory
from driver.plan import Decision, DriverFiles, IsolationHost, PreparePlan, decide, finish
from driver.plan.host import NicHost
from kubeletplugin.node.hami_core_library import HamiCoreFile
from kubeletplugin.node.roots import Roots

if TYPE_CHECKING:
    from driver.adapters.files.no_policies import NoPolicies
    from driver.adapters.files.policies_in_force import PoliciesInForce
    from driver.api.gpu_policies import GpuPolicies

__all__ = ["ClaimPlanner"]

_LOG: Final = logging.getLogger(__name__)
_FRESH_S: Final = 60.0
_THERE_S: Final = 1.0
"""Seconds for which driver files that were there are taken to be: pods start several at a time."""

_NO_MPS: Final = (
    "the node has no nvidia-cuda-mps-control: install it with the node's NVIDIA driver (package nvidia-compute-utils)"
)
_RUNTIME_ROOT: Final = "/run/rootport"
_ALL_LIMITED: Final[Mapping[DeviceName, str]] = MappingProxyType({})


class ClaimPlanner:
    """Plans claims; safe to call from several threads.

    NVIDIA's driver files are looked for again when the driver was updated under the running plugin, and after a minute:
    the hook program, or a daemon's socket, may have come later than the driver (GPU Operator).

    Args:
        roots: Where the host is.
        metadata_dir: The folder for the files of claims, by the path that the host knows it by.
        runtime_root: The host's folder for what lives until the next boot.
        hami_core: The host's path of HAMi-core's ``libvgpu.so``; None where the node has none.
        has_cni_plugin: Whether Rootport's CNI plugin is part of the node's network configuration, now.
        gpu_policies: The file of the administrator's GpuPolicies; None for the defaults.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        metadata_dir: Path,
        runtime_root: str = _RUNTIME_ROOT,
        hami_core: Path | None = None,
        has_cni_plugin: Callable[[], bool] = lambda: False,
        gpu_policies: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._roots = roots
        self._policy_file = gpu_policies
        self._policies: PoliciesInForce[GpuPolicies] | None = None
        self._no_policies: NoPolicies | None = None
        self._metadata_dir = metadata_dir
        self._runtime_root = runtime_root
        self._hami_core = HamiCoreFile(roots, hami_core) if hami_core else None
        self._lock = threading.Lock()
        self._has_cni_plugin = has_cni_plugin
        self._clock = clock
        self._files: DriverFiles | None = None
        self._looked_at = 0.0
        self._there_at = float("-inf")

    def decide(
        self,
        claim: AllocatedClaim,
        inventory: Inventory,
        nics: NicHost,
        gpus_in_use: Mapping[DeviceName, str] = MappingProxyType({}),
    ) -> Decision:
        """Decide how to prepare a claim; nothing has been done when this fails.

        Args:
            claim: The claim.
            inventory: What the node has.
            nics: What claims hold of its NICs.
            gpus_in_use: How other claims share its GPUs, by the GPU.

        Raises:
            RootportError: As :func:`driver.plan.decide` does; and NodeError where the claim has an NVIDIA GPU, or a
                part of one, and its driver's files are not on the node, or the GpuPolicies never were right.
        """
        # For other devices the driver's files are not looked for: trouble with them must not keep a NIC from its claim.
        needed = _names_nvidia_gpu(claim, inventory)
        version = self._driver_version(inventory) if needed else None
        files = self._driver_files(version) if version else None
        nics = replace(nics, has_cni_plugin=self._has_cni_plugin())
        host = replace(self._isolation_host(version, files), in_use=gpus_in_use)
        if needed:  # else a mistake in the policies would keep a NIC from its claim
            host = replace(host, policies=self._gpu_policies(f"claim {claim.reference}"))
        if files is not None and _may_use_hami_core(claim, host.policies):  # to look at the library may take a while
            host = self._with_hami_core(host)
        decision = decide(claim, inventory, host=host, nics=nics)
        if files is None:
            self._refuse_nvidia(decision, version)
        return decision

    def finish(
        self,
        decision: Decision,
        mig_devices: Mapping[DeviceName, MigInstance],
        *,
        not_limited: Mapping[DeviceName, str] = _ALL_LIMITED,
    ) -> PreparePlan:
        """Make the plan for kubelet and runtime, after the decision's effects are done.

        Args:
            decision: From :meth:`decide`.
            mig_devices: What the effects have made, by the partition's name (:attr:`Decision.mig_effects`).
            not_limited: Why VFs could not be limited to their bandwidth, by the function's name.

        Raises:
            RootportError: As :func:`driver.plan.finish` does.
        """
        # Those that the decision was made with, or newer ones: they are not looked for twice for one claim.
        with self._lock:
            files = self._files if decision.has_nvidia_gpu else None
        if files is None:
            self._refuse_nvidia(decision, None)
        return finish(
            decision,
            mig_devices=mig_devices,
            not_limited=not_limited,
            driver_files=files,
            device_root=self._roots.device_root,
            metadata_root=str(self._metadata_dir),
        )

    def strategy_problems(self, inventory: Inventory | None) -> Mapping[str, str]:
        """Return what the node lacks for each strategy that its GPUs offer beside time slices; empty for nothing.

        Args:
            inventory: What the node has; None where that is not known yet.
        """
        if inventory is None:
            return {}
        try:
            policies = self._gpu_policies("the node's GPUs")
        except NodeError:
            return {}  # logged where the policies are read; without a word the GPUs are not given
        if policies is None:
            return {}
        offered = {
            offered_strategy(gpu, policies.of(model=gpu.model, node=inventory.node, address=gpu.address))
            for gpu in inventory.gpus
        } - {"timeSlicing"}
        if not offered:
            return {}
        version = self._driver_version(inventory)
        files = self._driver_files(version) if version else None
        if files is None:
            return dict.fromkeys(offered, "the files of NVIDIA's driver are not on the node")
        host = self._isolation_host(version, files)
        problems = {}
        if "mps" in offered:
            problems["mps"] = "" if host.mps_control else _NO_MPS
        if "hamiCore" in offered:
            host = self._with_hami_core(host)
            lacking = host.hami_core_problem or "the kubelet plugin is told of none (--hami-core)"
            problems["hamiCore"] = "" if host.hami_core else f"HAMi-core's library cannot be used: {lacking}"
        return problems

    def _gpu_policies(self, what: object) -> GpuPolicies | None:
        """Return the policies in force; a file that became invalid changes nothing."""
        if self._policy_file is None:
            return None
        # All of this not before, because of the memory: not every node has GPUs, and few clusters have policies.
        from driver.adapters.files.no_policies import NoPolicies  # noqa: PLC0415

        with self._lock:
            self._no_policies = self._no_policies or NoPolicies(self._policy_file, "GpuPolicies")
            if self._policies is None and self._no_policies.holds():
                return None  # by default all is allowed
            from driver.adapters.files.policies_in_force import PoliciesInForce  # noqa: PLC0415
            from driver.api.gpu_policies import DEFAULT_POLICIES  # noqa: PLC0415

            try:
                if self._policies is None:
                    self._policies = PoliciesInForce(
                        self._policy_file, default=DEFAULT_POLICIES, flag="--gpu-policies", clock=self._clock
                    )
                else:
                    self._policies.reload()
            except InputError as error:
                raise NodeError(
                    f"{what}: how its GPU may be shared is not known: {error.message}",
                    hint="the administrator's ConfigMap rootport-gpu-policies is wrong; the kubelet retries",
                ) from error
            return self._policies.now

    def _refuse_nvidia(self, decision: Decision, version: str | None) -> None:
        """Refuse an NVIDIA GPU without driver files: its container would start and find no CUDA driver."""
        gpu = next((device.allocated for device in decision.devices if device.allocated.is_nvidia_gpu), None)
        if gpu is not None:
            raise NodeError(
                f"{gpu.subject}: the files of NVIDIA's driver {version or '(none is loaded)'}, libcuda first, are "
                f"not below {self._roots.host.path / self._roots.driver_root.lstrip('/')}",
                hint="install the driver with its libraries on the node; where it is in a container of its own "
                "(GPU Operator), name its folder with --device-root",
            )

    def _isolation_host(self, version: str | None, files: DriverFiles | None) -> IsolationHost:
        programs = {posixpath.basename(file.container_path): file.host_path for file in (files.files if files else ())}
        return IsolationHost(
            driver_version=version,
            nvidia_smi=programs.get("nvidia-smi"),
            mps_control=programs.get("nvidia-cuda-mps-control"),
            runtime_root=self._runtime_root,
            files_root=str(self._metadata_dir),
        )

    def _with_hami_core(self, host: IsolationHost) -> IsolationHost:
        if self._hami_core is None:
            return host
        check = self._hami_core.checked()
        return replace(host, hami_core=check.library, hami_core_problem=check.problem)

    def _driver_version(self, inventory: Inventory) -> str | None:
        versions = (gpu.driver_version for gpu in inventory.gpus if gpu.vendor == "nvidia")
        nvml = next((version for version in versions if version), None)
        return kernel_driver_version(self._roots.hardware.fresh()) or nvml

    def _driver_files(self, version: str) -> DriverFiles | None:
        host = self._roots.host.fresh()
        with self._lock:
            known, now = self._files, self._clock()
            were_there = now - self._there_at < _THERE_S
            if not were_there:
                self._there_at = now
            if (
                known is None
                or known.version != version
                or now - self._looked_at > _FRESH_S
                or not (were_there or driver_files_are_there(host, known))
            ):
                self._looked_at = now
                self._files = find_driver_files(host, version, driver_root=self._roots.driver_root)
                found = len(self._files.host_paths) if self._files else 0
                if self._files != known:
                    _LOG.info("looked for NVIDIA's driver files", extra={"version": version, "files": found})
            return self._files


def _may_use_hami_core(claim: AllocatedClaim, policies: GpuPolicies | None) -> bool:
    """Whether parameters of the claim or its classes, or the policies, mention the strategy."""
    if policies is not None and any(policy.share_strategy == "hamiCore" for policy in policies.policies):
        return True
    entries = claim.status.allocation.devices.config if claim.status.allocation else ()
    parameters = (entry.opaque.parameters for entry in entries if entry.opaque and entry.opaque.driver == DRIVER_NAME)
    sharings = (found.get("sharing") for found in parameters if isinstance(found, dict))
    return any(
        isinstance(sharing, dict) and (sharing.get("strategy") == "hamiCore" or "hamiCore" in sharing)
        for sharing in sharings
    )


def _names_nvidia_gpu(claim: AllocatedClaim, inventory: Inventory) -> bool:
    """Whether a result names an NVIDIA GPU or a part of one: each of these names has the GPU's PCI address in it."""
    results = claim.status.allocation.devices.results if claim.status.allocation else ()
    ours = [result.device for result in results if result.driver == DRIVER_NAME]
    addresses = [gpu.name.removeprefix(f"{gpu.type}-") for gpu in inventory.gpus if gpu.vendor == "nvidia"]
    return any(address in name for name in ours for address in addresses)
