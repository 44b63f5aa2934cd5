"""The kubelet plugin with one fault built in: run as its process is, with what shall happen before its own arguments.

``kill STEP``: the process ends as by ``kill -9`` at that step of :data:`kubeletplugin.state.store.STEPS`.
``wait STEP GATE``: the first call that comes to that step makes ``GATE.reached`` and waits for the file ``GATE``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubeletplugin.main import main
from kubeletplugin.state import store


def killed_at(step: str) -> Callable[[str], None]:
    def act(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def waiting_at(step: str, gate: Path) -> Callable[[str], None]:
    def act(reached: str) -> None:
        if reached == step and not gate.exists():
            Path(f"{gate}.reached").touch()
            while not gate.exists():
                time.sleep(0.02)

    return act


def inject(act: Callable[[str], None]) -> None:
    real = store.ClaimStore.__init__

    def faulty(self: store.ClaimStore, **arguments: Any) -> None:
        real(self, **{**arguments, "step": act})

    store.ClaimStore.__init__ = faulty  # type: ignore[method-assign]
    assert sys.argv[2] in store.STEPS, f"no such step: {sys.argv[2]}"


if sys.argv[1] == "kill":
    inject(killed_at(sys.argv[2]))
    del sys.argv[1:3]
else:
    inject(waiting_at(sys.argv[2], Path(sys.argv[3])))
    del sys.argv[1:4]
main()
