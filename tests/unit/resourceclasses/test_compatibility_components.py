"""The components of compatibility name what the code writes."""

from __future__ import annotations

import json
from typing import Any

import yaml

from driver.objects.node_labels import NODE_LABELS
from driver.status.device_allocated import DEVICE_ALLOCATED
from tests.support.installation import FOLDER, document

COMPONENTS = FOLDER / "components"


def test_the_policy_of_nodes_has_the_labels_that_the_controller_writes() -> None:
    policy, binding = yaml.safe_load_all((COMPONENTS / "node-labels/policy.yaml").read_text())
    assert json.loads(policy["spec"]["variables"][0]["expression"]) == list(NODE_LABELS)
    assert (policy["spec"]["failurePolicy"], binding["spec"]["validationActions"]) == ("Fail", ["Deny"])
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_the_policy_of_pods_gets_the_annotation_that_the_controller_writes() -> None:
    patches = yaml.safe_load((COMPONENTS / "pod-annotations/kustomization.yaml").read_text())["patches"]
    (patch,) = (item for item in patches if item["target"]["name"] == "rootport-leader-label")
    test, replace = yaml.safe_load(patch["patch"])
    variables: list[dict[str, Any]] = document("ValidatingAdmissionPolicy", "rootport-leader-label")["spec"][
        "variables"
    ]
    assert variables[0] == {"name": test["value"], "expression": "[]"}
    assert replace["path"] == "/spec/variables/0/expression"
    assert json.loads(replace["value"]) == [DEVICE_ALLOCATED]
