"""Plans a claim in one step, where nothing has to be done to the node in between."""

from __future__ import annotations

from driver.api.allocated_claim import AnyClaim
from driver.model.inventory import Inventory
from driver.plan.decide import decide
from driver.plan.driver_files import DriverFiles
from driver.plan.finish import PreparePlan, finish
from driver.plan.host import NicHost
from driver.plan.isolation.provider import IsolationHost

__all__ = ["prepare_plan"]

_NO_HOST = IsolationHost()
_NO_NIC_HOST = NicHost()


def prepare_plan(
    claim: AnyClaim,
    inventory: Inventory,
    *,
    assume_minors: bool = False,
    driver_files: DriverFiles | None = None,
    device_root: str = "",
    metadata_root: str | None = None,
    host: IsolationHost = _NO_HOST,
    nics: NicHost = _NO_NIC_HOST,
) -> PreparePlan:
    """Return a claim's whole plan: :func:`driver.plan.decide` and :func:`driver.plan.finish` in one.

    A plugin does the decision's effects between the two. This is for simulation, which assumes the MIG devices
    (``assume_minors``), and for claims without.
    """
    decision = decide(claim, inventory, assume_minors=assume_minors, host=host, nics=nics)
    return finish(
        decision, mig_devices={}, driver_files=driver_files, device_root=device_root, metadata_root=metadata_root
    )
