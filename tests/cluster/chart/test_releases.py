"""Releases on a real API server: installed, upgraded beside a controller that writes, taken over, uninstalled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster.binaries import Binaries, module_source
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE, start_controller
from tests.support.cluster.processes import Processes
from tests.support.helm import CHART, COMPONENTS, RELEASE, Helm, keyed, switch
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go
KINDS = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
WEBHOOKS = {"webhook": True, "convertWebhook": True}


class Releases:
    """Rootport's release on an API server without nodes."""

    def __init__(self, helm: Helm, plane: ControlPlane) -> None:
        self.helm, self.plane = replace(helm, kubeconfig=plane.kubeconfig), plane

    def upgrade(self, values: dict[str, Any], *options: str) -> None:
        """``helm upgrade --install`` with these values alone: without any, Helm takes those of the release before."""
        file = self.helm.home / "release.yaml"
        file.write_text(yaml.safe_dump(values))
        namespace = (f"--namespace={NAMESPACE}", "--create-namespace")
        self.helm("upgrade", "--install", "--reset-values", RELEASE, CHART, *namespace, f"--values={file}", *options)

    def uninstall(self) -> None:
        """``helm uninstall``."""
        self.helm("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--ignore-not-found")

    def get(self, kinds: str) -> list[dict[str, Any]]:
        """All objects of some kinds."""
        text = self.plane.kubectl("get", kinds, "--all-namespaces", "--output=json")
        found: list[dict[str, Any]] = json.loads(text)["items"]
        return found

    def crds(self) -> list[str]:
        """The names of Rootport's CustomResourceDefinitions."""
        names = [item["metadata"]["name"] for item in self.get("customresourcedefinitions")]
        return [name for name in names if name.endswith(".rootport.dev")]

    def hooks(self) -> dict[str, tuple[str, str]]:
        """Webhook to failure policy, and to the authority that it trusts."""
        hooks = [hook for item in self.get(KINDS) for hook in item["webhooks"]]
        return {hook["name"]: (hook["failurePolicy"], hook["clientConfig"].get("caBundle", "")) for hook in hooks}


