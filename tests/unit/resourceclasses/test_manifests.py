"""The manifests themselves: complete, as strict as they can be, and of one mind with the programs they start."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.installation import FOLDER, OTHER, document, documents

_WORKLOADS = {"Deployment": "rootport-controller", "DaemonSet": "rootport-kubelet-plugin"}
_PROGRAMS = {"rootport-controller": "controller.main", "rootport-kubelet-plugin": "kubeletplugin.main"}
_POLICY = "ValidatingAdmissionPolicy"
# These help users, and must never stand in the way of claims: the plugin checks the same when it prepares one.
_HELPFUL = {
    "rootport-claim-advice": ("Warn", "Ignore"),
    "rootport-claim-one-pod": ("Deny", "Ignore"),
    "rootport-claim-parameters": ("Deny", "Ignore"),
}


_OF_THE_CHART = {"Chart.yaml", "templates", "values.yaml"}
_FILES = [
    path for path in sorted(FOLDER.rglob("*.yaml")) if not _OF_THE_CHART.intersection(path.relative_to(FOLDER).parts)
]


@pytest.mark.parametrize(
    "path", [path for path in _FILES if path.name == "kustomization.yaml"], ids=lambda path: path.parent.name
)
def test_a_kustomization_installs_every_file_there_is(path: Path) -> None:
    kustomization = yaml.safe_load(path.read_text())
    files = {str(file.relative_to(path.parent)) for file in path.parent.rglob("*.yaml") if file.name != path.name}
    if path.parent == FOLDER:
        files = {file for file in files if file.partition("/")[0] not in OTHER}
    assert set(kustomization.get("resources", ())) == files


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_each_file_is_in_the_package(path: Path) -> None:
    project = (FOLDER.parent / "pyproject.toml").read_text()
    folder = str(path.parent.relative_to(FOLDER))
    assert f'"{folder}/*.yaml"' in project if folder != "." else f'"{path.name}"' in project


@pytest.mark.parametrize(("kind", "name"), _WORKLOADS.items(), ids=lambda value: value)
def test_a_workload_starts_its_program_with_options_that_it_has(kind: str, name: str) -> None:
    container = _container(kind, name)
    arguments = [
        argument.replace("$(POD_UID)", "7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5a69")
        .replace("$(", "")
        .replace(")", "")
        .lower()
        for argument in container["args"]
    ]
    assert container["command"] == [name]
    command = import_module(_PROGRAMS[name]).command
    with command.make_context(name, [argument.replace("_", "-") for argument in arguments]) as context:
        assert context.params["health_port"] == container["ports"][0]["containerPort"]


@pytest.mark.parametrize(("kind", "name"), _WORKLOADS.items(), ids=lambda value: value)
def test_the_variables_in_the_arguments_are_set(kind: str, name: str) -> None:
    container = _container(kind, name)
    known = {variable["name"] for variable in container["env"]}
    for argument in container["args"]:
        _, found, rest = argument.partition("$(")
        assert not found or rest.partition(")")[0] in known


def test_the_plugin_mounts_these_folders_of_the_host_and_writes_to_four() -> None:
    spec = document("DaemonSet", "rootport-kubelet-plugin")["spec"]["template"]["spec"]
    folders = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    all_mounts = spec["containers"][0]["volumeMounts"]
    mounts = [mount for mount in all_mounts if mount["name"] in folders]
    assert {mount["mountPath"] for mount in all_mounts if mount not in mounts} == {"/etc/rootport"}
    assert {(folders[mount["name"]], mount["mountPath"], mount.get("readOnly", False)) for mount in mounts} == {
        ("/var/lib/kubelet/plugins/rootport.dev", "/var/lib/kubelet/plugins/rootport.dev", False),
        ("/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins_registry", False),
        ("/var/lib/kubelet/pod-resources", "/var/lib/kubelet/pod-resources", True),
        ("/var/run/cdi", "/var/run/cdi", False),
        ("/", "/host", True),
        ("/run/rootport", "/host/run/rootport", False),
    }


def test_the_plugin_shares_the_process_namespace_with_the_host_and_no_other() -> None:
    spec = document("DaemonSet", "rootport-kubelet-plugin")["spec"]["template"]["spec"]
    assert {"hostNetwork", "hostPID", "hostIPC"} & spec.keys() == {"hostPID"}


def test_the_plugin_runs_on_every_linux_node_but_those_that_the_guide_labels_for_maintenance() -> None:
    spec = document("DaemonSet", "rootport-kubelet-plugin")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    guide = (FOLDER.parent / "docs" / "operator" / "health.md").read_text()
    (label,) = set(re.findall(r"kubectl label node \S+ ([a-z./]+)=", guide))
    expression = {"key": label, "operator": "DoesNotExist"}
    assert spec["affinity"] == {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]
            }
        }
    }


def test_the_plugin_is_replaced_without_a_gap() -> None:
    strategy = document("DaemonSet", "rootport-kubelet-plugin")["spec"]["updateStrategy"]["rollingUpdate"]
    assert strategy == {"maxSurge": 1, "maxUnavailable": 0}


def test_no_rule_has_a_wildcard_and_none_reaches_secrets() -> None:
    rules = [rule for item in documents() if item["kind"] in {"Role", "ClusterRole"} for rule in item["rules"]]
    for rule in rules:
        words = {word for values in rule.values() for word in values}
        assert not {"*", "secrets", "escalate", "bind", "impersonate"} & words


def test_every_policy_that_guards_refuses_and_fails_closed() -> None:
    policies = {item["metadata"]["name"]: item["spec"] for item in documents() if item["kind"] == _POLICY}
    bindings = [item["spec"] for item in documents() if item["kind"] == f"{_POLICY}Binding"]
    assert sorted(binding["policyName"] for binding in bindings) == sorted(policies)
    for binding in bindings:
        name = binding["policyName"]
        action, failure = _HELPFUL.get(name, ("Deny", "Fail"))
        assert (binding["validationActions"], policies[name]["failurePolicy"]) == ([action], failure)


def _container(kind: str, name: str) -> dict[str, Any]:
    (container,) = document(kind, name)["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def test_the_images_base_is_named_by_digest() -> None:
    dockerfile = (FOLDER.parent / "Dockerfile").read_text()
    (base,) = re.findall(r"^ARG BASE=(.*)$", dockerfile, re.MULTILINE)
    assert re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", base)
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${BASE}", "compiler", "dependencies"}
