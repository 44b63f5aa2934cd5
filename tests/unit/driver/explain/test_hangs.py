"""For each way to hang: the real scheduler does not place the pod, explain says why, and what it proposes helps."""

from __future__ import annotations

from tests.cluster.hangs.cases import CASES


def test_the_table_is_long_enough() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 25
    assert len({case.reason for case in CASES}) >= 25
