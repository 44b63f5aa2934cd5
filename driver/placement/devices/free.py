"""How much of each GPU of a node is free, in thousandths."""

from __future__ import annotations

from collections.abc import Mapping

from driver import DRIVER_NAME
from driver.allocator.identity import DeviceId
from driver.allocator.ledger import Ledger
from driver.allocator.view import NodeView
from driver.placement.devices.layout import GpuPlace, NodeLayout
from driver.placement.shapes import WHOLE_GPU

__all__ = ["free_gpus", "share_of"]


def free_gpus(layout: NodeLayout, view: NodeView, ledger: Ledger) -> tuple[int, ...]:
    """Return the free thousandths of each GPU of the layout; none of one that new claims may not have.

    Of a GPU in shares that is what is left of the capacity of which least is left; of one in partitions, the memory
    slices that none of them has. Rounded up, so that a share that fits never seems too large.
    """
    pools = [pool.id.pool for pool in view.pools if pool.id.driver == DRIVER_NAME]
    if not any(ledger.in_use(pool.id) for pool in view.pools if pool.id.driver == DRIVER_NAME):
        return tuple([WHOLE_GPU if gpu.is_open else 0 for gpu in layout.gpus])
    whole = {name for pool in view.pools if pool.id.driver == DRIVER_NAME for name in ledger.whole_in(pool.id)}
    return tuple([_free(gpu, pools, whole, ledger) if gpu.is_open else 0 for gpu in layout.gpus])


def _free(gpu: GpuPlace, pools: list[str], whole: set[str], ledger: Ledger) -> int:
    if not whole.isdisjoint(gpu.whole):
        return 0
    used = sum(part for name, part in gpu.partitions if name in whole)
    for name, sizes in gpu.sizes:
        for pool in pools:
            consumed = ledger.consumed(DeviceId(DRIVER_NAME, pool, name))
            if consumed:
                used = max(used, share_of(consumed, dict(sizes)))
    return max(0, WHOLE_GPU - used)


def share_of(amounts: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """Return how many thousandths of a GPU amounts are: of the capacity of which they are most; rounded down.

    Args:
        amounts: Of capacities, in nano-units.
        sizes: How much there is of each.
    """
    parts = [WHOLE_GPU * amount // sizes[name] for name, amount in amounts.items() if sizes.get(name)]
    return min(WHOLE_GPU, max(parts, default=0))
