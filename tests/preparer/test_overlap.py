"""The one rule of who may have a device together, shares included: no plan gives any yet."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from preparer.machine import uid

from driver.errors import NodeError
from kubeletplugin.checkpoint import Entry, EntryDevice
from kubeletplugin.overlap import refuse_overlap


def entry(
    number: int, *, device: str = "gpu-0", share: str | None = None, admin: bool = False, boot: str = "boot-1"
) -> Entry:
    given = EntryDevice(
        request_names=("gpu",), pool="node-a", device=device, cdi_device_ids=(), share_id=share, admin_access=admin
    )
    return Entry(
        uid=uid(number),
        namespace="ml",
        name=f"claim-{number}",
        state="prepared",
        boot_id=boot,
        devices=(given,),
        cdi_spec="",
        metadata=(),
    )


@pytest.mark.parametrize(
    ("new", "held", "together"),
    [
        (entry(1), entry(2), False),
        (entry(1), entry(2, device="gpu-1"), True),
        (entry(1, admin=True), entry(2), True),
        (entry(1), entry(2, admin=True), True),
        (entry(1, share="a"), entry(2, share="b"), True),
        (entry(1, share="a"), entry(2, share="a"), False),
        (entry(1, share="a"), entry(2), False),
        (entry(1), entry(2, share="a"), False),
        (entry(1), entry(1), True),
        (entry(1, boot="boot-2"), entry(2), True),
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
        "of-an-earlier-boot",
    ],
)
def test_who_may_have_a_device_together(new: Entry, held: Entry, together: bool) -> None:
    outcome = nullcontext() if together else pytest.raises(NodeError, match="is still in use by claim ml/claim-2 ")
    with outcome:
        refuse_overlap(new, [entry(3, device="gpu-9"), held])
