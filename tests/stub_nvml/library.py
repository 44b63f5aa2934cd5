"""Builds the stub library and runs code in processes that load it in place of NVIDIA's."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stub_nvml.machine import Machine

__all__ = ["StubNvml", "build", "run"]

_SOURCE: Final = Path(__file__).with_name("nvml_stub.c")

# What the child process runs: one function by its name, its result or exception pickled to stdout.
_CHILD: Final = """\
import importlib, pickle, sys
module, function, arguments, keywords = pickle.load(sys.stdin.buffer)
try:
    outcome = (True, getattr(importlib.import_module(module), function)(*arguments, **keywords))
except Exception as error:
    outcome = (False, error)
sys.stdout.buffer.write(pickle.dumps(outcome))
"""


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
    """
    module, _, name = function.partition(":")
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", _CHILD],
        input=pickle.dumps((module, name, arguments, keywords)),
        env=environment,
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    returned, outcome = pickle.loads(child.stdout)
    if returned:
        return outcome
    raise outcome
