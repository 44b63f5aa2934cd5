"""Many changes soon after each other make few checks, and the first makes one at once."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any, cast

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from kubeletplugin.publish.rival_watch import RivalWatch
from tests.support.cluster.processes import wait_until


class Quiet:
    """A reflector of nothing."""

    def run(self, stop: threading.Event) -> None:
        stop.wait()


def test_a_driver_that_writes_all_the_time_is_not_checked_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    made: list[dict[str, Any]] = []

    class Fake(Quiet):
        def __class_getitem__(cls, _: object) -> type[Fake]:
            return cls

        def __init__(self, *_: object, **options: Any) -> None:
            made.append(options)

    monkeypatch.setattr("kubeletplugin.publish.rival_watch.Reflector", Fake)
    watch = RivalWatch(
        cast("KubernetesApi", None), node="n", on_change=lambda: told.append(time.monotonic()), interval_s=0.5
    )
    slices = made[1]["on_change"]
    watch.start()
    began = time.monotonic()
    slices("s", None)
    wait_until("the first is told", lambda: bool(told), timeout_s=5, step_s=0.01)
    for _ in range(60):
        slices("s", None)
        time.sleep(0.01)
    spent = time.monotonic() - began
    assert 1 <= len(told) <= 2 + spent / 0.5
    wait_until("the last is told", lambda: told[-1] > began + 0.5, timeout_s=5, step_s=0.01)
    assert all(later - earlier >= 0.49 for earlier, later in pairwise(told))
    watch.stop()
