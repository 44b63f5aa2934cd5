"""Which claims may have a device, a GPU or a NIC together."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TypeAlias

import pytest

from driver.api.claim_reference import ClaimReference
from driver.errors import InputError, NodeError
from driver.model.devices import DeviceName, DeviceType, MigPlacement
from driver.plan.sharing import refuse_double_use, refuse_overlap
from driver.plan.uses import GpuUse, HeldDevice, NicUse
from tests.support.preparer.machine import uid

GIB = 2**30


def use(
    core: int | None = 40,
    memory: int | None = 20,
    *,
    mode: DeviceType = DeviceType.GPU,
    sharing: str = "mps",
    gpu: str = "gpu-0",
    start: int | None = None,
    card: int | None = 80,
    whole: bool = False,
) -> GpuUse:
    mig = start is not None
    return GpuUse(
        gpu=DeviceName(gpu),
        mode=DeviceType.MIG if mig else mode,
        whole=whole,
        sharing="" if mig else sharing,
        core=None if mig else core,
        memory_bytes=None if memory is None else memory * GIB,
        placement=MigPlacement(start=start, size=2) if start is not None else None,
        gpu_memory_bytes=None if card is None else card * GIB,
    )


Claim: TypeAlias = tuple[HeldDevice, ...]


def held_device(
    number: int,
    *,
    device: str,
    share: str | None,
    admin: bool = False,
    gpu_use: GpuUse | None = None,
    nic_use: NicUse | None = None,
) -> HeldDevice:
    return HeldDevice(
        claim=ClaimReference(namespace="ml", name=f"claim-{number}", uid=uid(number)),
        requests=("gpu",),
        pool="node-a",
        device=device,
        share_id=share,
        admin_access=admin,
        gpu_use=gpu_use,
        nic_use=nic_use,
    )


def claim(
    number: int,
    *uses: GpuUse,
    device: str = "gpu-0",
    share: str | None = None,
    admin: bool = False,
) -> Claim:
    """A claim with one device that is no GPU; or with one device a use, each a share of its own."""
    if not uses:
        return (held_device(number, device=device, share=share, admin=admin),)
    return tuple(
        held_device(
            number,
            device=f"{item.mode}-{item.gpu}-{item.placement and item.placement.start}",
            share=f"{number}-{index}",
            admin=admin,
            gpu_use=item,
        )
        for index, item in enumerate(uses)
    )


def check(new: Claim, *others: Claim) -> None:
    refuse_overlap(new[0].claim, new, [item for each in (new, *others) for item in each])


@pytest.mark.parametrize(
    ("new", "held", "together"),
    [
        (claim(1), claim(2), False),
        (claim(1), claim(2, device="gpu-1"), True),
        (claim(1, admin=True), claim(2), True),
        (claim(1), claim(2, admin=True), True),
        (claim(1, share="a"), claim(2, share="b"), True),
        (claim(1, share="a"), claim(2, share="a"), False),
        (claim(1, share="a"), claim(2), False),
        (claim(1), claim(2, share="a"), False),
        (claim(1), claim(1), True),
    ],
    ids=[
        "both-whole",
        "another-device",
        "watches",
        "is-watched",
        "two-shares",
        "one-share-twice",
        "share-of-a-whole",
        "whole-of-a-share",
        "the-claim-itself",
    ],
)
def test_who_may_have_a_device_together(new: Claim, held: Claim, together: bool) -> None:
    outcome = nullcontext() if together else pytest.raises(NodeError, match="is still in use by claim ml/claim-2 ")
    with outcome:
        check(new, claim(3, device="gpu-9"), held)


RATIO = DeviceType.GPU_RATIO
WHOLE = use(0, 80, whole=True)


GPU_USES = pytest.mark.parametrize(
    ("new", "held", "why"),
    [
        (use(), use(), None),
        (use(60, 60), use(), None),
        (use(gpu="gpu-1"), WHOLE, None),
        (use(61), use(), None),
        (use(0), use(0), None),
        (use(100), use(100), None),
        (use(60, 61), use(), f"{81 * GIB} of its {80 * GIB} bytes"),
        (use(60, 61, card=None), use(card=None), None),
        (use(61, None, card=None), use(40, None, card=None), "101 percent of its core"),
        (use(60, 61, card=None), use(), f"{81 * GIB} of its {80 * GIB} bytes"),
        (use(60, None), use(40, 90), f"{90 * GIB} of its"),
        (WHOLE, use(), "that one has a share, and this one wants all of it"),
        (use(), replace(WHOLE, sharing="exclusive"), "that one has all of it, and this one wants a share"),
        (use(mode=RATIO), use(), "that one has a share, and this one wants a share by percent of memory"),
        (use(mode=RATIO), use(mode=RATIO), None),
        (use(mode=RATIO, core=61), use(mode=RATIO), None),
        (use(), use(sharing="timeSlicing interval=Long"), "kept apart by 'timeSlicing interval=Long', .* by 'mps'"),
        (use(start=0), use(), "that one has a share, and this one wants the MIG partition on slices 0 to 1"),
        (use(), use(start=0), "that one has the MIG partition on slices 0 to 1, and this one wants a share"),
        (use(start=0), use(start=2), None),
        (use(start=3), use(start=2), "the MIG partition on slices 2 to 3, which overlaps the MIG .* slices 3 to 4"),
        (use(start=2), use(start=2), "which overlaps"),
    ],
    ids=[
        "two-shares",
        "all-of-it-in-two",
        "another-gpu",
        "core-promised-twice",
        "no-core",
        "all-of-the-core",
        "memory-oversold",
        "card-not-known",
        "core-of-a-card-not-known",
        "card-known-by-one",
        "memory-of-one-not-known",
        "whole-beside-a-share",
        "share-beside-a-whole",
        "ratio-beside-bytes",
        "two-ratios",
        "core-of-ratios-promised-twice",
        "two-strategies",
        "mig-beside-a-share",
        "share-beside-mig",
        "two-partitions",
        "partitions-overlap",
        "one-partition-twice",
    ],
)


@GPU_USES
def test_who_may_use_a_gpu_together(new: GpuUse, held: GpuUse, why: str | None) -> None:
    others = [claim(3, replace(WHOLE, gpu=DeviceName("gpu-9"))), claim(2, held)]
    check(claim(1, new, admin=True), *others)
    check(claim(1, new), claim(2, held, admin=True))
    if why is None:
        check(claim(1, new), *others)
        return
    with pytest.raises(NodeError, match=why) as caught:
        check(claim(1, new), *others)
    assert "claim ml/claim-1 (uid" in caught.value.message
    assert "claim ml/claim-2 (uid" in caught.value.message
    assert "gpu-0" in caught.value.message
    assert caught.value.hint
    assert caught.value.retry_helps


@GPU_USES
def test_one_claim_may_use_a_gpu_as_two_claims_may(new: GpuUse, held: GpuUse, why: str | None) -> None:
    together = [
        held_device(1, device=f"{item.mode}-{n}", share=str(n), gpu_use=item) for n, item in enumerate((held, new))
    ]
    is_refused = why is not None and "kept apart" not in why  # one claim's sharing is compared when it is decided
    with pytest.raises(InputError) if is_refused else nullcontext():
        refuse_double_use(together)


def test_shares_of_many_claims_are_counted_together() -> None:
    others = [claim(number, use(30, 20)) for number in (2, 3, 4)]
    check(claim(1, use(30, 20)), *others)
    with pytest.raises(NodeError, match=f"{81 * GIB} of its {80 * GIB} bytes"):
        check(claim(1, use(20, 10), use(10, 11)), *others)


def nic_use(
    nic: str = "rdma-0",
    vf: str | None = None,
    bandwidth: int | None = None,
    of: int | None = 100,
    ratio: int | None = None,
) -> NicUse:
    return NicUse(
        nic=DeviceName(nic),
        vf=DeviceName(vf) if vf else None,
        bandwidth=bandwidth,
        nic_bandwidth=of,
        bandwidth_ratio=ratio,
    )


def nic_claim(number: int, *uses: NicUse, admin: bool = False, shared: bool = True) -> Claim:
    """A claim with one device a use, each a share of its own; or each with a device of its own."""
    return tuple(
        held_device(
            number,
            device="rdma-vfs-0" if shared else f"rdma-vf-{number}-{index}",
            share=f"{number}-{index}" if shared else None,
            admin=admin,
            nic_use=item,
        )
        for index, item in enumerate(uses)
    )


@pytest.mark.parametrize(
    ("new", "held", "why"),
    [
        (nic_use(vf="vf-1"), nic_use(vf="vf-2"), None),
        (nic_use(vf="vf-1"), nic_use(vf="vf-1"), "has its virtual function vf-1, and this one would be given the same"),
        (nic_use(vf="vf-1"), nic_use("", vf="vf-1"), "would be given the same"),
        (nic_use(vf="vf-1"), nic_use("", vf="vf-2"), None),
        (nic_use(), nic_use(vf="vf-1"), "that one has its virtual function vf-1, and this one wants all of it"),
        (nic_use(bandwidth=1), nic_use(vf="vf-1"), "and this one wants a share of its bandwidth"),
        (nic_use(vf="vf-1"), nic_use(), "that one has all of it, and this one wants its virtual function vf-1"),
        (nic_use(), nic_use(bandwidth=1), "that one has a share of its bandwidth, and this one wants all of it"),
        (nic_use(bandwidth=1), nic_use(), "that one has all of it, and this one wants a share of its bandwidth"),
        (nic_use(), nic_use("rdma-1"), None),
        (nic_use(bandwidth=40), nic_use(bandwidth=60), None),
        (nic_use(bandwidth=41), nic_use(bandwidth=60), "101 of its 100 bits per second"),
        (nic_use(bandwidth=41, of=None), nic_use(bandwidth=60), "101 of its 100 bits per second"),
        (nic_use(bandwidth=41, of=None), nic_use(bandwidth=60, of=None), None),
        (nic_use(bandwidth=41), nic_use("rdma-1", bandwidth=60), None),
        (nic_use(ratio=50, of=None), nic_use(ratio=50, of=None), None),
        (nic_use(ratio=51, of=None), nic_use(ratio=50, of=None), "101 percent of its bandwidth"),
        (nic_use(ratio=51), nic_use(ratio=50), "101 percent of its bandwidth"),
        (nic_use(ratio=1, of=None), nic_use(of=None), "that one has all of it"),
        (nic_use(ratio=50), nic_use(bandwidth=50), None),
        (nic_use(ratio=50), nic_use(bandwidth=51), "101 of its 100 bits per second"),
        (nic_use(vf="vf-1", bandwidth=40), nic_use(vf="vf-2", bandwidth=60), None),
        (nic_use(vf="vf-1", bandwidth=41), nic_use(vf="vf-2", bandwidth=60), "101 of its 100 bits per second"),
        (nic_use(vf="vf-1"), nic_use(vf="vf-2", bandwidth=100), None),
    ],
    ids=[
        "two-vfs",
        "one-vf-twice",
        "one-vf-by-name-and-from-a-pool",
        "another-vf-of-an-older-version",
        "nic-beside-its-vf",
        "share-beside-a-vf",
        "vf-of-a-nic",
        "whole-beside-a-share",
        "share-beside-a-whole",
        "another-nic",
        "all-of-it-in-two",
        "oversold",
        "speed-known-by-one",
        "speed-not-known",
        "shares-of-two-nics",
        "all-of-it-in-percent",
        "percent-oversold",
        "percent-oversold-speed-known",
        "percent-beside-whole",
        "two-units",
        "two-units-oversold",
        "vfs-reserve-all",
        "vfs-oversold",
        "vf-without-bandwidth",
    ],
)
@pytest.mark.parametrize("shared", [True, False], ids=["of-one-device", "of-two-devices"])
def test_who_may_use_a_nic_together(new: NicUse, held: NicUse, why: str | None, shared: bool) -> None:
    others = [nic_claim(3, nic_use("rdma-9")), nic_claim(2, held, shared=shared)]
    check(nic_claim(1, new, admin=True), *others)
    check(nic_claim(1, new), nic_claim(2, held, admin=True))
    if why is None:
        check(nic_claim(1, new), *others)
        return
    with pytest.raises(NodeError, match=why) as caught:
        check(nic_claim(1, new), *others)
    assert "claim ml/claim-1 (uid" in caught.value.message
    assert "claim ml/claim-2 (uid" in caught.value.message
    assert "NIC rdma-0" in caught.value.message
    assert caught.value.hint


def test_shares_of_a_nic_are_counted_together() -> None:
    others = [nic_claim(number, nic_use(bandwidth=30)) for number in (2, 3, 4)]
    check(nic_claim(1, nic_use(bandwidth=10)), *others)
    with pytest.raises(NodeError, match="101 of its 100 bits per second"):
        check(nic_claim(1, nic_use(bandwidth=10), nic_use(bandwidth=1)), *others)
