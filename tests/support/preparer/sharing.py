"""Claims that have effects on GPUs, for the tests of the plugin's state."""

from __future__ import annotations

from driver.api.resource_v1 import ResourceClaim
from tests.support.plan.builders import claim, config, given, parameters
from tests.support.preparer.machine import device, uid

__all__ = ["mig_claim", "share_claim"]


def mig_claim(number: int, *places: tuple[int, int], profile: str = "1g-10gb") -> ResourceClaim:
    """Claim ``number``, which was given MIG partitions: (GPU, first slice) each."""
    results = [
        given(f"mig{index}", f"{device(gpu).replace('gpu-', 'mig-')}-{profile}-{start}")
        for index, (gpu, start) in enumerate(places)
    ]
    return claim(*results, uid=uid(number), name=f"claim-{number}")


def share_claim(
    number: int,
    *gpus: int,
    core: int = 50,
    memory: int = 40,
    ratio: bool = False,
    strategy: str | None = "mps",
    **settings: object,
) -> ResourceClaim:
    """Claim ``number``, which was given a share of each of some GPUs: percent, and GiB or percent of the memory."""
    consumed = {"core": str(core)} | ({"memoryRatio": str(memory)} if ratio else {"memory": f"{memory}Gi"})
    results = [
        given(
            f"gpu{index}",
            device(gpu).replace("gpu-", "gpu-ratio-") if ratio else device(gpu),
            shareID=uid(1000 + 10 * number + index),
            consumedCapacity=consumed,
        )
        for index, gpu in enumerate(gpus)
    ]
    sharing = {"strategy": strategy, **settings}
    configs = (config(parameters("GpuConfig", sharing=sharing)),) if strategy else ()
    return claim(*results, configs=configs, uid=uid(number), name=f"claim-{number}")
