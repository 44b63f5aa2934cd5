"""The plugin's server, called by the real program over a real socket."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from driver.errors import InputError, NodeError
from kubeletplugin.network.cni.server import CniServer
from tests.support.paths import REPO

pytestmark = pytest.mark.needs_cc

POD = "0d9ac3e4-7b12-4c5e-9d0f-a1b2c3d4e5f6"
CONFIG = {"cniVersion": "0.4.0", "name": "pods", "prevResult": {"cniVersion": "0.4.0", "dns": {"search": ["a"]}}}


class Recorder:
    """A lender that writes down what it is asked, and does what a test says."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str | None]] = []
        self.error: Exception | None = None
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def attach(self, pod_uid: str, netns: str) -> None:
        self._called("attach", pod_uid, netns)

    def detach(self, pod_uid: str, netns: str | None) -> None:
        self._called("detach", pod_uid, netns)

    def check(self, pod_uid: str, netns: str) -> None:
        self._called("check", pod_uid, netns)

    def _called(self, what: str, pod_uid: str, netns: str | None) -> None:
        self.calls.append((what, pod_uid, netns))
        if not self.may_go_on.wait(20):
            raise TimeoutError
        if self.error is not None:
            raise self.error


@pytest.fixture
def lender() -> Recorder:
    return Recorder()


@pytest.fixture
def server(shim: Any, lender: Recorder, me: int) -> Iterator[CniServer]:
    shim.know()
    server = CniServer(shim.state_dir, lender, peer_uid=me)
    server.start()
    yield server
    lender.may_go_on.set()
    server.stop()


@pytest.mark.usefixtures("server")
def test_the_calls_of_a_pod_with_interfaces_reach_the_lender(shim: Any, lender: Recorder) -> None:
    answers = [shim.run(command, CONFIG) for command in ("ADD", "CHECK", "DEL")]
    assert [(x.status, x.stderr) for x in answers] == [(0, b"")] * 3
    assert answers[0].json == CONFIG["prevResult"]
    assert [x.stdout for x in answers[1:]] == [b"", b""]
    assert lender.calls == [
        ("attach", POD, "/run/netns/x"),
        ("check", POD, "/run/netns/x"),
        ("detach", POD, "/run/netns/x"),
    ]


@pytest.mark.usefixtures("server")
def test_a_namespace_that_is_gone_is_none_to_the_lender(shim: Any, lender: Recorder) -> None:
    assert shim.run("DEL", b"what a runtime without its cache sends", netns="").status == 0
    assert lender.calls == [("detach", POD, None)]


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(NodeError('claim a/b: "mlx5_3" is\tgone, désolé', hint="plug it in"), 11, id="a retry helps"),
        pytest.param(InputError("claim a/b: no such VLAN"), 100, id="a retry is of no use"),
    ],
)
def test_the_pods_event_says_all_that_the_lender_said(shim: Any, lender: Recorder, error: Exception, code: int) -> None:
    lender.error = error
    answer = shim.run("ADD", CONFIG)
    assert answer.status == 1
    assert answer.json == {"cniVersion": "0.4.0", "code": code, "msg": str(error)}


@pytest.mark.usefixtures("server")
def test_a_bug_fails_the_call_and_not_the_server(shim: Any, lender: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    lender.error = ZeroDivisionError()
    with caplog.at_level(logging.ERROR):
        answer = shim.run("ADD", CONFIG)
    assert answer.json["code"] == 101
    assert f"pod team-a/train-0 (uid {POD})" in answer.json["msg"]
    lender.error = None
    assert shim.run("ADD", CONFIG).status == 0


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("netns", ["", "run/netns/x", "/run/../netns"])
def test_a_namespace_that_is_no_path_is_refused(shim: Any, lender: Recorder, netns: str) -> None:
    assert shim.run("ADD", CONFIG, netns=netns).status == 1
    assert lender.calls == []


_CALL = {"version": 1, "command": "ADD", "podUID": POD, "netns": "/run/netns/x"}


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"\xff\xfe{", id="no JSON"),
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(json.dumps({**_CALL, "version": 2}).encode(), id="another version"),
        pytest.param(json.dumps({**_CALL, "command": "GC"}).encode(), id="another command"),
        pytest.param(json.dumps({**_CALL, "podUID": "../x"}).encode(), id="a path for a UID"),
        pytest.param(json.dumps({**_CALL, "podUID": POD + "\n"}).encode(), id="a line break behind the UID"),
        pytest.param(json.dumps({**_CALL, "netns": 1}).encode(), id="a number for a path"),
    ],
)
def test_a_call_that_is_none_is_refused(shim: Any, lender: Recorder, said: bytes) -> None:
    answer = json.loads(_ask(shim.state_dir / "cni.sock", said))
    assert answer["error"]["code"] == 6
    assert lender.calls == []


@pytest.mark.usefixtures("server")
def test_a_newer_program_may_say_more(shim: Any, lender: Recorder) -> None:
    said = json.dumps({**_CALL, "mood": "sunny"}).encode()
    assert json.loads(_ask(shim.state_dir / "cni.sock", said)) == {"version": 1, "result": {}}
    assert lender.calls == [("attach", POD, "/run/netns/x")]


@pytest.mark.usefixtures("server")
def test_a_call_of_more_than_its_limit_gets_no_answer(shim: Any) -> None:
    assert _ask(shim.state_dir / "cni.sock", b" " * 300_000) == b""


def test_only_root_is_served(shim: Any, lender: Recorder, me: int) -> None:
    shim.know()
    server = CniServer(shim.state_dir, lender, peer_uid=me + 1)
    server.start()
    try:
        assert shim.run("ADD", CONFIG).json["code"] == 11
        assert (shim.state_dir / "cni.sock").stat().st_mode & 0o777 == 0o600
    finally:
        server.stop()
    assert lender.calls == []


