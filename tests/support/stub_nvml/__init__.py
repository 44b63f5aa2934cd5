"""A machine with NVIDIA GPUs for tests, on any machine: the stub libnvidia-ml.so.1 and what it is to describe.

Use it through the fixture ``nvml_stub`` (tests/conftest.py):

- ``nvml_stub.call(machine, function, *arguments)`` runs one function in a Python process that sees it;
- ``nvml_stub.environment(machine)`` gives the variables for any other process, such as a node's whole plugin.

The dynamic linker reads LD_LIBRARY_PATH once, at process start, and pynvml keeps the library it has loaded for good;
so each call gets a process of its own, and the tests' own process never loads NVML.
"""

from tests.support.stub_nvml.library import StubNvml, build, run
from tests.support.stub_nvml.machine import Link, LinkEnd, Machine, StubGpu, StubProfile
from tests.support.stub_nvml.parts import A100_40GB, GB10, H100_80GB, L4, a100_pair, dgx_h100
from tests.support.stub_nvml.state import (
    StubComputeInstance,
    StubGpuInstance,
    StubState,
    inject_double_bit_ecc_error,
    inject_xid,
    read_state,
    set_live,
    write_state,
)

__all__ = [
    "A100_40GB",
    "GB10",
    "H100_80GB",
    "L4",
    "Link",
    "LinkEnd",
    "Machine",
    "StubComputeInstance",
    "StubGpu",
    "StubGpuInstance",
    "StubNvml",
    "StubProfile",
    "StubState",
    "a100_pair",
    "build",
    "dgx_h100",
    "inject_double_bit_ecc_error",
    "inject_xid",
    "read_state",
    "run",
    "set_live",
    "write_state",
]
