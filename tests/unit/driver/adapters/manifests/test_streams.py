"""Splitting a stream into the texts of its documents: what nobody changes keeps its bytes."""

from __future__ import annotations

import pytest

from driver.adapters.files.yaml_documents import read_documents
from driver.adapters.manifests.streams import StreamPart, stream_parts


def parts_of(text: str) -> list[StreamPart]:
    return stream_parts(text, list(read_documents(text, "all.yaml")))


def test_documents_keep_their_text_and_lose_the_line_between_them() -> None:
    text = "# first\na:   1 # one\n---\n# Source: chart\nb: {c: '2'}\n--- # note\nd: |\n  ---\n  e\n...\n---\nf: 3"
    parts = parts_of(text)
    assert [part.text for part in parts] == [
        "# first\na:   1 # one\n",
        "# Source: chart\nb: {c: '2'}\n",
        "# note\nd: |\n  ---\n  e\n",
        "f: 3",
    ]
    assert [part.comments for part in parts] == ["# first\n", "# Source: chart\n", "# note\n", ""]
    assert [document.data for part in parts for document in part.documents] == [
        {"a": 1}, {"b": {"c": "2"}}, {"d": "---\ne\n"}, {"f": 3},
    ]  # fmt: skip


def test_comments_without_a_document_stay_and_what_is_empty_goes() -> None:
    assert [(part.text, part.documents) for part in parts_of("---\n---\n# a licence\n\n---\n~\n---\n")] == [
        ("# a licence\n", ())
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("--- {a: 1}\n--- [b]\n", id="beside the marker"),
        pytest.param("%YAML 1.1\n---\na: 1\n", id="directive"),
        pytest.param("a: 1\r\n---\r\nb: 2\r\n", id="carriage returns"),
        pytest.param("a: 1\r---\rb: 2\r", id="carriage returns alone"),
        pytest.param('{"a": "---", "b": ["\\n---\\n"]}', id="JSON"),
        pytest.param("a: 1\n...\nb: 2\n", id="ended, and begun without a marker"),
        pytest.param("a: 'x\n\n  ---'\n---\nb: é ---\n", id="in a text"),
    ],
)
def test_what_the_parts_say_is_what_the_stream_says(text: str) -> None:
    problems: list[object] = []
    documents = list(read_documents(text, "all.yaml", problems.append))
    again = [document for part in stream_parts(text, documents) for document in read_documents(part.text, "p", print)]
    assert [document.data for document in again] == [document.data for document in documents]


def test_the_items_of_a_list_are_of_one_part() -> None:
    text = "a: 1\n---\napiVersion: v1\nkind: List\nitems:\n- {kind: A}\n- {kind: B}\n"
    documents = [item for document in read_documents(text, "x") for item in document.items({})]
    assert [len(part.documents) for part in stream_parts(text, documents)] == [1, 2]
