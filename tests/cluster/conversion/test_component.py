"""The manifests of the conversion: of one mind with the controller, and no wider than they must be."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.admission.webhook import SERVICE, Webhook
from controller.conversion.webhook import CONFIGURATION, REQUEST_S
from controller.main import command
from driver.adapters.files.resource_map_file import parse_resource_map
from tests.cluster.conversion.converting_cluster import ConvertingCluster
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go


def test_the_component_starts_what_its_configuration_leads_to(
    plane: ControlPlane, kustomized: Callable[..., str]
) -> None:
    text = kustomized(plane, "webhook", "convert-webhook")
    plane.kubectl("apply", "--filename=-", "--dry-run=server", "--validate=strict", input=text)
    made = {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text) if item}
    (container,) = made["Deployment", "rootport-controller"]["spec"]["template"]["spec"]["containers"]
    given = [item for item in container["args"] if "webhook" in item or "convert" in item]
    with command.make_context("controller", given) as context:
        assert (context.params["webhook"], context.params["convert"]) == (True, True)
        failure_policy = context.params["convert_failure_policy"]
        file = context.params["convert_resources"]
    (mount,) = (item for item in container["volumeMounts"] if item["mountPath"] == str(file.parent))
    volumes = made["Deployment", "rootport-controller"]["spec"]["template"]["spec"]["volumes"]
    (volume,) = (item for item in volumes if item["name"] == mount["name"])
    sources = {item["configMap"]["name"]: item["configMap"] for item in volume["projected"]["sources"]}
    assert sources["rootport-resource-map"]["optional"]
    held = made["ConfigMap", "rootport-resource-map"]["data"][file.name]
    assert parse_resource_map(held, file.name).resources == {}
    (hook,) = made["MutatingWebhookConfiguration", CONFIGURATION]["webhooks"]
    assert (hook["failurePolicy"], hook["sideEffects"]) == (failure_policy, "NoneOnDryRun")
    assert hook["timeoutSeconds"] > 3 * REQUEST_S
    # The path is the controller's to write, and a client-side apply must leave it.
    assert hook["clientConfig"] == {"service": {"namespace": NAMESPACE, "name": SERVICE, "port": 443}}
    assert hook["namespaceSelector"] == {"matchLabels": {"rootport.dev/convert": "enabled"}}


@pytest.mark.parametrize(
    ("verb", "what", "allowed"),
    [
        ("get", f"mutatingwebhookconfigurations/{CONFIGURATION}", True),
        ("patch", f"mutatingwebhookconfigurations/{CONFIGURATION}", True),
        ("update", f"mutatingwebhookconfigurations/{CONFIGURATION}", False),
        ("patch", "mutatingwebhookconfigurations/other", False),
        ("create", "mutatingwebhookconfigurations", False),
        ("delete", f"mutatingwebhookconfigurations/{CONFIGURATION}", False),
        ("create", "resourceclaimtemplates.resource.k8s.io", True),
        ("delete", "resourceclaimtemplates.resource.k8s.io", True),
        ("deletecollection", "resourceclaimtemplates.resource.k8s.io", False),
        ("update", "resourceclaimtemplates.resource.k8s.io", False),
        ("create", "resourceclaims.resource.k8s.io", False),
        ("create", "pods", False),
    ],
    ids=str,
)
def test_the_controller_may_do_this_to_convert(
    plane: ControlPlane, kubeconfig: Path, verb: str, what: str, allowed: bool
) -> None:
    said = plane.kubectl("auth", "can-i", verb, what, "--namespace=default", kubeconfig=kubeconfig, check=False)
    assert said.split()[0] == ("yes" if allowed else "no")


def test_path_and_failure_policy_are_kept_and_a_new_path_comes_with_an_emptied_secret(
    cluster: ConvertingCluster, start: Callable[..., Webhook]
) -> None:
    start()

    def path() -> str:
        return str(cluster.hook()["clientConfig"].get("url", "")).rpartition("/convert/")[2]

    first = path()
    assert len(first) == 48
    name = ("mutatingwebhookconfiguration", CONFIGURATION)
    port = cluster.hook()["clientConfig"]["url"].split("/")[2]
    changes: list[dict[str, Any]] = [
        {"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": f"https://{port}/elsewhere"},
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
    ]
    cluster.plane.kubectl("patch", *name, "--type=json", "--patch", json.dumps(changes))
    eventually("the same path", lambda: path() == first and cluster.hook()["failurePolicy"] == "Fail")
    secret = ("secret", "rootport-webhook", f"--namespace={NAMESPACE}")
    cluster.plane.kubectl("patch", *secret, "--type=json", '--patch=[{"op": "replace", "path": "/data", "value": {}}]')
    eventually("another path", lambda: len(path()) == 48 and path() != first)


def test_the_path_is_one_that_an_api_server_takes_for_a_service(
    cluster: ConvertingCluster, start: Callable[..., Webhook]
) -> None:
    """As installed, the configuration names a Service, of whose path each part has to be a DNS subdomain."""
    # What a controller before 0.1.0 kept.
    old = base64.b64encode(b"ZqOv2eTRzRkC0mySCHN_MV60tEnRJv5b").decode()
    secret = ("secret", "rootport-webhook", f"--namespace={NAMESPACE}")
    cluster.plane.kubectl("patch", *secret, "--patch", json.dumps({"data": {"path": old}}))
    start()
    cluster.send_to_the_service()

    def configured() -> bool:
        client = cluster.hook()["clientConfig"]
        return bool(client.get("caBundle")) and client["service"].get("path", "").startswith("/convert/")

    eventually("a path of the Service", configured)