def test_a_call_that_takes_too_long_is_answered_and_goes_on(shim: Any, lender: Recorder, me: int) -> None:
    shim.know()
    lender.may_go_on.clear()
    server = CniServer(shim.state_dir, lender, peer_uid=me, call_timeout_s=0.1)
    server.start()
    try:
        answer = shim.run("ADD", CONFIG)
        assert answer.json["code"] == 11
        assert "not moved yet after 0.1 s" in answer.json["msg"]
        lender.may_go_on.set()
        assert shim.run("ADD", CONFIG).status == 0
    finally:
        server.stop()


@pytest.mark.usefixtures("server")
def test_more_calls_than_it_takes_are_told_to_come_later(shim: Any, lender: Recorder) -> None:
    lender.may_go_on.clear()
    path = shim.state_dir / "cni.sock"
    waiting = [_connected(path) for _ in range(64)]
    try:
        refused = json.loads(_ask(path, b""))
        assert refused["error"]["code"] == 11
        assert "64 calls" in refused["error"]["msg"]
        for client in waiting:
            client.sendall(json.dumps(_CALL).encode())
            client.shutdown(socket.SHUT_WR)
        lender.may_go_on.set()
        assert {client.recv(4096) for client in waiting} == {b'{"version": 1, "result": {}}'}
    finally:
        for client in waiting:
            client.close()


def test_where_no_thread_can_be_started_calls_are_answered_and_served_later(
    server: CniServer, shim: Any, lender: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name.startswith("cni-call"):
            raise RuntimeError("can't start new thread")
        start(thread)

    assert server is not None
    path = shim.state_dir / "cni.sock"
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        for _ in range(70):  # more than the calls that it takes at a time
            answer = json.loads(_ask(path, b""))
            assert answer["error"]["code"] == 11
            assert "limit of processes" in answer["error"]["msg"]
    assert shim.run("ADD", CONFIG).status == 0
    assert len(lender.calls) == 1


def test_the_newest_process_owns_the_socket_and_an_elder_does_not_take_it_away(shim: Any, me: int) -> None:
    shim.know()
    elder, newer = Recorder(), Recorder()
    servers = [CniServer(shim.state_dir, x, peer_uid=me) for x in (elder, newer)]
    for server in servers:
        server.start()
    servers[0].check()
    servers[0].stop()
    assert shim.run("ADD", CONFIG).status == 0
    assert (elder.calls, len(newer.calls)) == ([], 1)
    servers[1].stop()
    assert not (shim.state_dir / "cni.sock").exists()


def test_a_check_that_runs_beside_the_end_does_not_show_the_socket_again(shim: Any, me: int) -> None:
    shim.know()
    server = CniServer(shim.state_dir, Recorder(), peer_uid=me)
    server.start()
    server.stop()
    server.check()
    assert not (shim.state_dir / "cni.sock").exists()


def test_an_elder_serves_again_where_the_newer_one_has_ended(shim: Any, me: int) -> None:
    shim.know()
    elder = Recorder()
    server, newer = CniServer(shim.state_dir, elder, peer_uid=me), CniServer(shim.state_dir, Recorder(), peer_uid=me)
    server.start()
    newer.start()
    newer._close()  # as the kernel does with a process that is killed: the socket's file stays
    try:
        server.check()
        assert shim.run("ADD", CONFIG).status == 0
    finally:
        server.stop()
    assert len(elder.calls) == 1


def test_a_call_goes_to_the_next_process_where_the_first_is_killed_meanwhile(
    shim: Any, lender: Recorder, me: int
) -> None:
    shim.know()
    program = (
        "import sys, time; from pathlib import Path; from kubeletplugin.network.cni.server import CniServer\n"
        "class Slow:\n"
        "    def attach(self, pod_uid, netns): print('called', flush=True); time.sleep(60)\n"
        "CniServer(Path(sys.argv[1]), Slow(), peer_uid=int(sys.argv[2])).start(); print('serving', flush=True)\n"
        "time.sleep(60)\n"
    )
    with _python(program, shim.state_dir, me) as first:
        assert first.stdout.readline() == b"serving\n"
        with shim.command("ADD") as call:
            call.stdin.write(json.dumps(CONFIG).encode())
            call.stdin.close()
            assert first.stdout.readline() == b"called\n"
            server = CniServer(shim.state_dir, lender, peer_uid=me)
            server.start()
            first.kill()
            try:
                assert json.loads(call.stdout.read()) == CONFIG["prevResult"]
            finally:
                server.stop()
    assert lender.calls == [("attach", POD, "/run/netns/x")]


def test_a_call_that_hangs_keeps_no_process_from_ending(shim: Any, me: int) -> None:
    shim.know()
    program = (
        "import sys, threading; from pathlib import Path; from kubeletplugin.network.cni.server import CniServer\n"
        "called = threading.Event()\n"
        "class Hangs:\n"
        "    def attach(self, pod_uid, netns): called.set(); threading.Event().wait()\n"
        "server = CniServer(Path(sys.argv[1]), Hangs(), peer_uid=int(sys.argv[2])); server.start()\n"
        "print('serving', flush=True); called.wait(); server.stop()\n"
    )
    with _python(program, shim.state_dir, me) as process:
        assert process.stdout.readline() == b"serving\n"
        assert shim.run("ADD", CONFIG).json["code"] == 11
        assert process.wait(10) == 0
    assert not (shim.state_dir / "cni.sock").exists()


def _python(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPO, env={**os.environ})


def _connected(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(path))
    return client


def _ask(path: Path, said: bytes) -> bytes:
    with _connected(path) as client:
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(said)
            client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            return client.recv(65536)
    return b""
