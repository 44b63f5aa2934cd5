"""An allocated claim + the node's inventory → its whole plan, where nothing has to be done in between."""

from __future__ import annotations

from driver.api.resource_v1 import ResourceClaim
from driver.model.inventory import Inventory
from driver.plan.decide import decide
from driver.plan.driver_files import DriverFiles
from driver.plan.finish import PreparePlan, finish
from driver.plan.isolation.interface import IsolationHost
from driver.plan.nic_host import NicHost

__all__ = ["prepare_plan"]

_NO_HOST = IsolationHost()
_NO_NIC_HOST = NicHost()


def prepare_plan(
    claim: ResourceClaim,
    inventory: Inventory,
    *,
    assume_minors: bool = False,
    driver_files: DriverFiles | None = None,
    device_root: str = "",
    metadata_root: str | None = None,
    host: IsolationHost = _NO_HOST,
    nics: NicHost = _NO_NIC_HOST,
) -> PreparePlan:
    """:func:`driver.plan.decide` and :func:`driver.plan.finish` in one, with what they take and raise.

    A plugin does the decision's effects between the two. This one is for simulation, which assumes the MIG devices
    (``assume_minors``), and for claims without.
    """
    decision = decide(claim, inventory, assume_minors=assume_minors, host=host, nics=nics)
    return finish(
        decision, mig_devices={}, driver_files=driver_files, device_root=device_root, metadata_root=metadata_root
    )
