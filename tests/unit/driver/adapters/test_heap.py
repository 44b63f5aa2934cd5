"""Memory that was given back to the C library."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

# Ten threads, each of which has had a list's page of some megabytes, and lives on.
_SCRIPT = """
import sys, threading
from pathlib import Path
from driver.adapters.heap import return_large_blocks

def resident_kib():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])

def work():
    for _ in range(3):
        page = bytearray(b"x") * (4 << 20)
        del page
    done.wait()
    stay.wait()

if sys.argv[1] == "yes":
    return_large_blocks()
before = resident_kib()
done, stay = threading.Barrier(11), threading.Event()
threads = [threading.Thread(target=work) for _ in range(10)]
for thread in threads:
    thread.start()
done.wait()
print((resident_kib() - before) // 1024)
stay.set()
"""


def _kept_mib(is_asked: str) -> int:
    done = subprocess.run([sys.executable, "-c", _SCRIPT, is_asked], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_a_page_that_a_thread_has_read_takes_no_memory_afterwards() -> None:
    assert _kept_mib("no") > 20  # what glibc does by itself; else there is nothing to do
    assert _kept_mib("yes") < 5
