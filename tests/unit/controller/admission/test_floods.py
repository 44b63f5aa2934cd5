"""What strangers can do to the webhook: real HTTPS to a process of its own, whose memory and answers are measured."""

from __future__ import annotations

import json
import re
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.installation import claim

pytestmark = pytest.mark.slow

MIB = 1 << 20
SIZE = 3 * MIB - 4096
STRANGER = "127.0.0.1"
API_SERVER = "127.0.0.2"


class Reviewer:
    """The process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.port = int(process.stdout.readline())
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    def resident(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    def peak(self) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) * 1024

    def connect(self, source: str) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(source, 0))
        return self.context.wrap_socket(plain)

    def ask(
        self, body: bytes, source: str = "127.0.0.1", before_last_byte: Callable[[], object] = lambda: None
    ) -> bytes:
        """The whole answer; empty where it is cut."""
        try:
            with self.connect(source) as tls:
                tls.sendall(b"POST /admission HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:-1])
                before_last_byte()
                tls.sendall(body[-1:])
                return b"".join(iter(lambda: tls.recv(65536), b""))
        except OSError:
            return b""


def _python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Runs a script of this folder until it is ended."""
    command = [sys.executable, Path(__file__).with_name(script), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def reviewer() -> Iterator[Reviewer]:
    script = Path(__file__).with_name("serve_reviews.py")
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Reviewer(process)
        finally:
            process.terminate()


def asked(body: object) -> bytes:
    request = {"uid": "u", "operation": "CREATE", "object": body}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def with_parameters(text: str) -> bytes:
    return asked(claim("a", config=({"of": "here"},))).replace(b'{"of": "here"}', text.encode())


def filled(begin: str, item: str, end: str) -> str:
    return f"{begin}{item * ((SIZE - 1000) // len(item))}{end}"


BODIES = {
    "empty objects": with_parameters(filled("[", "{},", "0]")),
    "pairs": with_parameters(filled("[", '{"":1},', "0]")),
    "just as many values as are read": with_parameters("[" + '{"":1},' * 98_000 + f'"{"x" * 2_000_000}"]'),
    "escapes": with_parameters(filled('["', "\\u0041", '\\ud800"]')),
    "nested": with_parameters("[" * 1_000_000 + "]" * 1_000_000),
    "a long text": with_parameters(filled('"', "x", '"')),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_32_large_bodies_at_once_cost_less_than_150_mib(reviewer: Reviewer, body: bytes) -> None:
    assert b"200 OK" in reviewer.ask(asked(claim("a")))
    before = reviewer.resident()
    together = threading.Barrier(32)

    def flood() -> None:
        # Who waits for the place for large bodies cannot send all of theirs, and breaks the barrier for the others.
        with suppress(threading.BrokenBarrierError):
            reviewer.ask(body, before_last_byte=lambda: together.wait(3))

    threads = [threading.Thread(target=flood) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert b"200 OK" in reviewer.ask(asked(claim("a")))
    assert reviewer.peak() - before < 150 * MIB


@pytest.mark.parametrize("kind", ["pairs", "just as many values as are read", "escapes"])
def test_the_api_servers_review_waits_for_no_flood(reviewer: Reviewer, kind: str, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(BODIES[kind])
    with _python("flood.py", str(reviewer.port), str(body), "8", "96") as flood:
        assert flood.stdout is not None
        flood.stdout.readline()
        try:
            took = []
            for _ in range(8):
                time.sleep(0.3)
                began = time.monotonic()
                assert b"200 OK" in reviewer.ask(asked(claim("a")), API_SERVER)
                took.append(round(time.monotonic() - began, 2))
        finally:
            flood.kill()
    assert statistics.median(took) < 2, took  # the machine may be busy with other things at any one of them


def test_a_body_with_more_values_than_any_object_has_is_refused_unread(reviewer: Reviewer) -> None:
    assert reviewer.ask(BODIES["empty objects"]).startswith(b"HTTP/1.1 413 ")


def test_a_large_review_is_answered_while_there_is_room(reviewer: Reviewer) -> None:
    body = claim("a", config=({"kind": "wrong"},))
    body["metadata"]["annotations"] = {"long": "x" * 2_000_000}
    answer = reviewer.ask(asked(body))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"'wrong' is not known" in answer.replace(b"\\u0027", b"'")
