"""The conditions for which kube-scheduler waits (KEP-5007), in the status of a claim's devices."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import JsonObject
from driver.plan import PreparedDevice
from kubeletplugin.claims.device_status import device_statuses, failure_statuses, is_published
from kubeletplugin.claims.status import ClaimStatusPublisher
from tests.unit.kubeletplugin.claims.test_claim_status import MOMENT, NOW, allocated, prepared
from tests.unit.kubeletplugin.claims.test_claim_status import entry as claim_entry

NAMES = {"bindingConditions": ["Prepared"], "bindingFailureConditions": ["PreparationFailed"]}
WATCHED = replace(prepared(isolation=None), admin_access=True)


def test_a_prepared_device_meets_its_condition_and_keeps_the_time() -> None:
    device = prepared()
    claim = allocated(device)
    (entry,) = device_statuses([device], claim, now=NOW)
    assert [item["type"] for item in entry["conditions"]] == ["Isolated"], "nobody waits"

    claim["status"]["allocation"]["devices"]["results"][0].update(NAMES)
    entries = device_statuses([device], claim, now=NOW)
    isolated, ready = entries[0]["conditions"]
    assert (isolated["type"], ready["type"], ready["status"], ready["reason"]) == (
        "Isolated",
        "Prepared",
        "True",
        "Prepared",
    )
    assert not is_published(entries, claim)
    claim["status"]["devices"] = entries
    again = device_statuses([device], claim, now=NOW + timedelta(hours=1))
    assert again == entries
    assert is_published(again, claim)


def test_a_device_that_is_only_watched_meets_its_condition_as_well() -> None:
    claim = allocated(WATCHED)
    assert device_statuses([WATCHED], claim, now=NOW) == [], "nobody waits"

    claim["status"]["allocation"]["devices"]["results"][0].update(NAMES)
    entries = device_statuses([WATCHED], claim, now=NOW)
    (ready,) = entries[0]["conditions"]
    assert (ready["type"], ready["status"], ready["lastTransitionTime"]) == ("Prepared", "True", MOMENT)
    assert "data" not in entries[0]
    claim["status"]["devices"] = entries
    assert device_statuses([WATCHED], claim, now=NOW + timedelta(hours=1)) == entries
    assert is_published(entries, claim)


@pytest.mark.parametrize("device", [WATCHED, replace(WATCHED, admin_access=False)], ids=["watched", "FPGA"])
def test_a_claim_that_only_watches_is_read_to_see_whether_somebody_waits(device: PreparedDevice) -> None:
    class Api(KubernetesApi):
        def __init__(self) -> None:
            """No connection."""
            self.reads = 0
            self.written: list[JsonObject] = []

        def get(self, _resource: object, name: str, **_: Any) -> JsonObject:
            self.reads += 1
            claim = allocated(device)
            claim["status"]["allocation"]["devices"]["results"][0].update(NAMES)
            return {"metadata": {"name": name, "uid": name}, **claim}

        def apply(self, _resource: object, body: JsonObject, **_: Any) -> JsonObject:
            self.written += body["status"]["devices"]
            return body

    api = Api()
    ClaimStatusPublisher(api, entries=lambda: [replace(claim_entry("a"), devices=(device,))]).publish()
    assert api.reads == len(api.written) == int(device.admin_access)
    assert all(item["conditions"][0]["type"] == "Prepared" for item in api.written)


@pytest.mark.parametrize("order", [1, -1])
def test_a_device_that_a_claim_uses_and_watches_has_the_entry_of_its_use(order: int) -> None:
    used = prepared()
    devices = [WATCHED, used][::order]
    claim = allocated(*devices)
    for result in claim["status"]["allocation"]["devices"]["results"]:
        result.update(NAMES)
    (entry,) = device_statuses(devices, claim, now=NOW)
    assert entry == device_statuses([used], claim, now=NOW)[0]
    assert entry["data"]["gpu"] == used.device


def test_a_failure_is_told_of_each_device_that_has_a_condition_for_it_and_the_success_after_it_takes_it_back() -> None:
    waits, other = prepared(), prepared("gpu-0000-23-00-0", share=None)
    claim = allocated(waits, other)
    claim["status"]["allocation"]["devices"]["results"][0].update(NAMES)

    (entry,) = failure_statuses(claim, reason="MigDeviceNotCreated", message="m" * 40_000, now=NOW)

    assert (entry["device"], entry["shareID"]) == (waits.device, waits.share_id)
    (failed,) = entry["conditions"]
    assert (failed["type"], failed["status"], failed["reason"]) == ("PreparationFailed", "True", "MigDeviceNotCreated")
    assert len(failed["message"]) == 32_768

    claim["status"]["devices"] = [entry]
    entries = device_statuses([waits], claim, now=NOW)
    assert not is_published(entries, claim)
    assert "PreparationFailed" not in {item["type"] for item in entries[0]["conditions"]}
