"""An explanation for a person: one screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.explain.explanation import Finding
from driver.explain.reasons import Reason
from driver.explain.tell.report import Tone, report, report_text
from tests.unit.driver.explain.sample_explanations import SAMPLES

REAL = sorted(SAMPLES.keys() - {"hostile"})


@pytest.mark.parametrize("name", REAL)
def test_it_is_one_screen(name: str) -> None:
    lines = report_text(SAMPLES[name]).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", [10, 60, 120])
@pytest.mark.parametrize("name", REAL)
def test_it_keeps_to_the_width_it_is_given(name: str, width: int) -> None:
    # Narrower than the tables are, only texts are wrapped.
    assert all(len(line.text) <= max(width, 60) for line in report(SAMPLES[name], width=width) if _is_text(line.text))


def _is_text(line: str) -> bool:
    return "kubectl" not in line and "device.attributes" not in line


def test_too_much_of_everything_is_cut_and_nothing_reaches_the_terminal() -> None:
    lines = report(SAMPLES["hostile"])
    assert len(lines) <= 200
    assert all(line.text.isprintable() for line in lines)
    assert any("more proposals" in line.text for line in lines)


@pytest.mark.parametrize(
    ("name", "first", "tone"),
    [
        ("devices in use", "pod ml/train-0 does not fit on any of 3 nodes: DevicesInUse", Tone.BAD),
        ("fits", "claim ml/train fits on 1 of 3 nodes", Tone.GOOD),
        ("allocated", "claim ml/train: allocated", Tone.GOOD),
        ("class missing", "claim ml/train: DeviceClassMissing", Tone.BAD),
    ],
)
def test_the_first_line_is_the_answer(name: str, first: str, tone: Tone) -> None:
    line = report(SAMPLES[name])[0]
    assert (line.text, line.tone) == (first, tone)


def test_nodes_that_would_do_are_not_said_not_to_fit() -> None:
    # kube-scheduler stops at a selector that ends with an error, whatever other nodes have.
    finding = Finding(reason=Reason.SELECTOR_FAILS, message="the selector ends with an error", nodes=1)
    text = report_text(replace(SAMPLES["devices in use"], findings=(finding,), nodes_fitting=1))
    assert text.startswith("pod ml/train-0 does not fit, although 1 of 3 nodes has room: SelectorFails\n")
    assert "     1  with room\n" in text


def test_what_no_node_decides_is_not_put_on_the_nodes() -> None:
    finding = Finding(reason=Reason.SCHEDULING_GATED, message="pod ml/train-0 has scheduling gates (kueue)")
    sample = SAMPLES["devices in use"]
    text = report_text(replace(sample, findings=(finding, *sample.findings)))
    assert text.startswith("pod ml/train-0: SchedulingGated\n")
    assert "     2  DevicesInUse: " in text


def test_the_step_that_decides_stands_out() -> None:
    red = [line.text for line in report(SAMPLES["devices in use"])[1:] if line.tone is Tone.BAD]
    assert [text.split() for text in red] == [["are", "free", "3", "2", "gpu-2"]]


def test_the_tables_say_of_how_many_nodes_they_are() -> None:
    # Of three nodes one is cordoned: its devices do not count.
    lines = [line.text.split() for line in report(SAMPLES["devices in use"])]
    assert ["devices", "that", "2", "nodes", "best", "node"] in lines


def test_requests_that_ask_alike_share_a_table() -> None:
    text = report_text(SAMPLES["requests compete"])
    assert text.count("devices that") == 2
    assert "Requests gpu-0, gpu-1, gpu-2 and 1 more of claim ml/train: each 1 device of" in text


def test_what_the_nodes_say_is_not_told_twice() -> None:
    text = report_text(SAMPLES["devices in use"])
    assert text.count("4 GPUs are asked for") == 1
    assert "the node is cordoned" in text


def test_a_proposal_that_was_tried_says_where_and_one_that_was_not_says_so() -> None:
    assert "2. Ask for 2 devices in request gpus instead of 4; fits on node gpu-2 then" in report_text(
        SAMPLES["devices in use"]
    )
    assert "2. Create DeviceClass gpus.rootport.dev (not tried)" in report_text(SAMPLES["class missing"])


def test_a_command_is_in_one_piece() -> None:
    lines = [line for line in report(SAMPLES["devices in use"], width=40) if line.tone is Tone.COMMAND]
    assert [line.text.strip() for line in lines] == ["kubectl delete pod --namespace batch sweep-7-0"]
