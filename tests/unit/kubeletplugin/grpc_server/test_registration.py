"""What the kubelet hears when it finds the registration socket, and what it tells back."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from kubeletplugin.protocol import plugin_registration_v1_pb2 as protocol
from kubeletplugin.protocol import plugin_registration_v1_pb2_grpc as protocol_grpc


def kubelet(node, server, authority: str | None = None):
    path = server.registration_socket
    # The kubelet dials the bare path, so gRPC for Go makes the path its :authority, percent-encoded.
    return protocol_grpc.RegistrationStub(node.channel(path, authority=authority or quote(str(path), safe="")))


@pytest.mark.parametrize("authority", [None, "localhost", "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fx-reg.sock"])
def test_the_plugin_introduces_itself_whatever_the_authority(node, authority) -> None:
    server = node.started("0a1b-2c")
    info = kubelet(node, server, authority).GetInfo(protocol.InfoRequest(), timeout=10)
    assert (info.type, info.name) == ("DRAPlugin", "rootport.dev")
    assert info.endpoint == str(node.plugin_dir / "dra-0a1b-2c.sock")
    assert list(info.supported_versions) == [
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    ]
    assert server.registration_socket == node.registry_dir / "rootport.dev-0a1b-2c-reg.sock"


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(protocol.RegistrationStatus(plugin_registered=True), id="accepted"),
        pytest.param(protocol.RegistrationStatus(plugin_registered=False, error="no version fits"), id="refused"),
    ],
)
def test_the_listener_hears_the_kubelets_answer(node, status) -> None:
    kubelet(node, node.started()).NotifyRegistrationStatus(status, timeout=10)
    assert node.listener.heard == [(status.plugin_registered, status.error)]


def test_a_refusal_is_logged_with_the_kubelets_reason(node, caplog) -> None:
    status = protocol.RegistrationStatus(plugin_registered=False, error="no version fits")
    kubelet(node, node.started()).NotifyRegistrationStatus(status, timeout=10)
    assert "event=registration-refused" in caplog.text
    assert 'error="no version fits"' in caplog.text


def test_a_fault_of_the_listener_does_not_undo_the_registration(node, caplog) -> None:
    node.listener.fault = OSError("disk full")
    kubelet(node, node.started()).NotifyRegistrationStatus(
        protocol.RegistrationStatus(plugin_registered=True), timeout=10
    )
    assert node.listener.heard == [(True, "")]
    assert "disk full" in caplog.text
