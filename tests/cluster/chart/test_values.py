"""What each value changes, and that what cannot work is refused with a reason before anything is installed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from driver import __version__
from tests.support.helm import Helm, keyed

pytestmark = pytest.mark.needs_go
PLUGIN = ("DaemonSet", "rootport-system", "rootport-kubelet-plugin")
CONTROLLER = ("Deployment", "rootport-system", "rootport-controller")
CNI = {"components": {"cni": True}}


def pod(item: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = item["spec"]["template"]["spec"]
    return spec


def container(item: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod(item)["containers"]
    assert isinstance(found, dict)
    return found


def changed(helm: Helm, values: dict[str, Any], before: dict[str, Any] | None = None) -> dict[tuple[str, ...], Any]:
    """What the values make, where it differs from what ``before`` makes; None for what is gone."""
    old, new = keyed(helm.render(before)), keyed(helm.render(values))
    return {key: new.get(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ({"repository": "registry.example.com/rootport"}, f"registry.example.com/rootport:{__version__}"),
        ({"repository": "a:5000/b", "tag": "v1"}, "a:5000/b:v1"),
        ({"tag": "v1", "digest": f"sha256:{'0' * 64}"}, f"rootport@sha256:{'0' * 64}"),
    ],
    ids=["repository", "tag", "digest"],
)
def test_the_image(helm: Helm, image: dict[str, str], name: str) -> None:
    made = changed(helm, {"image": image | {"pullPolicy": "Always"}, "imagePullSecrets": [{"name": "mine"}]})
    assert made.keys() == {PLUGIN, CONTROLLER}
    for item in made.values():
        assert (container(item)["image"], container(item)["imagePullPolicy"]) == (name, "Always")
        assert pod(item)["imagePullSecrets"] == [{"name": "mine"}]


@pytest.mark.parametrize(("part", "key"), [("controller", CONTROLLER), ("kubeletPlugin", PLUGIN)], ids=str)
def test_a_workload(helm: Helm, part: str, key: tuple[str, ...]) -> None:
    old = keyed(helm.render())[key]
    given: dict[str, Any] = {
        "logLevel": "debug",
        "extraArgs": ["--metrics-readers=localhost"],
        "resources": {"limits": {"memory": "2Gi", "cpu": 1}},
        "nodeSelector": {"gpu": "yes"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "priorityClassName": "mine",
        "podLabels": {"team": "gpu"},
        "podAnnotations": {"a/b": "c"},
    }
    ((changed_key, new),) = changed(helm, {part: given}).items()
    assert changed_key == key
    assert container(new)["args"] == [*container(old)["args"], "--log-level=debug", "--metrics-readers=localhost"]
    assert container(new)["resources"] == {
        "requests": container(old)["resources"]["requests"],
        "limits": given["resources"]["limits"],
    }
    assert pod(new)["nodeSelector"] == pod(old)["nodeSelector"] | given["nodeSelector"]
    assert pod(new)["tolerations"] == given["tolerations"]
    assert pod(new)["priorityClassName"] == "mine"
    metadata, before = new["spec"]["template"]["metadata"], old["spec"]["template"]["metadata"]
    assert metadata["labels"] == before["labels"] | given["podLabels"]
    assert metadata["annotations"] == before["annotations"] | given["podAnnotations"]
    # Pods are found by the labels that they had.
    assert new["spec"]["selector"] == old["spec"]["selector"]


def test_one_controller_has_no_budget_that_would_keep_it_on_its_node(helm: Helm) -> None:
    made = changed(helm, {"controller": {"replicas": 1}})
    assert made.pop(("PodDisruptionBudget", "rootport-system", "rootport-controller")) is None
    assert made.keys() == {CONTROLLER}
    assert made[CONTROLLER]["spec"]["replicas"] == 1


def test_another_update_strategy(helm: Helm) -> None:
    strategy = {"type": "OnDelete", "rollingUpdate": None}
    (plugin,) = changed(helm, {"kubeletPlugin": {"updateStrategy": strategy}}).values()
    assert plugin["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_another_kubelet_folder_is_moved_as_a_whole(helm: Helm) -> None:
    ((key, plugin),) = changed(helm, {"kubeletPlugin": {"kubeletDir": "/data/kubelet"}}).items()
    assert key == PLUGIN
    assert "/var/lib/kubelet" not in yaml.safe_dump(plugin)
    volumes = {item["name"]: item["hostPath"]["path"] for item in pod(plugin)["volumes"] if "hostPath" in item}
    mounts = {item["name"]: item["mountPath"] for item in container(plugin)["volumeMounts"]}
    for name, path in (("plugin", "plugins/rootport.dev"), ("registry", "plugins_registry")):
        assert volumes[name] == mounts[name] == f"/data/kubelet/{path}"
    assert volumes["pod-resources"] == mounts["pod-resources"] == "/data/kubelet/pod-resources"
    assert container(plugin)["args"][-3:] == [
        "--plugin-dir=/data/kubelet/plugins/rootport.dev",
        "--registry-dir=/data/kubelet/plugins_registry",
        "--pod-resources-socket=/data/kubelet/pod-resources/kubelet.sock",
    ]


def test_other_cni_folders(helm: Helm) -> None:
    folders = {"confDir": "/var/lib/rancher/k3s/agent/etc/cni/net.d", "binDir": "/var/lib/rancher/k3s/data/cni"}
    (plugin,) = changed(helm, CNI | {"cni": folders}, before=CNI).values()
    assert f"--cni-conf-dir={folders['confDir']}" in container(plugin)["args"]
    assert f"--cni-bin-dir={folders['binDir']}" in container(plugin)["args"]
    volumes = {item["name"]: item["hostPath"]["path"] for item in pod(plugin)["volumes"] if "hostPath" in item}
    mounts = {item["name"]: item["mountPath"] for item in container(plugin)["volumeMounts"]}
    assert volumes["cni-conf"] == mounts["cni-conf"] == folders["confDir"]
    assert volumes["cni-bin"] == mounts["cni-bin"] == folders["binDir"]
    assert changed(helm, {"cni": folders}) == {}


def test_a_plugin_without_privileges(helm: Helm) -> None:
    (plugin,) = changed(helm, {"kubeletPlugin": {"privileged": False}}).values()
    assert "hostPID" not in pod(plugin)
    assert container(plugin)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_further_variables_and_volumes(helm: Helm) -> None:
    variable, volume, mount = (
        {"name": "X", "value": "1"},
        {"name": "x", "emptyDir": {}},
        {"name": "x", "mountPath": "/x"},
    )
    given = {"extraEnv": [variable], "extraVolumes": [volume], "extraVolumeMounts": [mount]}
    (plugin,) = changed(helm, {"kubeletPlugin": given}).values()
    assert container(plugin)["env"][-1] == variable
    assert pod(plugin)["volumes"][-1] == volume
    assert container(plugin)["volumeMounts"][-1] == mount


@pytest.mark.parametrize(
    ("value", "name", "kind"),
    [
        ("gpuPolicies", "gpu-policies", "GpuPolicies"),
        ("nicPolicies", "nic-policies", "NicPolicies"),
        ("devicePolicies", "device-policies", "DevicePolicies"),
    ],
    ids=str,
)
def test_policies(helm: Helm, value: str, name: str, kind: str) -> None:
    policies = [{"models": ["*H100*"]}]
    made = changed(helm, {value: policies})
    config = made.pop(("ConfigMap", "rootport-system", f"rootport-{name}"))
    assert not made
    assert yaml.safe_load(config["data"][f"{name}.yaml"]) == {
        "apiVersion": "rootport.dev/v1alpha1",
        "kind": kind,
        "policies": policies,
    }


def test_the_resource_map(helm: Helm) -> None:
    components = {"components": {"webhook": True, "convertWebhook": True}}
    given = {
        "leftAlone": ["example.com/dpdk"],
        "shareStrategy": "hamiCore",
        "resources": [{"name": "a/b", "deviceClassName": "c", "bandwidth": 10_000_000_000}],
    }
    made = changed(helm, components | {"resourceMap": given}, before=components)
    config = made.pop(("ConfigMap", "rootport-system", "rootport-resource-map"))
    assert not made
    document = yaml.safe_load(config["data"]["resource-map.yaml"])
    assert document == {"apiVersion": "rootport.dev/v1alpha1", "kind": "ResourceMap"} | given


def test_without_the_dashboard_nothing_is_served_by_https(helm: Helm) -> None:
    made = changed(helm, {"dashboard": {"enabled": False}})
    assert made.pop(("Service", "rootport-system", "rootport-dashboard")) is None
    assert made.keys() == {CONTROLLER}
    controller = container(made[CONTROLLER])
    assert [argument for argument in controller["args"] if "https" in argument] == ["--https-port=0"]
    assert [port["name"] for port in controller["ports"]] == ["health"]


def test_labels_of_all_objects_and_of_those_that_prometheus_looks_for(helm: Helm) -> None:
    given = {"labels": {"team": "gpu"}, "monitoring": {"labels": {"release": "x"}}}
    for item in helm.render(given | {"components": {"monitoring": True}}):
        labels = item["metadata"]["labels"]
        assert labels["team"] == "gpu"
        assert labels.get("release") == ("x" if item["kind"] in {"PodMonitor", "PrometheusRule"} else None)


def test_who_may_connect(helm: Helm) -> None:
    components = {"components": {"networkPolicy": True}}
    peers = {name: [{"ipBlock": {"cidr": f"192.0.2.{number}/32"}}] for number, name in enumerate(["metrics", "https"])}
    given = {"metricsFrom": peers["metrics"], "httpsFrom": peers["https"]}
    made = changed(helm, components | {"networkPolicy": given}, before=components)
    rules = [rule for item in made.values() for rule in item["spec"]["ingress"]]
    assert {(rule["ports"][0]["port"], rule["from"][0]["ipBlock"]["cidr"]) for rule in rules} == {
        ("health", "192.0.2.0/32"),
        ("https", "192.0.2.1/32"),
    }
    assert len(rules) == 3


def test_the_crds(helm: Helm) -> None:
    made = changed(helm, {"crds": {"enabled": False}})
    assert {key[0] for key in made} == {"CustomResourceDefinition"}
    assert set(made.values()) == {None}
    for keep in (True, False):
        crds = [item for item in helm.render({"crds": {"keep": keep}}) if item["kind"] == "CustomResourceDefinition"]
        kept = [item["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for item in crds]
        assert kept == (["keep"] * 2 if keep else [None] * 2)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"component": {"webhook": True}}, "additional properties 'component' not allowed"),
        ({"components": {"webhok": True}}, "additional properties 'webhok' not allowed"),
        ({"components": {"webhook": "yes"}}, "got string, want boolean"),
        ({"controller": {"logLevel": "verbose"}}, "value must be one of"),
        ({"controller": {"replicas": 0}}, "minimum"),
        ({"controller": {"resources": {"limit": {}}}}, "additional properties 'limit' not allowed"),
        ({"controller": {"resources": {"limits": {"memory": "1 GB"}}}}, "does not match pattern"),
        ({"image": {"digest": "latest"}}, "does not match pattern"),
        ({"kubeletPlugin": {"kubeletDir": "var/lib/kubelet"}}, "does not match pattern"),
        ({"kubeletPlugin": {"tolerations": [{"operater": "Exists"}]}}, "additional properties 'operater' not allowed"),
        ({"kubeletPlugin": {"extraArgs": ["device-root"]}}, "does not match pattern"),
        ({"gpuPolicies": {"policies": []}}, "got object, want array"),
        ({"gpuPolicies": [{"strategie": "mps"}]}, "'/gpuPolicies/0': additional properties 'strategie' not allowed"),
        ({"gpuPolicies": [{"strategy": "MPS"}]}, "value must be one of 'timeSlicing', 'mps', 'hamiCore'"),
        ({"gpuPolicies": [{"maxShares": 101}]}, "'/gpuPolicies/0/maxShares': maximum: got 101, want 100"),
        ({"nicPolicies": [{"vfs": "single"}]}, "value must be one of 'pooled', 'named'"),
        ({"devicePolicies": [{"offer": "no"}]}, "got string, want boolean"),
        (
            {"resourceMap": {"resources": [{"name": "a/b", "device": "c"}]}},
            "'/resourceMap/resources/0': additional properties 'device' not allowed",
        ),
        ({"networkPolicy": {"metricsFrom": []}}, "minItems"),
        ({"components": {"webhookFailClosed": True}}, "components.webhookFailClosed needs components.webhook"),
        ({"components": {"convertWebhook": True}}, "components.convertWebhook needs components.webhook"),
        ({"components": {"webhook": True}, "dashboard": {"enabled": False}}, "needs dashboard.enabled"),
        ({"crds": {"enabled": False, "keep": False}}, "would delete the CRDs of a release that has them"),
        (CNI | {"kubeletPlugin": {"privileged": False}}, "components.cni needs kubeletPlugin.privileged"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(helm: Helm, given: dict[str, Any], reason: str) -> None:
    assert reason in helm.refusal(given)


@pytest.mark.parametrize("component", ["placement", "extendedResources"])
def test_a_component_that_needs_a_newer_kubernetes(helm: Helm, component: str) -> None:
    given = {"components": {component: True}}
    said = helm.refusal(given, "--kube-version=v1.35.4")
    assert f"components.{component} needs Kubernetes 1.36 or newer; this is v1.35.4" in said
    assert helm.render(given, "--kube-version=v1.36.0-gke.1")


def test_an_old_kubernetes(helm: Helm) -> None:
    assert "chart requires kubeVersion: >=1.34.0-0" in helm.refusal({}, "--kube-version=v1.33.9")


def test_another_namespace(helm: Helm) -> None:
    said = helm.refusal({}, "--namespace=gpu")
    assert "Rootport is installed in the namespace rootport-system, not in gpu" in said


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "is in no registry: load it into each node"),
        ({"webhook": True, "convertWebhook": True}, "kubectl label namespace NAMESPACE rootport.dev/convert=enabled"),
        ({"placement": True}, "kubectl label node NODE rootport.dev/placement=managed"),
        ({"extendedResources": True}, "NVIDIA's device plugin must not offer the same"),
    ],
    ids=str,
)
def test_the_notes_teach_what_comes_next(helm: Helm, given: dict[str, bool], told: str) -> None:
    assert told in helm.notes({"components": given})
    assert told not in helm.notes({"image": {"repository": "registry.example.com/rootport"}})


@pytest.mark.parametrize(
    ("given", "value", "component"),
    [
        ({"resourceMap": {"leftAlone": ["example.com/dpdk"]}}, "resourceMap", "convertWebhook"),
        ({"cni": {"binDir": "/opt/bin"}}, "cni", "cni"),
        ({"monitoring": {"labels": {"release": "x"}}}, "monitoring.labels", "monitoring"),
        ({"networkPolicy": {"httpsFrom": [{"podSelector": {}}]}}, "networkPolicy", "networkPolicy"),
        ({"networkPolicy": {"metricsFrom": [{"podSelector": {}}]}}, "networkPolicy", "networkPolicy"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_the_notes_name_values_without_their_component(
    helm: Helm, given: dict[str, Any], value: str, component: str
) -> None:
    told = f"The values of {value} have no effect: components.{component} is off."
    assert told in helm.notes(given)
    assert "have no effect" not in helm.notes(given | {"components": {component: True, "webhook": True}})
    assert "have no effect" not in helm.notes({})


def test_a_key_of_a_default_is_taken_away_by_null(helm: Helm) -> None:
    given = {"nodeSelector": {"kubernetes.io/os": None, "gpu": "yes"}, "resources": {"limits": {"memory": None}}}
    (plugin,) = changed(helm, {"kubeletPlugin": given}).values()
    assert pod(plugin)["nodeSelector"] == {"gpu": "yes"}
    assert "memory" not in container(plugin)["resources"].get("limits", {})
