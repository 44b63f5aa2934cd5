"""The decision about a node, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.cluster.liveness import Liveness
from controller.slices.decision import Action, NodeFacts, decide

GOOD = NodeFacts(
    has_node=True,
    node_was_seen=True,
    missed_for_s=0,
    has_inventory=True,
    liveness=Liveness.FRESH,
    has_beaten=True,
    was_withdrawn=False,
)


@pytest.mark.parametrize(
    ("node", "action"),
    [
        pytest.param(GOOD, Action.PUBLISH, id="fresh"),
        pytest.param(replace(GOOD, has_beaten=False), Action.PUBLISH, id="first seen"),
        pytest.param(replace(GOOD, liveness=Liveness.QUIET), Action.KEEP, id="quiet"),
        pytest.param(replace(GOOD, liveness=Liveness.SILENT), Action.WITHDRAW_SILENT, id="silent"),
        pytest.param(
            replace(GOOD, was_withdrawn=True, has_beaten=False), Action.KEEP, id="dead node at a controller's start"
        ),
        pytest.param(replace(GOOD, was_withdrawn=True), Action.PUBLISH, id="a dead node is back"),
        pytest.param(replace(GOOD, has_inventory=False), Action.WITHDRAW_UNREPORTED, id="no inventory"),
        pytest.param(replace(GOOD, has_node=False), Action.FORGET, id="Node deleted"),
        pytest.param(
            replace(GOOD, has_node=False, node_was_seen=False, missed_for_s=59),
            Action.AWAIT_NODE,
            id="inventory before its Node",
        ),
        pytest.param(
            replace(GOOD, has_node=False, node_was_seen=False, missed_for_s=60), Action.FORGET, id="no Node ever"
        ),
    ],
)
def test_decision(node: NodeFacts, action: Action) -> None:
    assert decide(node, node_grace_s=60) is action
