"""Credentials, time limits, dropped connections: against a scripted server, and the real one where TLS counts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes.config import incluster_config

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError, UnavailableError
from driver.adapters.kubernetes.resources import NODES
from tests.support.cluster.control_plane import ADMIN_TOKEN, ControlPlane


def test_the_service_accounts_token_is_read_again_when_kubelet_has_replaced_it(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - as the client asks
    clock = SimpleNamespace(datetime=SimpleNamespace(now=lambda: now), timedelta=dt.timedelta)
    cluster = yaml.safe_load(control_plane.kubeconfig.read_text())["clusters"][0]["cluster"]
    server = urlsplit(cluster["server"])
    token = tmp_path / "token"
    token.write_text("expired")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", server.hostname or "")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", cluster["certificate-authority"])
    monkeypatch.setattr(incluster_config, "datetime", clock)
    with KubernetesApi.connect() as api:
        with pytest.raises(ForbiddenError, match="does not accept these credentials"):
            api.list(NODES)
        token.write_text(ADMIN_TOKEN)
        now += dt.timedelta(minutes=2)
        api.list(NODES)
        token.unlink()
        now += dt.timedelta(minutes=2)
        with pytest.raises(UnavailableError, match="token cannot be read"):
            api.list(NODES)


@pytest.mark.parametrize("small", [False, True])
def test_a_certificate_of_another_authority_is_named_as_the_cause(
    control_plane: ControlPlane, tmp_path: Path, small: bool
) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    with (
        KubernetesApi.connect(kubeconfig=path, small=small) as api,
        pytest.raises(UnavailableError, match="certificate authority"),
    ):
        api.list(NODES)
