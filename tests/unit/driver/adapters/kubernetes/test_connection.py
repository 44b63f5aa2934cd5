"""Credentials, time limits, dropped connections: against a scripted server, and the real one where TLS counts."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, UnavailableError
from driver.adapters.kubernetes.kubeconfig import cluster_context
from driver.adapters.kubernetes.resources import DEVICES, NODES
from driver.adapters.kubernetes.write_counts import WriteCounter
from driver.errors import InputError

Answers = Callable[..., Any]
Connect = Callable[..., KubernetesApi]


def test_a_read_over_a_dropped_connection_is_sent_once_more(scripted: Any, scripted_api: Any, answer: Answers) -> None:
    scripted.answers = [answer(), answer(dropped=True), answer({"metadata": {"name": "n"}})]
    scripted_api.get(NODES, "first")
    assert scripted_api.get(NODES, "n") == {"metadata": {"name": "n"}}
    assert len(scripted.requests) == 3


def test_a_read_is_not_sent_a_third_time(scripted: Any, scripted_api: Any, answer: Answers) -> None:
    scripted.answers = [answer(dropped=True)] * 2
    with pytest.raises(UnavailableError, match="no answer from the API server"):
        scripted_api.get(NODES, "n")
    assert len(scripted.requests) == 2


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda api: api.create(DEVICES, {"metadata": {"name": "n"}}), id="create"),
        pytest.param(lambda api: api.replace(DEVICES, {"metadata": {"name": "n"}}), id="replace"),
        pytest.param(lambda api: api.apply(DEVICES, {"metadata": {"name": "n"}}, field_manager="m"), id="apply"),
        pytest.param(lambda api: api.merge_patch(DEVICES, "n", {"a": 1}), id="merge_patch"),
        pytest.param(lambda api: api.delete(DEVICES, "n"), id="delete"),
    ],
)
def test_a_write_is_never_sent_twice(
    scripted: Any, scripted_api: Any, answer: Answers, write: Callable[[KubernetesApi], object]
) -> None:
    scripted.answers = [answer(dropped=True)]
    with pytest.raises(UnavailableError):
        write(scripted_api)
    assert len(scripted.requests) == 1


def test_writes_are_counted_where_they_are_sent_and_reads_are_not(
    scripted: Any, answer: Answers, connect: Connect
) -> None:
    counter = WriteCounter()
    scripted.answers = [answer({}), answer({}), answer({}), answer({"kind": "Status"}, 409), answer(dropped=True)]
    with connect(kubeconfig=scripted.kubeconfig, timeout_s=5, on_write=counter) as api:
        api.get(NODES, "n")
        api.create(DEVICES, {"metadata": {"name": "n"}}, dry_run=True)
        api.merge_patch(DEVICES, "n", {"a": 1}, subresource="status")
        with pytest.raises(ApiServerError):
            api.merge_patch(DEVICES, "n", {"a": 1}, subresource="status")
        with pytest.raises(UnavailableError):
            api.delete(DEVICES, "n")
    status, devices = ("devices.rootport.dev/status", "patch"), ("devices.rootport.dev", "delete")
    assert counter.so_far().sent == {status: 2, devices: 1}
    assert counter.so_far().failed == {status: 1, devices: 1}


def test_a_busy_server_says_when_to_come_back(scripted: Any, scripted_api: Any, answer: Answers) -> None:
    scripted.answers = [answer({"kind": "Status"}, 429, {"Retry-After": "7"})]
    with pytest.raises(UnavailableError) as caught:
        scripted_api.get(NODES, "n")
    assert caught.value.retry_after_s == 7
    assert len(scripted.requests) == 1


@pytest.mark.parametrize("body", [b"<html>login</html>", b"[]", b""])
def test_an_answer_that_is_no_object_is_told_as_such(
    scripted: Any, scripted_api: Any, answer: Answers, body: bytes
) -> None:
    scripted.answers = [answer(body)]
    with pytest.raises(ApiServerError, match="no JSON object"):
        scripted_api.get(NODES, "n")


def test_a_redirect_is_not_followed(scripted: Any, scripted_api: Any, answer: Answers) -> None:
    scripted.answers = [answer(b"moved", 302, {"Location": "http://127.0.0.1:1/"})]
    with pytest.raises(ApiServerError, match="HTTP 302"):
        scripted_api.get(NODES, "n")


def test_names_and_selectors_are_quoted(scripted: Any, scripted_api: Any, answer: Answers) -> None:
    scripted.answers = [answer(), answer({"items": []})]
    scripted_api.get(NODES, "a?b#c d")
    scripted_api.list(NODES, label_selector="a=b,c in (d)", field_selector="metadata.name=x&limit=1")
    assert scripted.requests[0] == "GET /api/v1/nodes/a%3Fb%23c%20d"
    assert "labelSelector=a%3Db%2Cc%20in%20%28d%29&fieldSelector=metadata.name%3Dx%26limit%3D1" in scripted.requests[1]


def test_a_kubeconfigs_token_is_sent_and_who_we_are(scripted: Any, scripted_api: Any, answer: Answers) -> None:
    scripted.answers = [answer()]
    scripted_api.get(NODES, "n")
    headers = {name.lower(): value for name, value in scripted.headers[0].items()}
    assert headers["authorization"] == "Bearer secret"
    assert headers["user-agent"].startswith("rootport")


def test_the_environments_proxy_is_not_used(
    scripted: Any, answer: Answers, monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    scripted.answers = [answer()]
    with connect(kubeconfig=scripted.kubeconfig) as api:
        api.get(NODES, "n")


def test_nobody_listening_is_unavailable_at_once(tmp_path: Path, scripted: Any, connect: Connect) -> None:
    scripted.stop()
    with connect(kubeconfig=scripted.kubeconfig) as api, pytest.raises(UnavailableError) as caught:
        api.create(DEVICES, {"metadata": {"name": "n"}})
    assert caught.value.status is None
    assert "is it running" in str(caught.value)
    assert caught.value.retry_helps


def test_a_server_that_never_answers_costs_the_time_limit_only(scripted: Any, tmp_path: Path, connect: Connect) -> None:
    config = yaml.safe_load(scripted.kubeconfig.read_text())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        path = tmp_path / "silent"
        path.write_text(yaml.safe_dump(config))
        started = time.monotonic()
        with connect(kubeconfig=path, timeout_s=0.3) as api:
            with pytest.raises(UnavailableError, match="timed out"):
                api.get(NODES, "n")
            with pytest.raises(UnavailableError, match="timed out"):
                api.watch(NODES, resource_version="1")
        assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="a list"),
        pytest.param("{:", id="no YAML"),
        pytest.param("current-context: x", id="no contexts"),
        pytest.param("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", id="no cluster"),
        pytest.param("{current-context: x, contexts: 3}", id="contexts is a number"),
        pytest.param(
            "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
            " users: [{name: u, user: {client-certificate-data: a}}],"
            " clusters: [{name: c, cluster: {server: 'https://h', certificate-authority-data: a}}]}",
            id="no base64",
        ),
    ],
)
def test_a_broken_kubeconfig_is_one_message(tmp_path: Path, text: str, connect: Connect) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match="not a usable kubeconfig"):
        connect(kubeconfig=path)


@pytest.mark.parametrize("text", ["foo", "{current-context: x, contexts: 3}", "3"])
def test_a_file_that_is_no_kubeconfig_is_not_explained_in_words_of_python(
    tmp_path: Path, text: str, connect: Connect
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    for each in (connect, cluster_context):
        with pytest.raises(InputError, match="expected clusters, contexts and users"):
            each(kubeconfig=path)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo no ticket >&2; exit 3", "process returned 3"),
        ("echo garbage", "failed to decode process output"),
        (
            """echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {}}'""",
            "token",
        ),
    ],
    ids=["fails", "garbage", "empty"],
)
def test_a_credential_plugin_that_fails_is_one_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, reason: str, connect: Connect
) -> None:
    path = tmp_path / "config"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://h"}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    }
    path.write_text(json.dumps(config))
    for each in (connect, cluster_context):
        with pytest.raises(InputError, match=rf"credential plugin \(exec\) gives no credentials: .*{reason}"):
            each(kubeconfig=path)
    assert capfd.readouterr().err == ""


