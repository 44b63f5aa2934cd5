"""Builds the stub library and runs code in processes that load it in place of NVIDIA's."""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.stub_nvml.machine import Machine

__all__ = ["StubNvml", "build", "run"]

_SOURCE: Final = Path(__file__).with_name("nvml_stub.c")

# A process that forks for each call, so that Python's modules are loaded once: runs one function by its name, and
# answers with its result or exception. Environment variables that the dynamic linker reads count as it starts.
_SERVER: Final = """\
import importlib, os, pickle, signal, sys
requests, answers = sys.stdin.buffer, os.dup(1)
os.dup2(2, 1)  # what a function prints is no answer
while True:
    try:
        module, function, arguments, keywords, environment = pickle.load(requests)
    except EOFError:
        break
    try:
        importlib.import_module(module)
    except Exception:
        pass  # the child says so
    child = os.fork()
    if child:
        if os.waitpid(child, 0)[1]:
            sys.exit(1)
        continue
    signal.alarm(60)
    os.environ.clear()
    os.environ.update(environment)
    try:
        outcome = (True, getattr(importlib.import_module(module), function)(*arguments, **keywords))
    except Exception as error:
        outcome = (False, error)
    with open(answers, "wb") as stream:
        stream.write(pickle.dumps(outcome))
    os._exit(0)
"""
_OF_THE_SERVER: Final = ("LD_LIBRARY_PATH", "PYTHONPATH")
_servers: Final[dict[tuple[str | None, ...], subprocess.Popen[bytes]]] = {}


def build(directory: Path) -> StubNvml:
    """Compile the stub into ``directory``, by the name that every NVML client looks for."""
    library = directory / "libnvidia-ml.so.1"
    # With NVIDIA's SONAME: a program that has loaded it by its path has loaded what NVML's binding then asks for.
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True)
    return StubNvml(directory)


@dataclass(frozen=True, slots=True)
class StubNvml:
    """The built library; ``directory`` holds it and the descriptions of the machines it has played."""

    directory: Path

    def environment(self, machine: Machine) -> dict[str, str]:
        """This process's environment variables, and those by which another process sees ``machine``."""
        text = machine.description()
        description = self.directory / f"machine-{hashlib.sha256(text).hexdigest()[:16]}.txt"
        description.write_bytes(text)
        path = os.pathsep.join(filter(None, [str(self.directory), os.environ.get("LD_LIBRARY_PATH")]))
        return {**os.environ, "LD_LIBRARY_PATH": path, "ROOTPORT_STUB_NVML": str(description)}

    def call(self, machine: Machine, function: str, *arguments: object, **keywords: object) -> Any:
        """Run ``function`` (``package.module:name``) in a process that sees ``machine``."""
        return run(self.environment(machine), function, *arguments, **keywords)


def run(environment: dict[str, str], function: str, *arguments: object, **keywords: object) -> Any:
    """Run ``function`` (``package.module:name``) in a Python process of its own with these environment variables.

    Arguments, result and exception travel by pickle.

    Raises:
        subprocess.CalledProcessError: The process ended in the function, or took longer than 60 s.
    """
    module, _, name = function.partition(":")
    key = tuple(environment.get(variable) for variable in _OF_THE_SERVER)
    server = _servers.get(key)
    if server is None:
        if not _servers:
            atexit.register(_stop)
        server = _servers[key] = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _SERVER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    assert server.stdin is not None
    assert server.stdout is not None
    pickle.dump((module, name, arguments, keywords, environment), server.stdin)
    server.stdin.flush()
    try:
        returned, outcome = pickle.load(server.stdout)
    except EOFError:
        with _servers.pop(key):
            pass
        raise subprocess.CalledProcessError(server.returncode, function) from None
    if returned:
        return outcome
    raise outcome


def _stop() -> None:
    for server in _servers.values():
        with server:
            pass
