"""Run by test_cdi_files.py as a program: kills a write, or a removal, between any two of its system calls.

Each attempt runs in a forked child whose ``os`` calls are counted; the child dies (no handler, no ``finally``) before
or after the n-th one. One JSON line an attempt says what the folder then holds, and what it holds after the recovery.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver.adapters.files.cdi_files import claim_uids, remove_leftovers, remove_spec, write_spec
from driver.plan import CdiSpec, prepare_plan
from tests.support.plan.builders import claim, given, gpu, node

CALLS = ("mkdir", "open", "fstat", "fchmod", "write", "fsync", "replace", "unlink", "close")
DIED = 70


def spec(minor: int) -> CdiSpec:
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0"), uid="c1"), node(gpu(0, minor=minor)))
    assert plan.spec is not None
    return plan.spec


OLD, NEW = spec(0), spec(1)


def die_at(step: int) -> None:
    """Count the calls; step 2n dies before the n-th one, step 2n+1 after it."""
    count = 0

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if count == step:
                os._exit(DIED)
            result = real(*args, **kwargs)
            if count + 1 == step:
                os._exit(DIED)
            count += 2
            return result

        return call

    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))


def attempt(action: Callable[[], object], step: int) -> int:
    child = os.fork()
    if child == 0:
        die_at(step)
        action()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def state(folder: Path) -> str:
    path = folder / NEW.file_name
    if not path.exists():
        return "none"
    return {OLD.to_json(): "old", NEW.to_json(): "new"}.get(path.read_bytes(), "broken")


def main(kind: str, folder: Path) -> None:
    for step in range(200):
        shutil.rmtree(folder, ignore_errors=True)
        if kind != "first":
            write_spec(OLD.claim, OLD.to_json(), folder)
        action = (
            functools.partial(remove_spec, "c1", folder)
            if kind == "remove"
            else functools.partial(write_spec, NEW.claim, NEW.to_json(), folder)
        )
        code = attempt(action, step)
        seen = state(folder)
        leftovers = len(remove_leftovers(folder))
        action()
        files = [path.name for path in folder.iterdir()]
        line = {"code": code, "seen": seen, "leftovers": leftovers, "after": state(folder), "files": files}
        print(json.dumps(line | {"uids": claim_uids(folder)}))  # noqa: T201 - the answer to the test
        if code == 0:
            return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
