"""Reading a claim: whose fault it is when that fails, asked of a real API server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from driver.adapters.kubernetes.resources import JsonObject
from driver.errors import InputError
from kubeletplugin.claims.preparer import ClaimGoneError
from kubeletplugin.claims.reader import ClaimReader
from tests.support.preparer.machine import gpu_claim

# Answers that no API server of today gives


class Answer:
    """An API whose ``get`` gives one answer: what the wire could bring from a later Kubernetes."""

    def __init__(self, change: Callable[[JsonObject], object]) -> None:
        self.body = gpu_claim(1).to_wire() | {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        change(self.body)

    def get(self, *_: object, **__: object) -> JsonObject:
        return self.body


def test_fields_of_a_later_kubernetes_are_ignored() -> None:
    def change(body: JsonObject) -> None:
        body["status"]["later"] = {"a": 1}
        body["status"]["allocation"]["devices"]["results"][0]["later"] = True

    claim = ClaimReader(Answer(change))(gpu_claim(1).reference)  # type: ignore[arg-type]
    result, expected = claim.status.allocation.devices.results[0], gpu_claim(1).status.allocation.devices.results[0]
    fields = ("request", "driver", "pool", "device", "admin_access", "share_id", "consumed_capacity")
    assert [getattr(result, name) for name in fields] == [getattr(expected, name) for name in fields]


def test_an_answer_that_is_no_claim_is_told_with_the_field() -> None:
    def change(body: JsonObject) -> None:
        body["status"]["allocation"]["devices"]["results"][0]["device"] = 7

    with pytest.raises(InputError, match=r"status\.allocation\.devices\.results\[0\]\.device: ") as caught:
        ClaimReader(Answer(change))(gpu_claim(1).reference)  # type: ignore[arg-type]
    assert str(gpu_claim(1).reference) in caught.value.message
    assert not isinstance(caught.value, ClaimGoneError)
