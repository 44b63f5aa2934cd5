"""Tries a claim for GPUs and NICs on machines: with which scopes it fits, and which devices it would get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rich.console import Console

from driver.adapters.manifests.claims import read_manifest_text
from driver.allocator import AllocationError, Allocator
from driver.api.resource_v1 import DeviceClass, DeviceRequestAllocationResult, Node, ObjectMeta, ResourceClaim
from driver.api.validation.defaults import with_defaults
from driver.cli.render import console, table
from driver.layout.slices import resource_slices
from driver.model.alignment import group_on_last_rung
from driver.model.devices import DeviceType
from driver.model.distance import distance
from driver.model.inventory import Inventory, InventorySource
from driver.model.parts import AllocatableDevice, allocatable_devices, whole_device
from driver.pairs import PairsRequest, Scope, claim_spec
from driver.wording import plural
from resourceclasses import device_classes_text

__all__ = ["TriedMachines"]

_SCOPES: Final = (Scope.SWITCH, Scope.ROOT, Scope.NUMA)
_NO_ROOTS: Final = "not known: a topology file does not record PCIe roots"
_ANY_CLAIM: Final = ObjectMeta(name="pairs", namespace="default")


class TriedMachines:
    """Idle machines that claims are tried on; false where there is none.

    Args:
        inventories: The machines.
    """

    def __init__(self, inventories: Sequence[Inventory]) -> None:
        manifests = read_manifest_text(device_classes_text(), "resourceclasses").classes if inventories else ()
        classes = [manifest.device_class for manifest in manifests]
        self._machines = [_Machine(inventory, classes) for inventory in inventories]

    def __bool__(self) -> bool:
        return bool(self._machines)

    def nearest(self, pairs: PairsRequest) -> Scope | None:
        """Return the nearest scope with which all machines have room for the groups, or None."""
        if not self._machines:
            return None
        fitting = (
            scope for scope in _SCOPES if all(machine.fits(replace(pairs, scope=scope)) for machine in self._machines)
        )
        return next(fitting, None)

    def report(self, pairs: PairsRequest) -> int:
        """Print on stderr what the machines have room for, so that stdout is the claim alone.

        Returns:
            The exit code: 0 where every machine has room for the claim, else 1.
        """
        screen = console(stderr=True)
        fits = [machine.print_on(screen, pairs) for machine in self._machines]
        return 0 if all(fits) else 1


class _Machine:
    """An idle machine that claims are tried on."""

    def __init__(self, inventory: Inventory, classes: Sequence[DeviceClass]) -> None:
        self._inventory = inventory
        self._node = Node(metadata=ObjectMeta(name=inventory.node))
        self._allocator = Allocator(resource_slices(inventory), classes)
        self._devices: dict[str, AllocatableDevice] = {device.name: device for device in allocatable_devices(inventory)}
        self._tried: dict[PairsRequest, tuple[DeviceRequestAllocationResult, ...] | None] = {}

    def fits(self, pairs: PairsRequest) -> bool:
        """Whether the machine has room, as far as is known."""
        try:
            return self._allocate(pairs) is not None
        except AllocationError:
            return False

    def print_on(self, screen: Console, pairs: PairsRequest) -> bool:
        """Print what the machine has room for; return whether it has room for the claim."""
        screen.print(f"{self._inventory.node}:", style="bold")
        for scope in _SCOPES:
            screen.print(f"  --scope {scope.value:<6}  {self._answer(replace(pairs, scope=scope))}", soft_wrap=True)
        try:
            results = self._allocate(pairs)
        except AllocationError as error:
            screen.print(f"  no answer for this claim: {error}", style="red", soft_wrap=True)
            return False
        if results is None and self._may_share_roots(pairs):
            screen.print(f"  this claim: {_NO_ROOTS}", style="red", soft_wrap=True)
            return False
        if results is None:
            screen.print(f"  this claim: no room{self._shortage(pairs)}", style="red", soft_wrap=True)
            return False
        self._print(screen, results)
        return True

    def _shortage(self, pairs: PairsRequest) -> str:
        """Return what the machine has too few of, and what to ask for instead if that fits."""
        gpus = len(self._inventory.gpus)
        # A NIC with VFs is given by them alone, and of one NIC several shares can be given.
        nics = sum(len(nic.vfs) if pairs.virtual_functions else not nic.vfs for nic in self._inventory.nics)
        most_nics = pairs.nics if pairs.bandwidth is not None else min(nics, pairs.nics)
        most_gpus = min(gpus, pairs.gpus)
        if (most_gpus, most_nics) == (pairs.gpus, pairs.nics) or not (most_gpus and most_nics):
            return ""
        kind = "VF" if pairs.virtual_functions else "RDMA NIC"
        has = f": this machine has {plural(gpus, 'GPU')} and {plural(nics, kind)}"
        if max(most_gpus, most_nics) % min(most_gpus, most_nics):
            return has
        less = replace(pairs, scope=Scope.SWITCH, gpus=most_gpus, nics=most_nics, rails=pairs.rails[:most_nics])
        if not any(self.fits(replace(less, scope=scope)) for scope in _SCOPES):
            return has
        flags = [f"--gpus {most_gpus}"] if most_gpus < pairs.gpus else []
        flags += [f"--nics {most_nics}"] if most_nics < pairs.nics or most_gpus < pairs.gpus else []
        return f"{has}; use {' '.join(flags)}"

    def _answer(self, pairs: PairsRequest) -> str:
        if lacking := self._lacking(pairs):
            return f"no: {lacking}"
        devices = (*self._inventory.gpus, *self._inventory.nics)
        switches = {device.pcie.switch for device in devices} - {None}
        if pairs.scope is Scope.SWITCH and not switches:
            return "no: no PCIe switch is visible"
        if pairs.scope is Scope.NUMA and all(device.pcie.numa_node is None for device in devices):
            return "no: the NUMA nodes are not known"
        try:
            # The groups alone say what the machine can do: one group less is tried as long as it cannot.
            for groups in range(pairs.groups, 0, -1):
                fewer = replace(
                    pairs,
                    gpus=groups * pairs.gpus_each,
                    nics=groups * pairs.nics_each,
                    rails=pairs.rails[: groups * pairs.nics_each],
                )
                if self._allocate(fewer) is not None:
                    fitting = groups
                    break
            else:
                fitting = 0
            if fitting == pairs.groups:
                return "yes"
            some = f"for {fitting} of {pairs.groups} groups" if fitting else ""
            if self._may_share_roots(pairs):
                return f"{some}; of more it is {_NO_ROOTS}" if some else _NO_ROOTS
        except AllocationError as error:
            return f"no answer: {error}"
        return some or "no"

    def _may_share_roots(self, pairs: PairsRequest) -> bool:
        """Whether the groups may be below one PCIe root each, although that is not recorded."""
        if pairs.scope is not Scope.ROOT or self._inventory.source is not InventorySource.NCCL_TOPOLOGY:
            return False
        devices = (*self._inventory.gpus, *self._inventory.nics)
        # What is below one root is on one NUMA node.
        by_numa = replace(pairs, scope=Scope.NUMA)
        return any(device.pcie.numa_node is None for device in devices) or self._allocate(by_numa) is not None

    def _lacking(self, pairs: PairsRequest) -> str | None:
        """Return what the machine has none of, or what is not known of it, with any scope."""
        gpus, nics = self._inventory.gpus, self._inventory.nics
        if not gpus or not nics:
            return "no RDMA NIC" if gpus else "no GPU"
        if pairs.virtual_functions and not any(nic.vfs for nic in nics):
            return "no VFs are known: assume some with --vfs-per-nic"
        if not pairs.virtual_functions and all(nic.vfs for nic in nics):
            return "a NIC with VFs is given by its VFs alone: use --vf"
        if pairs.bandwidth is not None and not any(nic.speed_gbps for nic in nics):
            return "no link speed is known: give it with --nic-speed"
        if pairs.gpu_memory is not None and not any(gpu.memory_bytes for gpu in gpus):
            return "the GPUs' memory is not known: name their model with --gpu-model"
        rails = sorted({nic.rail for nic in nics if nic.rail is not None})
        if missing := [str(rail) for rail in pairs.rails if rail not in rails]:
            there = f"the rails are taken to be {', '.join(map(str, rails))}" if rails else "no rail is known"
            return f"no NIC is on rail {' or '.join(missing)}: {there}"
        return None

    def _allocate(self, pairs: PairsRequest) -> tuple[DeviceRequestAllocationResult, ...] | None:
        if pairs not in self._tried:
            asked = with_defaults(ResourceClaim(metadata=_ANY_CLAIM, spec=claim_spec(pairs)))
            found = self._allocator.allocate(self._node, [asked])
            self._tried[pairs] = None if found is None else found[0].devices.results
        return self._tried[pairs]

    def _print(self, screen: Console, results: Sequence[DeviceRequestAllocationResult]) -> None:
        grid = table("  NIC", "DEVICE", "GPU", "DEVICE", "DISTANCE")
        groups: dict[str, list[DeviceRequestAllocationResult]] = {}
        for result in results:
            groups.setdefault(result.request.partition("/")[0].rpartition("-")[2], []).append(result)
        for group in groups.values():
            for nic in (result for result in group if self._is(result, DeviceType.RDMA, DeviceType.RDMA_VF)):
                for gpu in (result for result in group if self._is(result, DeviceType.GPU)):
                    grid.add_row(f"  {nic.request}", nic.device, gpu.request, gpu.device, self._distance(nic, gpu))
        screen.print(grid)
        far = len({group_on_last_rung(result.request) for result in results} - {None})
        if far:
            say = "1 group is" if far == 1 else f"{far} groups are"
            screen.print(f"  {say} not aligned: nothing nearer is left on the machine", style="yellow", soft_wrap=True)

    def _is(self, result: DeviceRequestAllocationResult, *types: DeviceType) -> bool:
        return self._devices[result.device].type in types

    def _distance(self, nic: DeviceRequestAllocationResult, gpu: DeviceRequestAllocationResult) -> str:
        # A VF pool is where its NIC is.
        ends = (whole_device(self._devices[result.device]).address for result in (nic, gpu))
        return str(distance(self._inventory, *ends))
