"""The observer of the real node sees a device that a claim and a device plugin's pod have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster.given_twice import given_twice

NAMES = {"GPU-1": "gpu-0000-13-00-0", "GPU-2": "gpu-0000-23-00-0"}


def claim(device: str, driver: str = "rootport.dev") -> dict[str, Any]:
    results = [{"driver": driver, "pool": "n", "device": device}]
    return {"metadata": {"namespace": "ml", "name": "c"}, "status": {"allocation": {"devices": {"results": results}}}}


@pytest.mark.parametrize("device", ["gpu-0000-13-00-0", "gpu-ratio-0000-13-00-0", "mig-0000-13-00-0-1g-10gb-19-0"])
def test_a_device_and_each_part_of_it_is_one_device(device: str) -> None:
    assert given_twice([claim(device)], {"GPU-1": "ml/p"}, NAMES) == [f"{device}: claim ml/c and pod ml/p"]


def test_different_devices_other_drivers_and_claims_without_devices_are_no_matter() -> None:
    held = {"GPU-2": "ml/p", "other": "ml/q"}
    free = {"metadata": {"namespace": "ml", "name": "free"}}
    assert given_twice([claim("gpu-0000-13-00-0"), claim("gpu-0000-23-00-0", "else"), free], held, NAMES) == []
