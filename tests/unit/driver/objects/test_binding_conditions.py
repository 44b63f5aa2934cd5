"""Which of a claim's devices kube-scheduler waits for, by the claim's own status."""

from __future__ import annotations

from typing import Any

import pytest

from driver.objects.binding_conditions import awaited_pools, unready_devices

NAMES = {"bindingConditions": ["Prepared"], "bindingFailureConditions": ["PreparationFailed"]}


def claim(*results: dict[str, Any], **conditions: list[dict[str, str]]) -> dict[str, Any]:
    """A claim with these results; conditions by the device's name."""
    devices = [
        {key: result[key] for key in ("driver", "pool", "device", "shareID") if key in result}
        | {"conditions": conditions[result["device"]]}
        for result in results
        if result["device"] in conditions
    ]
    return {"status": {"allocation": {"devices": {"results": list(results)}}, "devices": devices}}


def given(device: str, *, driver: str = "rootport.dev", pool: str = "n1", **fields: Any) -> dict[str, Any]:
    return {"request": "r", "driver": driver, "pool": pool, "device": device, **NAMES, **fields}


def condition(type_: str, status: str = "True", **fields: str) -> dict[str, str]:
    return {"type": type_, "status": status, **fields}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({}, set()),
        (claim({"request": "r", "driver": "rootport.dev", "pool": "n1", "device": "d"}), set()),
        (claim(given("d")), {"n1"}),
        (claim(given("d"), d=[condition("Prepared", "False")]), {"n1"}),
        (claim(given("d"), d=[condition("Isolated")]), {"n1"}),
        (claim(given("d"), d=[condition("Prepared")]), set()),
        (claim(given("d"), given("e"), d=[condition("Prepared")]), {"n1"}),
        (claim(given("d"), given("e"), d=[condition("PreparationFailed")]), set()),
        (claim(given("d", driver="example.com")), set()),
        (claim(given("d"), given("x", driver="example.com"), d=[condition("Prepared")]), set()),
        (claim(given("d", bindingConditions=["Prepared", "Other"]), d=[condition("Prepared")]), {"n1"}),
        (claim(given("d", adminAccess=True)), {"n1"}),
    ],
    ids=[
        "not allocated",
        "without conditions",
        "nothing reported",
        "not yet",
        "another condition",
        "prepared",
        "one of two",
        "one has failed",
        "another driver's",
        "only another driver's is left",
        "one of two conditions",
        "admin access",
    ],
)
def test_the_nodes_that_a_claim_waits_for(stored: dict[str, Any], expected: set[str]) -> None:
    assert awaited_pools(stored) == expected


def test_a_device_that_failed_has_the_reason() -> None:
    stored = claim(given("d"), d=[condition("PreparationFailed", reason="MigDeviceNotCreated", message="NVML says no")])
    (device,) = unready_devices(stored)
    assert (device.failed, device.reason, device.message) == (True, "MigDeviceNotCreated", "NVML says no")


def test_shares_of_one_device_are_told_apart() -> None:
    shares = [given("d", shareID="s1"), given("d", shareID="s2")]
    stored = claim(*shares)
    stored["status"]["devices"] = [
        {"driver": "rootport.dev", "pool": "n1", "device": "d", "shareID": "s1", "conditions": [condition("Prepared")]}
    ]
    assert len(unready_devices(stored)) == 1


@pytest.mark.parametrize(
    "stored",
    [
        {"status": "nonsense"},
        {"status": {"allocation": ["nonsense"]}},
        {"status": {"allocation": {"devices": {"results": "nonsense"}}}},
        {"status": {"allocation": {"devices": {"results": ["nonsense", None, 1, {}]}}}},
        claim(given("d", pool=7)),  # type: ignore[arg-type]
        claim(given("d", shareID=["s"])),
        claim(given("d", bindingConditions="Prepared")),
        claim(given("d", bindingConditions=[1, None])),
    ],
)
def test_what_is_no_device_is_passed_over(stored: dict[str, Any]) -> None:
    assert unready_devices(stored) == ()


@pytest.mark.parametrize(
    "reported",
    [
        "nonsense",
        ["nonsense", {}],
        [{"driver": "rootport.dev", "pool": [], "device": "d"}],
        [{"driver": "rootport.dev", "pool": "n1", "device": "d", "conditions": {"type": "Prepared"}}],
        [{"driver": "rootport.dev", "pool": "n1", "device": "d", "conditions": ["Prepared", {"status": "True"}]}],
        [
            {"driver": "rootport.dev", "pool": "n1", "device": "d"}
            | {"conditions": [{"type": ["Prepared"], "status": "True"}]}
        ],
    ],
)
def test_what_is_no_condition_makes_no_device_ready(reported: object) -> None:
    stored = claim(given("d"))
    stored["status"]["devices"] = reported
    assert awaited_pools(stored) == {"n1"}


def test_texts_of_other_drivers_are_bounded() -> None:
    broken = condition("PreparationFailed", reason="R" * 5000, message="m" * 50000)
    (device,) = unready_devices(claim(given("d", driver="example.com"), d=[broken]))
    assert (len(device.reason), len(device.message)) == (1024, 32768)
    (device,) = unready_devices(claim(given("d"), d=[broken | {"reason": 1, "message": None}]))  # type: ignore[dict-item]
    assert (device.reason, device.message) == ("", "")
