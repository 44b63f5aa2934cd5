"""An explanation in one line, for Events and annotations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.explain.explanation import Finding
from driver.explain.reasons import Reason
from driver.explain.tell.summary import NOTE_BYTES, shortened, summary
from tests.unit.driver.explain.sample_explanations import SAMPLES


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("max_bytes", [64, 200, NOTE_BYTES])
def test_it_is_one_printable_line_of_bounded_length(name: str, max_bytes: int) -> None:
    text = summary(SAMPLES[name], max_bytes=max_bytes)
    assert len(text.encode()) <= max_bytes
    assert text.isprintable()
    assert text == text.strip() != ""


def test_it_says_which_nodes_refuse_why_and_the_nearest_miss() -> None:
    text = summary(SAMPLES["devices in use"])
    assert text.startswith("0 of 3 nodes fit: 2 DevicesInUse (gpu-1: 4 GPUs are asked for;")
    assert "; 1 NodeUnschedulable (gpu-3: the node is cordoned)." in text
    assert text.endswith("Nearest miss: end claim batch/sweep-7 of pod batch/sweep-7-0, then it fits on node gpu-2.")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("allocated", "Allocated: it has gpu-0 and rdma-0 of node gpu-1."),
        ("fits", "Fits: there is room: the scheduler has not come to it yet."),
        ("class missing", "DeviceClassMissing: request gpus is for class gpus.rootport.dev, which is not there"),
    ],
)
def test_without_a_node_that_decides_the_finding_speaks(name: str, text: str) -> None:
    assert summary(SAMPLES[name]).startswith(text)


@pytest.mark.parametrize("fitting", [0, 2], ids=["and no node fits", "and nodes would do"])
def test_what_no_node_decides_is_said_first(fitting: int) -> None:
    finding = Finding(reason=Reason.SCHEDULING_GATED, message="pod ml/train-0 has scheduling gates (kueue)")
    sample = SAMPLES["devices in use"]
    text = summary(replace(sample, findings=(finding, *sample.findings), nodes_fitting=fitting))
    assert text.startswith("SchedulingGated: pod ml/train-0 has scheduling gates (kueue).")


def test_where_there_is_little_room_the_nearest_miss_stays() -> None:
    text = summary(SAMPLES["devices in use"], max_bytes=240)
    assert "2 DevicesInUse" in text
    assert text.endswith("then it fits on node gpu-2.")


def test_kinds_of_nodes_that_are_not_shown_are_counted() -> None:
    assert "for other reasons" in summary(SAMPLES["hostile"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", "short"),
        ("two\nlines\tand\x1b[31m colour", "two lines and [31m colour"),
        ("a" * 20, "a" * 13 + "…"),
        ("ä" * 20, "ä" * 6 + "…"),
    ],
    ids=["as it is", "control characters", "cut", "cut between characters"],
)
def test_shortened(text: str, expected: str) -> None:
    assert shortened(text, 16 if len(text) == 20 else 100) == expected
