"""Finds the cluster and the namespace that a user's command means, as kubectl does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes.client import Configuration
from kubernetes.config import list_kube_config_contexts, load_kube_config

from driver.adapters.files.input_file import path_name, read_input
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.client_transport import ClientTransport, in_cluster
from driver.adapters.kubernetes.connection import Connection
from driver.adapters.kubernetes.kubeconfig_loading import loading
from driver.adapters.kubernetes.skipped import SkippedObjects
from driver.errors import InputError

__all__ = ["ClusterContext", "cluster_context"]

_TIMEOUT_S: Final = 60.0  # a large list of a busy server
_WHAT: Final = "a kubeconfig file"
_MAX_BYTES: Final = 4 * 1024**2
_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterContext:
    """A cluster, and the namespace in use.

    Attributes:
        api: The API server; nothing has been sent yet.
        namespace: The current namespace.
    """

    api: KubernetesApi
    namespace: str


def cluster_context(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    timeout_s: float = _TIMEOUT_S,
    instead: str = "",
) -> ClusterContext:
    """Return the cluster of a kubeconfig's context, or of the pod that this process runs in.

    Args:
        kubeconfig: The file; by default those that ``$KUBECONFIG`` names, merged, else ``~/.kube/config``, else the
            pod's service account.
        context: The context's name; None for the current one.
        timeout_s: The limit for connecting, and for each wait for an answer.
        instead: What the caller can do without a cluster, for the hint, such as ``name a folder with --from``.

    Raises:
        InputError: There is no kubeconfig, it cannot be used, or it has no such context.
    """
    if kubeconfig is not None:
        return _of_files(str(kubeconfig), context, timeout_s)
    named = os.environ.get("KUBECONFIG", "")
    files = named or str(Path.home() / ".kube" / "config")
    if any(map(Path.exists, _parts(files))):
        return _of_files(files, context, timeout_s)
    if context is None and not named and "KUBERNETES_SERVICE_HOST" in os.environ:
        return ClusterContext(api=_api(in_cluster(), timeout_s), namespace=_pod_namespace())
    raise InputError(
        f"no kubeconfig: {path_name(Path(files))} is not there",
        hint=", or ".join(way for way in ("name one with --kubeconfig", instead) if way),
    )


def _parts(files: str) -> list[Path]:
    return [Path(part) for part in files.split(os.pathsep) if part]


def _of_files(files: str, context: str | None, timeout_s: float) -> ClusterContext:
    for path in _parts(files):
        if path.exists() or path == Path(files):
            read_input(path, _MAX_BYTES, _WHAT)  # the client's loader would wait for a pipe, and read a device for ever
    configuration = Configuration()  # with the environment's proxy, as for kubectl: this is a desk, not a pod
    with loading(files):
        contexts, current = list_kube_config_contexts(config_file=files)  # type: ignore[no-untyped-call]
        chosen = _chosen(contexts, current, context, files)
        load_kube_config(  # type: ignore[no-untyped-call]
            config_file=files, context=context, client_configuration=configuration
        )
    namespace = (chosen.get("context") or {}).get("namespace") or "default"
    return ClusterContext(api=_api(configuration, timeout_s), namespace=str(namespace))


def _api(configuration: Configuration, timeout_s: float) -> KubernetesApi:
    return KubernetesApi(Connection(ClientTransport(configuration), timeout_s), SkippedObjects(logs=False))


def _chosen(contexts: Any, current: Any, wanted: str | None, files: str) -> Any:
    if wanted is None:
        return current
    found = next((each for each in contexts if each.get("name") == wanted), None)
    if found is None:
        names = ", ".join(str(each.get("name")) for each in contexts)
        raise InputError(f"{path_name(Path(files))}: there is no context {wanted!r}", hint=f"contexts: {names}")
    return found


def _pod_namespace() -> str:
    try:
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"
