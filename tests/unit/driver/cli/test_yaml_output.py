"""YAML that the tools print is YAML that they, and kubectl, read back."""

import pytest
import yaml

from driver.cli.output import to_json, to_yaml, yaml_stream


def test_equal_parts_are_written_out_instead_of_anchored() -> None:
    shared = {"a": 1}
    assert "&" not in to_yaml([shared, shared])


def test_a_stream_reads_back_as_it_was() -> None:
    documents = [{"name": "x", "on": "yes", "version": "1.10", "empty": {}}, {"b": [1, 2]}]
    assert list(yaml.safe_load_all(yaml_stream(documents))) == documents


@pytest.mark.parametrize(
    "text",
    ["1e3", "08", "0o17", "12e5", "1_0e1", "+1", ".5", "y", "N", "0b1", "0xF", "1:30.5", "yes", "~", "2026-01-01"],
)
def test_texts_that_kubectl_could_take_for_something_else_are_quoted(text: str) -> None:
    # What PyYAML would write plain because it reads it as a string, kubectl's library reads as a number or truth value.
    written = to_yaml({"a": text})
    assert yaml.safe_load(written) == {"a": text}
    assert written == f"a: '{text}'\n"


@pytest.mark.parametrize("text", ["a\nb\n", "a\nb", "  a\nb\n\n", "\n", "a \n\tb\n", "---\n...\n", "é\n "])
def test_texts_of_several_lines_are_read_back(text: str) -> None:
    assert yaml.safe_load(to_yaml({"a": text, "b": [text]})) == {"a": text, "b": [text]}


def test_a_script_is_written_line_by_line() -> None:
    assert to_yaml({"args": ["echo a\necho b\n"]}) == "args:\n- |\n  echo a\n  echo b\n"


def test_json_keeps_text_readable() -> None:
    assert "°" in to_json({"t": "°"})
