"""The life of the two sockets: how they appear, whom they replace, how they go."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest

from driver.errors import InputError, NodeError
from kubeletplugin.grpc_server.sockets import PluginSocket
from kubeletplugin.protocol import dra_v1_pb2, dra_v1_pb2_grpc
from kubeletplugin.protocol import plugin_registration_v1_pb2 as registration
from kubeletplugin.protocol import plugin_registration_v1_pb2_grpc as registration_grpc


def prepare(node, server, uid: str = "u1", timeout: float = 10):
    client = dra_v1_pb2_grpc.DRAPluginStub(node.channel(server.endpoint))
    claim = dra_v1_pb2.Claim(namespace="team", name="a", uid=uid)
    return client.NodePrepareResources.future(dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim]), timeout=timeout)


def registered_endpoint(node, server) -> str:
    client = registration_grpc.RegistrationStub(node.channel(server.registration_socket))
    return client.GetInfo(registration.InfoRequest(), timeout=10).endpoint


def dead_socket(path: Path) -> None:
    """What a killed process leaves: a socket that nobody listens on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()


def test_both_sockets_are_for_root_alone_and_nothing_else_is_left(node) -> None:
    server = node.started()
    assert node.files() == ["dra-a.sock", "rootport.dev-a-reg.sock"]
    for path in (server.endpoint, server.registration_socket):
        status = path.stat()
        assert stat.S_ISSOCK(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == 0o600
    assert stat.S_IMODE(node.plugin_dir.stat().st_mode) & 0o007 == 0


def test_the_registration_socket_appears_complete_and_after_the_dra_socket_is_served(node, monkeypatch) -> None:
    seen = []
    show = PluginSocket.show

    def show_and_look(plugin_socket: PluginSocket) -> os.stat_result:
        before = plugin_socket.path.exists()
        status = show(plugin_socket)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(plugin_socket.path))
        seen.append((plugin_socket.path.name, before))
        return status

    monkeypatch.setattr(PluginSocket, "show", show_and_look)
    server = node.started()
    assert seen == [("dra-a.sock", False), ("rootport.dev-a-reg.sock", False)]
    assert prepare(node, server).result().claims["u1"].devices


def test_nothing_is_left_after_a_stop_and_a_second_stop_is_none(node) -> None:
    server = node.started()
    server.stop(1)
    assert node.files() == []
    server.stop(1)


def test_a_running_call_ends_within_the_grace_while_the_driver_is_unregistered_already(node) -> None:
    node.claims.may_end = threading.Event()
    server = node.started()
    call = prepare(node, server)
    assert node.claims.entered.wait(10)
    stopping = threading.Thread(target=server.stop, args=(20,))
    stopping.start()
    deadline = time.monotonic() + 10
    while server.registration_socket.exists():
        assert time.monotonic() < deadline
    assert stopping.is_alive()
    node.claims.may_end.set()
    assert call.result().claims["u1"].devices
    stopping.join(10)
    assert not stopping.is_alive()
    assert node.files() == []


def test_a_call_that_outlives_the_grace_is_cancelled(node) -> None:
    node.claims.may_end = threading.Event()
    server = node.started()
    call = prepare(node, server)
    assert node.claims.entered.wait(10)
    start = time.monotonic()
    server.stop(0.1)
    assert time.monotonic() - start < 5
    with pytest.raises(grpc.RpcError):
        call.result()
    node.claims.may_end.set()


def test_two_instances_serve_at_once_and_each_goes_with_its_own_sockets(node) -> None:
    old, new = node.started("old"), node.started("new")
    assert node.files() == [
        "dra-new.sock",
        "dra-old.sock",
        "rootport.dev-new-reg.sock",
        "rootport.dev-old-reg.sock",
    ]
    assert registered_endpoint(node, old) == str(old.endpoint)
    assert registered_endpoint(node, new) == str(new.endpoint)
    old.stop(1)
    assert node.files() == ["dra-new.sock", "rootport.dev-new-reg.sock"]
    assert prepare(node, new).result().claims["u1"].devices


