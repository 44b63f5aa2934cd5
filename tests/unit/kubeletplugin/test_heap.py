"""What the plugin's process gives back of its heap. Each test runs in a process of its own: malloc is all of it."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc's settings are glibc's")

RESIDENT = """
import json
from pathlib import Path

def resident(kind):
    return int(Path("/proc/self/status").read_text().partition(f"{kind}:")[2].split()[0])
"""

FREED_LATER = f"""{RESIDENT}
from kubeletplugin import heap
heap.set_up_malloc()
large = b"x" * (12 << 20)
del large
before = resident("RssAnon")
kept = []
for _ in range(5):
    several = [b"y" * 300_000 for _ in range(40)]
    kept.append(bytearray(1000))
    del several
print(json.dumps(resident("RssAnon") - before))
"""

CODE = f"""{RESIDENT}
import grpc
from kubeletplugin import heap
before = resident("RssFile")
heap.give_back()
given = before - resident("RssFile")
channel = grpc.insecure_channel("unix:/nowhere")
try:
    channel.unary_unary("/a/b")(b"", timeout=5)
except grpc.RpcError as error:
    print(json.dumps([given, error.code().name]))
"""


def printed(program: str) -> object:
    child = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60, check=True)
    return json.loads(child.stdout)


def test_what_is_freed_after_a_large_block_goes_back_to_the_system() -> None:
    kib = printed(FREED_LATER)
    assert isinstance(kib, int)
    assert kib < 4_000, "without the settings it is 12,000"


def test_code_that_only_starting_needed_is_let_go_and_all_still_works() -> None:
    found = printed(CODE)
    assert isinstance(found, list)
    given_kib, code = found
    assert given_kib > 4_000
    assert code == "UNAVAILABLE"
