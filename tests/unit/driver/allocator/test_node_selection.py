"""For which nodes something is."""

from __future__ import annotations

from typing import Any

import pytest

from driver.allocator import AllocationError
from driver.allocator.node_selection import matches_node
from driver.api.resource_v1 import NodeSelector
from tests.unit.driver.allocator.builders import node

NODE = node("node-1", zone="a", rank="7", mark="")


def matches(*terms: dict[str, Any]) -> bool:
    selector = NodeSelector.model_validate({"nodeSelectorTerms": terms})
    return matches_node(NODE, node_name=None, all_nodes=None, selector=selector)


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


def field(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": values}]}


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        pytest.param(label("zone", "In", "a", "b"), True, id="in"),
        pytest.param(label("zone", "In", "b"), False, id="in-others"),
        pytest.param(label("gone", "In", "a"), False, id="in-without-label"),
        pytest.param(label("zone", "NotIn", "b"), True, id="not-in"),
        pytest.param(label("zone", "NotIn", "a"), False, id="not-in-the-same"),
        pytest.param(label("gone", "NotIn", "a"), True, id="not-in-without-label"),
        pytest.param(label("zone", "Exists"), True, id="exists"),
        pytest.param(label("mark", "Exists"), True, id="exists-empty"),
        pytest.param(label("gone", "Exists"), False, id="exists-without-label"),
        pytest.param(label("gone", "DoesNotExist"), True, id="does-not-exist"),
        pytest.param(label("zone", "DoesNotExist"), False, id="does-not-exist-with-label"),
        pytest.param(label("rank", "Gt", "6"), True, id="greater"),
        pytest.param(label("rank", "Gt", "7"), False, id="greater-than-the-same"),
        pytest.param(label("rank", "Lt", "10"), True, id="less-as-number"),
        pytest.param(label("zone", "Gt", "1"), False, id="greater-of-no-number"),
        pytest.param(label("gone", "Lt", "1"), False, id="less-without-label"),
        pytest.param(field("metadata.name", "In", "node-1"), True, id="field-in"),
        pytest.param(field("metadata.name", "NotIn", "node-1"), False, id="field-not-in"),
        pytest.param(field("metadata.other", "In", "node-1"), False, id="unknown-field"),
        pytest.param({}, False, id="empty-term"),
        pytest.param(label("zone", "In", "a") | field("metadata.name", "In", "x"), False, id="both-must-hold"),
    ],
)
def test_a_term_matches_as_in_kubernetes(term: dict[str, Any], expected: bool) -> None:
    assert matches(term) is expected


def test_one_term_of_several_is_enough() -> None:
    assert matches(label("zone", "In", "b"), {}, label("rank", "Exists"))


def test_a_selector_without_terms_matches_nothing() -> None:
    assert not matches()


@pytest.mark.parametrize(
    ("term", "path"),
    [
        pytest.param(label("zone", "In"), "matchExpressions[0].values", id="in-nothing"),
        pytest.param(label("zone", "Exists", "a"), "matchExpressions[0].values", id="exists-with-value"),
        pytest.param(label("zone", "Gt", "high"), "matchExpressions[0].values", id="greater-than-text"),
        pytest.param(label("zone", "Gt", "9" * 19), "matchExpressions[0].values", id="greater-than-int64"),
        pytest.param(label("zone", "Like", "a"), "matchExpressions[0].operator", id="unknown-operator"),
        pytest.param(label("a key", "Exists"), "matchExpressions[0].key", id="bad-key"),
        pytest.param(label("zone", "In", "a b"), "matchExpressions[0].values[0]", id="bad-value"),
        pytest.param(field("metadata.name", "In", "a", "b"), "matchFields[0].values", id="two-names"),
        pytest.param(field("metadata.name", "Exists"), "matchFields[0].operator", id="field-operator"),
    ],
)
def test_an_invalid_term_is_an_error_even_beside_one_that_matches(term: dict[str, Any], path: str) -> None:
    with pytest.raises(AllocationError) as raised:
        matches(label("zone", "In", "a"), term)
    assert f"nodeSelectorTerms[1].{path}" in str(raised.value)


def test_a_node_name_goes_before_everything_else() -> None:
    assert matches_node(NODE, node_name="node-1", all_nodes=None, selector=None)
    assert not matches_node(NODE, node_name="node-2", all_nodes=True, selector=None)


def test_what_says_nothing_of_nodes_is_for_none() -> None:
    assert not matches_node(NODE, node_name="", all_nodes=False, selector=None)
