"""What Rootport's service accounts may do, asked from a real API server: this table and nothing more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.needs_go

Right = tuple[str, str, str]  # resource with its group, verb, name or *

_EVERYWHERE = {
    "rootport-kubelet-plugin": {
        "nodes": "get list watch",
        "nodeinventories.rootport.dev": "get list watch create patch",
        "nodeinventories/status.rootport.dev": "patch",
        "resourceclaims.resource.k8s.io": "get",
        "resourceclaims/status.resource.k8s.io": "patch",
        "resourceclaims/driver.resource.k8s.io rootport.dev": "associated-node:patch",
        "resourceslices.resource.k8s.io": "list watch",
    },
    "rootport-controller": {
        "nodes": "get list watch",
        "nodeinventories.rootport.dev": "get list watch delete",
        "nodeinventories/status.rootport.dev": "patch",
        "devices.rootport.dev": "get list watch create patch delete",
        "events.events.k8s.io": "create",
        "devices/status.rootport.dev": "patch",
        "resourceclaims.resource.k8s.io": "get list watch patch",
        "deviceclasses.resource.k8s.io": "list watch",
        "resourceclaimtemplates.resource.k8s.io": "list watch",
        "devicetaintrules.resource.k8s.io": "list watch",
        "pods": "get list watch",
        "resourceslices.resource.k8s.io": "get list watch create update delete",
        "tokenreviews.authentication.k8s.io": "create",
        "subjectaccessreviews.authorization.k8s.io": "create",
    },
}
_IN_ITS_NAMESPACE = {
    "rootport-kubelet-plugin": {"leases.coordination.k8s.io": "create patch"},
    "rootport-controller": {
        "leases.coordination.k8s.io": "get list watch create delete",
        "leases.coordination.k8s.io rootport-controller": "update",
        "pods": "patch",
    },
}
_ACCOUNTS = sorted(_EVERYWHERE)


@pytest.mark.parametrize("account", _ACCOUNTS)
def test_an_account_has_the_rights_of_the_table_and_no_others(
    installed: ControlPlane, token_of: Callable[..., Path], account: str
) -> None:
    anybody = _rights(installed, _anybody(installed), "rootport-system")
    rights = _rights(installed, token_of(account), "rootport-system") - anybody
    assert rights == _table(_EVERYWHERE[account]) | _table(_IN_ITS_NAMESPACE[account])
    rights = _rights(installed, token_of(account), "default") - anybody
    assert rights == _table(_EVERYWHERE[account])


def _anybody(plane: ControlPlane) -> Path:
    """A service account that nothing was given: what it may do, every account may."""
    text = json.dumps(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "anybody", "namespace": "default"}}
    )
    plane.kubectl("apply", "--filename=-", input=text)
    return plane.service_account_kubeconfig("default", "anybody")


def _rights(plane: ControlPlane, kubeconfig: Path, namespace: str) -> set[Right]:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = plane.kubectl(
        "create", "--validate=false", "--filename=-", "--output=json", input=json.dumps(review), kubeconfig=kubeconfig
    )
    status = json.loads(answer)["status"]
    found = {
        (f"{resource}.{group}".removesuffix("."), verb, name)
        for rule in status["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ["*"])
    }
    found |= {
        (path, verb, "*")
        for rule in status["nonResourceRules"]
        for path in rule["nonResourceURLs"]
        for verb in rule["verbs"]
    }
    return found


def _table(table: dict[str, str]) -> set[Right]:
    return {
        (resource.partition(" ")[0], verb, resource.partition(" ")[2] or "*")
        for resource, verbs in table.items()
        for verb in verbs.split()
    }
