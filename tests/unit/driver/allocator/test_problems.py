"""Problems from files, answers as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.adapters.files.allocation_problems import answer_file
from driver.errors import InputError

PROBLEM: dict[str, Any] = {
    "id": "one",
    "node": {"metadata": {"name": "n"}},
    "classes": [{"metadata": {"name": "any"}, "spec": {}}],
    "slices": [
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "d",
                "nodeName": "n",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "a"}],
            },
        }
    ],
    "claims": [
        {
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}},
        }
    ],
    "tags": ["left alone"],
}


def answers(tmp_path: Path, *lines: str) -> list[dict[str, Any]]:
    path = tmp_path / "problems.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return [json.loads(line) for line in answer_file(path)]


def test_an_answer_has_node_and_result(tmp_path: Path) -> None:
    (found,) = answers(tmp_path, json.dumps(PROBLEM))
    assert (found["id"], found["node"], found["error"]) == ("one", "n", None)
    assert found["result"][0]["devices"]["results"] == [{"request": "r", "driver": "d", "pool": "p", "device": "a"}]


def test_nothing_fits_is_null(tmp_path: Path) -> None:
    (found,) = answers(tmp_path, json.dumps(PROBLEM | {"slices": []}))
    assert found == {"id": "one", "node": None, "result": None, "error": None}


def test_raw_claims_get_no_defaults(tmp_path: Path) -> None:
    (found,) = answers(tmp_path, json.dumps(PROBLEM | {"raw": True}))
    assert "unsupported allocation mode ''" in found["error"]


def test_nodes_are_tried_in_order(tmp_path: Path) -> None:
    (found,) = answers(
        tmp_path, json.dumps(PROBLEM | {"node": None, "nodes": [{"metadata": {"name": n}} for n in "mn"]})
    )
    assert found["node"] == "n"


def test_features_are_on_unless_named(tmp_path: Path) -> None:
    claims = json.loads(json.dumps(PROBLEM["claims"]))
    claims[0]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    on, off = answers(
        tmp_path,
        json.dumps(PROBLEM | {"claims": claims}),
        json.dumps(PROBLEM | {"claims": claims, "features": {"AdminAccess": False}}),
    )
    assert on["error"] is None
    assert "DRAAdminAccess is off" in off["error"]


def test_empty_lines_are_no_problems(tmp_path: Path) -> None:
    assert len(answers(tmp_path, "", json.dumps(PROBLEM), "")) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("{", ".jsonl:2: not valid JSON: Expecting property name", id="json"),
        pytest.param("[" * 100_000, ".jsonl:2: not valid JSON: recursion limit", id="deep"),
        pytest.param("[]", ".jsonl:2: is not a problem", id="list"),
        pytest.param('{"id": "\\ud800"}', ".jsonl:2: not valid JSON: ", id="half a surrogate pair"),
        pytest.param('{"id": "x", "features": {"\\ud800": true}}', ".jsonl:2: not valid JSON: ", id="in a name"),
        pytest.param('{"id": "x", "n": ' + "9" * 5000 + "}", ".jsonl:2: not valid JSON: number", id="digits"),
        pytest.param('{"id": 1}', ".jsonl:2: is not a problem", id="id"),
    ],
)
def test_a_line_that_is_no_problem_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        answers(tmp_path, json.dumps(PROBLEM), line)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        pytest.param('{"id": "x", "features": {"Magic": true}}', "features.Magic", id="feature"),
        pytest.param('{"id": "x", "slices": [{"spec": {}}]}', "slices[0].spec.driver", id="slice"),
    ],
)
def test_an_object_that_is_none_of_the_apis_is_an_error_of_its_problem(tmp_path: Path, line: str, field: str) -> None:
    found = answers(tmp_path, line, json.dumps(PROBLEM))
    assert f".jsonl:1: {field}: " in found[0]["error"]
    assert (found[0]["id"], found[0]["result"]) == ("x", None)
    assert found[1]["error"] is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.jsonl: cannot be read"):
        list(answer_file(tmp_path / "gone.jsonl"))


def test_an_answer_can_be_encoded_whatever_the_problem_says(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text('{"id": "\\ud83d\\ude00", "features": {"\\u0000": true}}', encoding="utf-8")
    (line,) = answer_file(path)
    assert line.isascii()
    assert json.loads(line)["id"] == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param(Path("x" * 300), "cannot be read: File name too long", id="300 characters"),
        pytest.param(Path("a\0b"), "cannot be read", id="NUL"),
        pytest.param(Path("/dev/zero"), "not a regular file", id="device"),
    ],
)
def test_a_path_that_is_no_file_is_refused(path: Path, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(answer_file(path))