@pytest.fixture(scope="module")
def plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server of its own, for all of Rootport comes and goes, with the kinds of the Prometheus operator."""
    source = module_source("prometheus-operator", "github.com/prometheus-operator/prometheus-operator")
    folder = source / "example" / "prometheus-operator-crd"
    kinds = [f"{name}.monitoring.coreos.com" for name in ("podmonitors", "prometheusrules")]
    with ControlPlane(tmp_path_factory.mktemp("releases"), cluster_binaries) as plane:
        for kind in kinds:
            file = folder / f"monitoring.coreos.com_{kind.partition('.')[0]}.yaml"
            plane.kubectl("apply", "--server-side", f"--filename={file}")
        plane.wait_for_crds()
        yield plane


@pytest.fixture
def releases(helm: Helm, plane: ControlPlane) -> Iterator[Releases]:
    """No release; and none afterwards."""
    made = Releases(helm, plane)
    yield made
    made.uninstall()


@contextmanager
def controller(plane: ControlPlane, folder: Path, *options: str) -> Iterator[None]:
    """A controller that keeps its webhooks."""
    processes = Processes(folder)
    ports = (f"--https-port={free_port()}", f"--health-port={free_port()}")
    start_controller(plane, processes, "--webhook", "--convert", *ports, *options)
    try:
        yield
    finally:
        processes.stop()


def test_all_of_it_is_installed_upgraded_and_uninstalled(releases: Releases) -> None:
    everything = {switch(name): True for name in COMPONENTS}
    releases.upgrade({})
    releases.upgrade({"components": everything})
    said = releases.helm("status", RELEASE, f"--namespace={NAMESPACE}")
    assert "STATUS: deployed" in said
    made = releases.helm.render({"components": everything})
    kinds = ",".join(sorted({item["kind"] for item in made}))
    live = keyed(item for item in releases.get(kinds) if "helm.sh/chart" in item["metadata"].get("labels", {}))
    assert live.keys() == keyed(made).keys()
    # A component that is turned off goes.
    releases.upgrade({})
    assert releases.get(KINDS) == []
    releases.uninstall()
    left = [item for item in releases.get(kinds) if "helm.sh/chart" in item["metadata"].get("labels", {})]
    assert {item["kind"] for item in left} == {"CustomResourceDefinition"}


def test_a_release_is_installed_again_over_the_crds_that_were_kept(releases: Releases) -> None:
    releases.upgrade({})
    releases.uninstall()
    assert len(releases.crds()) == 2
    releases.upgrade({"crds": {"keep": False}})
    releases.uninstall()
    eventually("no CRD", lambda: not releases.crds())


def test_the_crds_are_not_lost_by_a_value(releases: Releases) -> None:
    releases.upgrade({"crds": {"keep": False}})
    with pytest.raises(AssertionError, match=r"would delete the CRD devices\.rootport\.dev with all its objects"):
        releases.upgrade({"crds": {"enabled": False}})
    releases.upgrade({})
    releases.upgrade({"crds": {"enabled": False}})
    assert len(releases.crds()) == 2


def test_upgrades_beside_a_controller_that_keeps_its_webhooks(releases: Releases, tmp_path: Path) -> None:
    releases.upgrade({"components": WEBHOOKS})

    def failure_policies(hooks: dict[str, tuple[str, str]]) -> dict[str, str]:
        return {name.partition(".")[0]: policy for name, (policy, _) in hooks.items() if "convert" not in name}

    configured: Callable[[], bool] = lambda: all(bundle for _, bundle in releases.hooks().values())  # noqa: E731
    with controller(releases.plane, tmp_path / "open"):
        eventually("webhooks are configured", configured, timeout_s=60)
        before = releases.hooks()
        # Nothing that the controller has written is lost, and nothing is disputed.
        releases.upgrade({"components": WEBHOOKS, "controller": {"logLevel": "debug"}})
        assert releases.hooks() == before
        releases.upgrade({"components": WEBHOOKS | {"webhookFailClosed": True}})
    with controller(releases.plane, tmp_path / "closed", "--webhook-failure-policy=Fail"):
        closed = {"claims": "Fail", "classes": "Fail"}
        eventually("claims are refused", lambda: failure_policies(releases.hooks()) == closed, timeout_s=60)
        releases.upgrade({"components": WEBHOOKS})
        assert configured()
    with controller(releases.plane, tmp_path / "again"):
        opened = {"claims": "Ignore", "classes": "Ignore"}
        eventually("claims are let through", lambda: failure_policies(releases.hooks()) == opened, timeout_s=60)
        secret = releases.plane.kubectl(
            "get", "secret", "rootport-webhook", f"--namespace={NAMESPACE}", "--output=json"
        )
        assert {"ca.crt", "tls.crt", "tls.key"} <= json.loads(secret)["data"].keys()


def test_helm_takes_over_what_kubectl_has_applied(releases: Releases, kustomized: Callable[..., str]) -> None:
    releases.plane.kubectl("apply", "--filename=-", input=kustomized(releases.plane, "webhook"))
    (command,) = (
        line.removeprefix("$ ").split()
        for line in (CHART / "README.md").read_text().splitlines()
        if "--take-ownership" in line
    )
    words = [str(CHART) if word == "./resourceclasses" else word for word in command[1:]]
    refused = releases.helm.run(*words)
    assert refused.returncode != 0
    told = "the cluster has the ValidatingWebhookConfiguration rootport, but with components.webhook=false"
    assert told in refused.stderr
    releases.helm(*words, "--set=components.webhook=true")
    releases.upgrade({})
    assert releases.get(KINDS) == []
    releases.uninstall()
    assert not [item for item in releases.get("deployments,daemonsets") if NAMESPACE in json.dumps(item)]
