"""Kueue beside a control plane of the tests: its own manifests, its webhooks at work, its own service account's rights.

The manager runs as a process. The API server reaches its webhooks by their Service, which here has 127.0.0.1 as its
external name, so that Kueue's own certificates, made for the Service's name, are the right ones.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.cluster.binaries import module_source
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.processes import Process, wait_until
from tests.support.ports import free_port

__all__ = ["KUEUE_NAMESPACE", "running_kueue"]

KUEUE_NAMESPACE: Final = "kueue-system"
_ACCOUNT: Final = "kueue-controller-manager"
_SECRET: Final = "kueue-webhook-server-cert"
_RUN_ELSEWHERE: Final = frozenset({"Deployment", "APIService"})
_WEBHOOK_KINDS: Final = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})


@contextmanager
def running_kueue(plane: ControlPlane, program: Path, configuration: dict[str, Any], folder: Path) -> Iterator[Process]:
    """Install Kueue and run its manager until the block ends.

    Args:
        plane: Whose API server; with the stock controllers, which make its service accounts.
        program: From :func:`tests.support.cluster.binaries.build_kueue`.
        configuration: Kueue's Configuration; what only a process outside the cluster needs is added.
        folder: New; for its files.
    """
    port = free_port()
    manifests = plane.kubectl("kustomize", module_source("kueue", "sigs.k8s.io/kueue") / "config" / "default")
    objects = [document for document in yaml.safe_load_all(manifests) if document]
    here = [_at(port, document) for document in objects if document["kind"] not in _RUN_ELSEWHERE]
    plane.kubectl("apply", "--server-side", "--filename=-", input=yaml.safe_dump_all(here))
    certificates = folder / "certificates"
    certificates.mkdir(parents=True)
    file = folder / "configuration.yaml"
    file.write_text(yaml.safe_dump(_outside(configuration, port, certificates)))
    kubeconfig = plane.service_account_kubeconfig(KUEUE_NAMESPACE, _ACCOUNT)
    manager = plane.processes.start(
        "kueue", program, f"--config={file}", "--zap-log-level=2", env={"KUBECONFIG": str(kubeconfig)}
    )
    try:
        # In a pod the kubelet writes the Secret's files.
        wait_until(
            f"Kueue's certificate (log: {manager.log})", lambda: _write(plane, manager, certificates), timeout_s=180
        )
        wait_until(f"Kueue's webhooks (log: {manager.log})", lambda: _answers(plane), timeout_s=180)
        yield manager
    finally:
        manager.stop()


def _at(port: int, document: dict[str, Any]) -> dict[str, Any]:
    """Send what the API server asks the webhooks to this computer."""
    if document["kind"] == "Service":
        document["spec"] = {"type": "ExternalName", "externalName": "127.0.0.1"}
    elif document["kind"] in _WEBHOOK_KINDS:
        for hook in document["webhooks"]:
            hook["clientConfig"]["service"]["port"] = port
    elif document["kind"] == "CustomResourceDefinition" and "conversion" in document["spec"]:
        document["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] = port
    return document


def _outside(configuration: dict[str, Any], port: int, certificates: Path) -> dict[str, Any]:
    return {
        **configuration,
        "namespace": KUEUE_NAMESPACE,
        "featureGates": {**configuration.get("featureGates", {}), "VisibilityOnDemand": False},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": "kueue-webhook-service",
            "webhookSecretName": _SECRET,
        },
    }


def _write(plane: ControlPlane, manager: Process, folder: Path) -> bool:
    if not manager.alive():
        raise RuntimeError(f"Kueue ended: see {manager.log}")
    secret = plane.kubectl("get", "secret", _SECRET, f"--namespace={KUEUE_NAMESPACE}", "--output=json", check=False)
    try:
        data = json.loads(secret).get("data", {})
    except ValueError:
        return False
    if not {"tls.crt", "tls.key"} <= data.keys():
        return False
    for name, value in data.items():
        (folder / name).write_bytes(base64.b64decode(value))
    return True


def _answers(plane: ControlPlane) -> bool:
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "trial"}}
    said = plane.kubectl("create", "--dry-run=server", "--filename=-", input=json.dumps(flavor), check=False)
    return "resourceflavor.kueue.x-k8s.io/trial created" in said
