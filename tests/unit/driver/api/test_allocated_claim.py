"""The plugin's own reading of a claim says what the API's models say, of all that these accept."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from driver.api.allocated_claim import AllocatedClaim
from driver.api.resource_v1 import ResourceClaim
from driver.api.strict import StrictError, read

CLAIM: Final[dict[str, Any]] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "ns", "uid": "u", "annotations": {"a/b": "c"}, "resourceVersion": "7"},
    "spec": {
        "devices": {
            "requests": [
                {"name": "a", "exactly": {"deviceClassName": "gpu", "capacity": {"requests": {"core": "30"}}}},
                {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "y", "capacity": None}]},
            ],
            "config": [{"requests": ["a"], "opaque": {"driver": "rootport.dev", "parameters": {"kind": "GpuConfig"}}}],
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "a",
                        "driver": "rootport.dev",
                        "pool": "n",
                        "device": "gpu-0",
                        "adminAccess": False,
                        "shareID": "s",
                        "consumedCapacity": {"core": 30, "memory": "1Gi"},
                        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
                    }
                ],
                "config": [{"source": "FromClass", "opaque": {"driver": "other", "parameters": None}}],
            },
            "nodeSelector": {"nodeSelectorTerms": []},
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "q"}],
        "devices": [],
    },
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**40) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from paths(item, (*at, key))


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(CLAIM)
    here: Any = made
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    return made


def assert_same(plain: Any, model: Any) -> None:
    if is_dataclass(plain) and not isinstance(plain, type):
        for field in fields(plain):
            assert_same(getattr(plain, field.name), getattr(model, field.name))
    elif isinstance(plain, tuple):
        assert len(plain) == len(model)
        for one, other in zip(plain, model, strict=True):
            assert_same(one, other)
    else:
        assert plain == model


def test_a_claim_is_read_with_all_that_preparing_it_needs() -> None:
    plain = read(AllocatedClaim, CLAIM, ignore_unknown=True)
    assert_same(plain, ResourceClaim.model_validate(CLAIM, extra="ignore"))
    assert plain.status.allocation is not None
    assert str(plain.status.allocation.devices.results[0].consumed_capacity["core"]) == "30"
    assert str(plain.reference) == "ns/c (uid u)"


@given(st.sampled_from(list(paths(CLAIM))), _JSON)
def test_what_the_models_accept_is_read_alike_and_what_is_refused_they_refuse(
    path: tuple[Any, ...], value: Any
) -> None:
    document = changed(path, value)
    try:
        model = ResourceClaim.model_validate(document, extra="ignore")
    except ValidationError:
        model = None
    try:
        plain = read(AllocatedClaim, document, ignore_unknown=True)
    except StrictError:
        assert model is None
        return
    if model is not None:
        assert_same(plain, model)
