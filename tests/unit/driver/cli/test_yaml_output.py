"""YAML that the tools print is YAML that they, and kubectl, read back."""

import yaml

from driver.cli.output import to_json, to_yaml, yaml_stream


def test_equal_parts_are_written_out_instead_of_anchored() -> None:
    shared = {"a": 1}
    assert "&" not in to_yaml([shared, shared])


def test_a_stream_reads_back_as_it_was() -> None:
    documents = [{"name": "x", "on": "yes", "version": "1.10", "empty": {}}, {"b": [1, 2]}]
    assert list(yaml.safe_load_all(yaml_stream(documents))) == documents


def test_json_keeps_text_readable() -> None:
    assert "°" in to_json({"t": "°"})