KILLED = """
import sys, threading
from pathlib import Path
from kubeletplugin.grpc_server import PluginServer
class Health:
    def version(self): return 0
    def wait(self, version, timeout_s): threading.Event().wait(timeout_s); return 0
folder = Path(sys.argv[1])
server = PluginServer(claims=None, health=Health(), listener=None, instance=sys.argv[2],
    plugin_dir=folder / "plugins" / "rootport.dev", registry_dir=folder / "plugins_registry")
server.start()
print("serving", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("successor", ["a", "b"], ids=["the same instance", "another instance"])
def test_the_sockets_of_a_killed_process_are_replaced_or_removed(node, successor) -> None:
    command = [sys.executable, "-c", KILLED, str(node.folder), "a"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "serving\n"
        with pytest.raises(NodeError, match="another process serves the socket"):
            node.server("a").start()
        assert node.files() == ["dra-a.sock", "rootport.dev-a-reg.sock"]
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert node.files() == ["dra-a.sock", "rootport.dev-a-reg.sock"]
    server = node.started(successor)
    assert node.files() == [f"dra-{successor}.sock", f"rootport.dev-{successor}-reg.sock"]
    assert registered_endpoint(node, server) == str(server.endpoint)


def test_sockets_killed_before_they_were_shown_are_removed(node) -> None:
    dead_socket(node.plugin_dir / ".dra-old.sock")
    dead_socket(node.registry_dir / ".rootport.dev-old-reg.sock")
    node.started()
    assert node.files() == ["dra-a.sock", "rootport.dev-a-reg.sock"]


def test_what_is_not_a_dead_socket_of_this_driver_is_left_alone(node) -> None:
    node.plugin_dir.mkdir(parents=True)
    dead_socket(node.registry_dir / "example.com-x-reg.sock")
    dead_socket(node.plugin_dir / "other.sock")
    (node.plugin_dir / "dra-file.sock").write_text("a file")
    (node.plugin_dir / "dra-link.sock").symlink_to(node.plugin_dir / "other.sock")
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(node.plugin_dir / "dra-alive.sock"))
        alive.listen()
        node.started()
        node.servers[-1].stop(1)
    assert node.files() == ["dra-alive.sock", "dra-file.sock", "dra-link.sock", "example.com-x-reg.sock", "other.sock"]


def test_a_stop_removes_no_socket_that_is_anothers_by_now(node) -> None:
    server = node.started()
    server.registration_socket.unlink()
    dead_socket(server.registration_socket)
    server.stop(1)
    assert node.files() == ["rootport.dev-a-reg.sock"]


def test_a_folder_may_have_characters_that_mean_something_in_a_uri(node) -> None:
    server = node.server(plugin_dir=node.folder / "a b%20c#d?e", registry_dir=node.registry_dir)
    server.start()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(server.endpoint))
    assert server.endpoint.parent.name == "a b%20c#d?e"


def test_a_path_too_long_for_a_socket_is_the_users_to_mend(node) -> None:
    registry = node.folder / ("r" * (106 - len(str(node.folder)) - len("//rootport.dev-a-reg.sock")))
    registry.mkdir()
    server = node.server(registry_dir=registry)
    server.start()
    assert len(str(server.registration_socket)) == 106
    assert registered_endpoint(node, server) == str(server.endpoint)
    with pytest.raises(InputError, match="has 107 bytes, at most 106 are possible") as refused:
        node.server("ab", registry_dir=registry)
    assert "shorter" in (refused.value.hint or "")


@pytest.mark.parametrize("instance", ["", "../x", "a/b", "A", "a" * 64, "a.b"])
def test_an_instance_name_that_is_no_label_is_refused(node, instance) -> None:
    with pytest.raises(InputError, match="instance"):
        node.server(instance)


def test_a_relative_folder_is_refused(node) -> None:
    with pytest.raises(InputError, match="absolute"):
        node.server(plugin_dir=Path("plugins"))


def test_without_the_kubelets_folder_nothing_is_served_and_nothing_left(node) -> None:
    shutil.rmtree(node.registry_dir)
    server = node.server()
    with pytest.raises(NodeError, match="plugins_registry"):
        server.start()
    assert [path.name for path in node.plugin_dir.iterdir()] == ["sockets.lock"]
    node.registry_dir.mkdir()
    assert node.started("b")