def test_a_missing_kubeconfig_is_one_message(tmp_path: Path, connect: Connect) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        connect(kubeconfig=tmp_path / "none")


def test_outside_a_pod_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch, connect: Connect) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InputError, match="name a kubeconfig"):
        connect()


@pytest.mark.parametrize("inline", [False, True], ids=["files beside the kubeconfig", "data in the kubeconfig"])
def test_a_client_certificate_is_presented(
    scripted_tls: Any, tmp_path: Path, answer: Answers, inline: bool, connect: Connect
) -> None:
    files = {"client-certificate": "certificate", "client-key": "key"}
    if inline:
        user = {f"{k}-data": base64.b64encode((tmp_path / name).read_bytes()).decode() for k, name in files.items()}
    else:
        user = files
    config = yaml.safe_load(scripted_tls.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["certificate-authority"] = "certificate"
    config["users"][0]["user"] = user
    scripted_tls.kubeconfig.write_text(yaml.safe_dump(config))
    scripted_tls.answers = [answer({"metadata": {"name": "n"}})]
    with connect(kubeconfig=scripted_tls.kubeconfig) as api:
        assert api.get(NODES, "n") == {"metadata": {"name": "n"}}


def test_neither_models_nor_asynchronous_http_are_loaded() -> None:
    """They would cost each node's plugin tens of MiB."""
    script = (
        "import sys; from driver.adapters.kubernetes.reflector import Reflector\n"
        "loaded = [m for m in sys.modules if m.startswith(('kubernetes.client.models.', 'kubernetes.client.api.',"
        " 'kubernetes.aio', 'aiohttp'))]\n"
        "sys.exit(str(loaded[:5]) if loaded else 0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_who_only_names_resources_and_errors_does_not_load_the_client() -> None:
    script = (
        "import sys; import driver.adapters.kubernetes.errors, driver.adapters.kubernetes.resources\n"
        "sys.exit('kubernetes' in sys.modules or 'urllib3' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
