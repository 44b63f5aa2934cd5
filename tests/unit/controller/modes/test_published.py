"""Which devices of GPUs are published, by the stored slices."""

from __future__ import annotations

from typing import Any

from controller.modes.published import NOTHING, decisive_use, read_published
from driver.modes.rule import Layout

GPU, OTHER, PART = "gpu-0000-10-00-0", "gpu-0000-11-00-0", "mig-0000-10-00-0-1g-10gb-0"
CLOSED = {"key": "rootport.dev/mode-change", "effect": "NoSchedule"}
FOREIGN = {"key": "example.com/maintenance", "effect": "NoSchedule"}


def stored(**devices: list[dict[str, str]] | None) -> dict[str, Any]:
    names = {"gpu": GPU, "other": OTHER, "part": PART, "nic": "rdma-0000-20-00-0"}
    return {
        "spec": {
            "devices": [
                {"name": names[key]} | ({"taints": taints} if taints else {}) for key, taints in devices.items()
            ]
        }
    }


def test_devices_with_the_taint_are_closed_and_others_open_whatever_their_taints() -> None:
    found = read_published([stored(gpu=[FOREIGN, CLOSED], part=[FOREIGN], nic=[CLOSED]), {"spec": {}}])
    assert (found.opened, found.closed) == ({PART}, {GPU})


def test_what_is_open_in_one_of_two_slices_is_open() -> None:
    found = read_published([stored(gpu=None), stored(gpu=[CLOSED], part=[CLOSED])])
    assert (found.opened, found.closed) == ({GPU}, {PART})


def test_what_was_published_and_what_is_count_together() -> None:
    found = read_published([stored(gpu=[CLOSED])]) | read_published([stored(gpu=None, part=[CLOSED])])
    assert (found.opened, found.closed) == ({GPU}, {PART})
    assert NOTHING | found == found


def test_equal_nodes_share_one_object() -> None:
    assert read_published([stored(gpu=None)]) is read_published([stored(gpu=None)])


def test_use_decides_where_it_is_of_what_is_closed_or_not_published() -> None:
    published = read_published([stored(gpu=None, other=[CLOSED])])
    for layout in Layout:
        assert decisive_use(layout, published, {GPU}) == set()
        assert decisive_use(layout, published, {OTHER, PART, "rdma-0000-20-00-0"}) == {OTHER, PART}
