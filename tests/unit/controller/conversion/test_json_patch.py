"""The difference of two documents, applied by the rules of RFC 6902."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.conversion.json_patch import json_patch
from tests.support.json_patch import patched

_SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "b"])
_KEYS = st.sampled_from(["a", "b", "a/b", "a~b", "~1", "", "0", "-"])
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner), max_leaves=12
)
_DOCUMENTS = st.dictionaries(_KEYS, _VALUES)


@given(_DOCUMENTS, _DOCUMENTS)
def test_the_patch_makes_the_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    made = patched(before, json_patch(before, after))
    assert made == after
    assert json_patch(made, after) == []


@given(_DOCUMENTS)
def test_what_is_equal_takes_no_patch(document: dict[str, Any]) -> None:
    assert json_patch(document, document) == []


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        pytest.param(
            {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}},
            {"limits": {"cpu": "1"}},
            [{"op": "remove", "path": "/limits/nvidia.com~1gpu"}],
            id="slash",
        ),
        pytest.param({}, {"a~b": 1}, [{"op": "add", "path": "/a~0b", "value": 1}], id="tilde"),
        pytest.param({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}], id="true-is-no-number"),
        pytest.param(
            {"a": [1, 2, 3]},
            {"a": [1]},
            [{"op": "remove", "path": "/a/2"}, {"op": "remove", "path": "/a/1"}],
            id="shorter-list",
        ),
        pytest.param(
            {"a": [{"b": 1}]},
            {"a": [{"b": 1, "c": 2}, 3]},
            [{"op": "add", "path": "/a/0/c", "value": 2}, {"op": "add", "path": "/a/-", "value": 3}],
            id="longer-list",
        ),
        pytest.param({"a": {"b": 1}}, {"a": [1]}, [{"op": "replace", "path": "/a", "value": [1]}], id="another-kind"),
    ],
)
def test_only_what_differs_is_in_it(before: dict[str, Any], after: dict[str, Any], operations: list[Any]) -> None:
    assert json_patch(before, after) == operations
