"""``rootport-cni``, compiled with the sanitizers: its JSON reader beside Python's, and whole calls with bad answers."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.fuzz.fuzzing import REPO, Target
from tests.fuzz.mutation import JSON_TOKENS, mutated, spoilt

pytestmark = [pytest.mark.fuzz, pytest.mark.needs_cc]

_SHIM: Final = REPO / "kubeletplugin/network/cni/shim"
_POD: Final = "0d9ac3e4-7b12-4c5e-9d0f-a1b2c3d4e5f6"
_MAX_DEPTH: Final = 256
_RESULT: Final = {"cniVersion": "1.0.0", "ips": [{"address": "10.42.0.7/16", "interface": 0}], "dns": {}}
_CONFIG: Final = {"cniVersion": "1.0.0", "name": "pods", "type": "rootport-cni", "prevResult": _RESULT}
_ANSWERS: Final = (
    {"version": 1, "result": {}},
    {"version": 1, "error": {"cniVersion": "1.0.0", "code": 11, "msg": "é"}},
)
_ARGUMENTS: Final = f"IgnoreUnknown=1;K8S_POD_NAMESPACE=team-a;K8S_POD_NAME=train-0;K8S_POD_UID={_POD}".encode()
_BETWEEN: Final = b"\n--\n"
_TOKENS: Final = (
    *JSON_TOKENS,
    b'"prevResult":',
    b'"prev\\u0052esult"',
    b'"cniVersion"',
    b'"1.0.\\u0030"',
    b"\\/",
    b"\\b",
)


@pytest.fixture(scope="module")
def compiled() -> Iterator[Callable[..., Path]]:
    """Compiles C files of the program together with others, under the sanitizers where the compiler has them."""
    with tempfile.TemporaryDirectory(
        prefix="cni-"
    ) as folder:  # a socket's path is short, and pytest's folders need not be

        def compile_(name: str, *sources: Path) -> Path:
            program = Path(folder, name)
            flags = [f'-DSTATE_DIR="{folder}/state"', "-DPATIENCE_MS=1", "-DANSWER_MS=5000", f"-I{_SHIM}"]
            command = ["cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *flags, "-o", program, *sources]
            sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
            if subprocess.run([*command, *sanitizers], capture_output=True, check=False).returncode != 0:
                subprocess.run(command, check=True)
            return program

        yield compile_


class _Reader:
    """The C program's reader, one process for many texts."""

    def __init__(self, program: Path) -> None:
        self._command = [program]
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def read(self, data: bytes) -> tuple[bool, bool, bytes | None]:
        """Whether it is one object, whether its cniVersion is 1.0.0, and its prevResult where that is an object."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with suppress(BrokenPipeError):
            stdin.write(struct.pack("=Q", len(data)) + data)
            stdin.flush()
        line = stdout.readline()
        if not line:
            told = self.close()
            self._start()
            pytest.fail(f"the reader has ended: {told[-2000:]!r}")
        valid, version, at, length = map(int, line.split())
        return bool(valid), bool(version), data[at : at + length] if at >= 0 else None

    def close(self) -> bytes:
        return self._process.communicate()[1]


def _depth(value: Any) -> int:
    deepest, pending = 0, [(value, 0)]
    while pending:
        found, depth = pending.pop()
        deepest = max(deepest, depth + 1)
        if isinstance(found, dict | list):
            pending += [(item, depth + 1) for item in (found.values() if isinstance(found, dict) else found)]
    return deepest


def _refuse(text: str) -> None:
    raise ValueError(text)


def test_the_programs_reader_takes_what_pythons_takes(compiled: Callable[..., Path]) -> None:
    reader = _Reader(compiled("reader", REPO / "tests/fuzz/cni_json.c", _SHIM / "json.c"))

    def check(data: bytes) -> None:
        valid, version, result = reader.read(data)
        try:
            expected = json.loads(data.decode(), parse_int=str, parse_constant=_refuse)
        except UnicodeDecodeError:
            return  # the program does not look at characters
        except (ValueError, RecursionError):
            expected = None
        if not isinstance(expected, dict) or _depth(expected) > _MAX_DEPTH:
            assert not valid
            return
        assert valid
        assert version == (expected.get("cniVersion") == "1.0.0")
        previous = expected.get("prevResult")
        assert (None if result is None else json.loads(result, parse_int=str)) == (
            previous if isinstance(previous, dict) else None
        )

    def make(random: Random) -> bytes:
        return (
            spoilt(random, _CONFIG) if random.randrange(3) else mutated(random, json.dumps(_CONFIG).encode(), _TOKENS)
        )

    try:
        Target(name="cni-json", make=make, check=check, examples=1000).run()
    finally:
        reader.close()


def test_a_call_ends_with_a_result_or_an_error_object(compiled: Callable[..., Path]) -> None:
    program = compiled("rootport-cni", *sorted(_SHIM.glob("*.c")))
    state = program.parent / "state"
    (state / "pods" / _POD).mkdir(parents=True)
    answers: list[bytes] = []
    server = _server(state / "cni.sock", answers)

    def check(data: bytes) -> None:
        command, arguments, config, answer = [*data.split(_BETWEEN, 3), b"", b"", b""][:4]
        answers[:] = [answer]
        environment = {
            b"CNI_COMMAND": command.replace(b"\0", b""),
            b"CNI_ARGS": arguments.replace(b"\0", b"")[:100_000],
            b"CNI_NETNS": b"/run/netns/x",
            b"ASAN_OPTIONS": b"detect_leaks=0",  # it ends after one call
        }
        done = subprocess.run([program], input=config, env=environment, capture_output=True, check=False, timeout=60)
        assert (done.returncode in (0, 1), done.stderr) == (True, b"")
        if done.returncode == 1:
            error = json.loads(done.stdout.decode(errors="replace"), parse_int=str)
            assert isinstance(error, dict)

    def make(random: Random) -> bytes:
        parts = [
            random.choice((b"ADD", b"DEL", b"CHECK", b"GC", b"STATUS", b"VERSION", b"", b"add")),
            _ARGUMENTS
            if random.randrange(3)
            else mutated(random, _ARGUMENTS, (b";", b"=", b"K8S_POD_UID=", b"..", b"\xff")),
            spoilt(random, _CONFIG) if random.randrange(2) else json.dumps(_CONFIG).encode(),
            spoilt(random, random.choice(_ANSWERS)),
        ]
        return _BETWEEN.join(parts)

    try:
        Target(name="cni-program", make=make, check=check, examples=80, seconds=10).run()
    finally:
        server.close()
        shutil.rmtree(state)


def _server(path: Path, answers: list[bytes]) -> socket.socket:
    """Answers every call with what a test has put into ``answers``, until it is closed."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(8)

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, suppress(OSError):
                    while connection.recv(65536):
                        pass
                    connection.sendall(answers[0])

    threading.Thread(target=serve, daemon=True).start()
    return server
