"""Decides which nodes a slice or a device is for.

Sources: k8s.io/component-helpers v0.37.2, scheduling/corev1/nodeaffinity (terms are ORed, an empty term matches
nothing, an invalid term makes the whole selector an error) and k8s.io/apimachinery v0.37.2, pkg/labels/selector.go
(what each operator means and demands).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from driver.allocator.errors import AllocationError
from driver.api.resource_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from driver.api.validation.names import label_key, label_value

__all__ = ["matches_node", "only_on"]

_NAME_FIELD: Final = "metadata.name"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def matches_node(node: Node, *, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> bool:
    """Whether something published for ``node_name``, all nodes or a selector can be used from ``node``.

    Raises:
        AllocationError: The selector is invalid; the message has the term and what is wrong with it.
    """
    if node_name:
        return node.metadata.name == node_name
    if all_nodes:
        return True
    if selector is None:
        return False
    terms = selector.node_selector_terms
    problems = [
        f"nodeSelectorTerms[{index}].{problem}" for index, term in enumerate(terms) for problem in _term_problems(term)
    ]
    if problems:
        raise AllocationError("invalid node selector: " + "; ".join(problems))
    return any(_term_matches(term, node) for term in terms)


@lru_cache(maxsize=8192)
def only_on(node: str) -> NodeSelector:
    """Return the selector of one node by its name; one object for many claims."""
    requirement = NodeSelectorRequirement(key=_NAME_FIELD, operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))


def _term_problems(term: NodeSelectorTerm) -> Iterator[str]:
    for index, requirement in enumerate(term.match_expressions):
        yield from _expression_problems(f"matchExpressions[{index}]", requirement)
    for index, requirement in enumerate(term.match_fields):
        path = f"matchFields[{index}]"
        if requirement.operator not in {"In", "NotIn"}:
            yield f"{path}.operator: {requirement.operator!r} is none of In, NotIn"
        elif len(requirement.values) != 1:
            yield f"{path}.values: must have one element"


def _expression_problems(path: str, requirement: NodeSelectorRequirement) -> Iterator[str]:
    operator, values = requirement.operator, requirement.values
    match operator:
        case "In" | "NotIn":
            if not values:
                yield f"{path}.values: must not be empty for {operator}"
        case "Exists" | "DoesNotExist":
            if values:
                yield f"{path}.values: must be empty for {operator}"
        case "Gt" | "Lt":
            if len(values) != 1 or _integer(values[0]) is None:
                yield f"{path}.values: must be one integer for {operator}"
        case _:
            yield f"{path}.operator: {operator!r} is none of In, NotIn, Exists, DoesNotExist, Gt, Lt"
            return
    yield from (str(error) for error in label_key(f"{path}.key", requirement.key))
    for index, value in enumerate(values):
        yield from (str(error) for error in label_value(f"{path}.values[{index}]", value))


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    if not all(_expression_matches(requirement, node.metadata.labels) for requirement in term.match_expressions):
        return False
    name = node.metadata.name
    # A node without a name has no fields at all, and then upstream does not look at them.
    return not name or all(_field_matches(requirement, name) for requirement in term.match_fields)


def _field_matches(requirement: NodeSelectorRequirement, name: str) -> bool:
    value = name if requirement.key == _NAME_FIELD else ""
    return (value in requirement.values) == (requirement.operator == "In")


def _expression_matches(requirement: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    # Gt and Lt: a label that is no integer matches neither.
    number, bound = _integer(value or ""), _integer(requirement.values[0])
    if number is None or bound is None:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _integer(text: str) -> int | None:
    """Return what Go's ``strconv.ParseInt(text, 10, 64)`` would; None for its errors."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
