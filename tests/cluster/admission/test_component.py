"""The webhook's manifests: of one mind with the controller, and no wider than they must be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.admission.certificate_keeper import SECRET
from controller.admission.webhook import ADMISSION_PATH, CONFIGURATION, SERVICE
from controller.main import command
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE

pytestmark = pytest.mark.needs_go

Kustomized = Callable[..., str]


def objects(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text) if item}


def test_the_component_starts_the_server_that_the_service_leads_to(plane: ControlPlane, kustomized: Kustomized) -> None:
    text = kustomized(plane, "webhook")
    plane.kubectl("apply", "--filename=-", "--dry-run=server", "--validate=strict", input=text)
    made = objects(text)
    (container,) = made["Deployment", "rootport-controller"]["spec"]["template"]["spec"]["containers"]
    given = [item for item in container["args"] if "webhook" in item or "https" in item]
    with command.make_context("controller", given) as context:
        assert (context.params["https_port"], context.params["webhook"]) == (8443, True)
        assert context.params["webhook_failure_policy"] == "Ignore"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    service = made["Service", SERVICE]
    assert ports[service["spec"]["ports"][0]["targetPort"]] == 8443
    labels = made["Deployment", "rootport-controller"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    for hook in made["ValidatingWebhookConfiguration", CONFIGURATION]["webhooks"]:
        assert hook["clientConfig"]["service"] == {
            "namespace": NAMESPACE,
            "name": SERVICE,
            "path": ADMISSION_PATH,
            "port": 443,
        }
        assert (hook["timeoutSeconds"], hook["failurePolicy"], hook["sideEffects"]) == (5, "Ignore", "None")
    assert "data" not in made["Secret", SECRET]


def test_with_the_webhook_the_policy_warns_and_does_not_hide_its_answer(
    plane: ControlPlane, kustomized: Kustomized
) -> None:
    binding = ("ValidatingAdmissionPolicyBinding", "rootport-claim-parameters")
    assert objects(kustomized(plane))[binding]["spec"]["validationActions"] == ["Deny"]
    assert objects(kustomized(plane, "webhook"))[binding]["spec"]["validationActions"] == ["Warn"]


def test_fail_closed_reaches_the_controller_and_the_api_server(plane: ControlPlane, kustomized: Kustomized) -> None:
    made = objects(kustomized(plane, "webhook", "webhook-fail-closed"))
    (container,) = made["Deployment", "rootport-controller"]["spec"]["template"]["spec"]["containers"]
    with command.make_context("controller", [item for item in container["args"] if "webhook" in item]) as context:
        assert context.params["webhook_failure_policy"] == "Fail"
    hooks = made["ValidatingWebhookConfiguration", CONFIGURATION]["webhooks"]
    assert {hook["failurePolicy"] for hook in hooks} == {"Fail"}


@pytest.mark.parametrize(
    ("verb", "what", "allowed"),
    [
        ("get", f"secrets/{SECRET}", True),
        ("update", f"secrets/{SECRET}", True),
        ("get", "secrets/other", False),
        ("list", "secrets", False),
        ("create", "secrets", False),
        ("delete", f"secrets/{SECRET}", False),
        ("patch", f"validatingwebhookconfigurations/{CONFIGURATION}", True),
        ("patch", "validatingwebhookconfigurations/other", False),
        ("create", "validatingwebhookconfigurations", False),
        ("delete", f"validatingwebhookconfigurations/{CONFIGURATION}", False),
    ],
    ids=str,
)
def test_the_controller_may_do_this_for_its_webhook(
    plane: ControlPlane, kubeconfig: Path, verb: str, what: str, allowed: bool
) -> None:
    said = plane.kubectl("auth", "can-i", verb, what, f"--namespace={NAMESPACE}", kubeconfig=kubeconfig, check=False)
    assert said.split()[0] == ("yes" if allowed else "no")
