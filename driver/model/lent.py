"""Keeps what is known of a NIC's function while a pod has it: sysfs shows only the host's network namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from driver.model.devices import RdmaFunction, RdmaNetnsMode, RdmaNic, RdmaVf
from driver.model.inventory import Inventory
from driver.model.rails import with_rails

__all__ = ["LentNames", "with_lent"]

_F = TypeVar("_F", RdmaNic, RdmaVf)


@dataclass(frozen=True, slots=True, kw_only=True)
class LentNames:
    """What the lender knows of a function that it lends, for the time after a restart.

    Attributes:
        interface: The network interface's name on the host; None where none is lent, or where it is not known.
        rdma_device: The RDMA device that is lent along; None as above.
    """

    interface: str | None = None
    rdma_device: str | None = None


def with_lent(now: Inventory, former: Inventory | None, lent: Mapping[str, LentNames]) -> Inventory:
    """Return the inventory in which a lent function has what was known of it before it was lent.

    Its interfaces are those of the former inventory: until it is given back, sysfs may show none of them, or one under
    the name that it had in the pod. Where RDMA devices are in one network namespace each, what sysfs does not show of
    the RDMA device is taken over as well: its name, ports, device nodes and model. Where they are shared, sysfs shows
    them whoever has them, and is believed. A function that is gone from the PCI tree is gone.

    Args:
        now: What is seen now.
        former: What was known before; None after a restart, when ``lent`` is all there is.
        lent: The functions that are lent, by their names in the pool.
    """
    if not any(function.name in lent for nic in now.nics for function in (nic, *nic.vfs)):
        return now
    before = {function.name: function for nic in former.nics for function in (nic, *nic.vfs)} if former else {}
    hides_devices = now.rdma_netns_mode is RdmaNetnsMode.EXCLUSIVE

    def known(function: _F) -> _F:
        names = lent.get(function.name)
        if names is None:
            return function
        return _known(function, before.get(function.name), names, hides_devices=hides_devices)

    nics = (replace(known(nic), vfs=tuple(known(vf) for vf in nic.vfs)) for nic in now.nics)
    # A NIC's rail follows from what it is.
    return replace(now, nics=with_rails(nics))


def _known(function: _F, before: RdmaFunction | None, names: LentNames, *, hides_devices: bool) -> _F:
    if_names = before.if_names if before is not None else ()
    if not if_names:
        if_names = tuple(sorted({*function.if_names, *filter(None, (names.interface,))}))
    kept = replace(function, if_names=if_names)
    if not hides_devices:
        return kept
    before = before or function
    return replace(
        kept,
        rdma_device=function.rdma_device or before.rdma_device or names.rdma_device,
        model=function.model or before.model,
        # Of a hidden device sysfs shows that it has ports, and not how they are.
        ports=before.ports if function.link_is_up is None and before.ports else function.ports,
        # Numbers that are reported now are right: the kernel makes the nodes anew when it moves the device.
        verbs_minor=before.verbs_minor if function.verbs_minor is None else function.verbs_minor,
        umad_minors=function.umad_minors or before.umad_minors,
        issm_minors=function.issm_minors or before.issm_minors,
    )
