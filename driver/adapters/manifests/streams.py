"""Splits a stream of manifests into the texts of its documents, so that what nobody changes keeps its bytes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from driver.adapters.files.document import Document

__all__ = ["StreamPart", "stream_parts"]

_MARKER: Final = re.compile(r"^(?:---|\.\.\.)(?=\s|\Z)", re.MULTILINE)
"""Begins or ends a document: in the first column it does so wherever it stands (YAML 1.2.2, 9.1.2)."""
_BARE_MARKER: Final = re.compile(r"(?:---|\.\.\.)[ \t]*(?=#|\r?\n|\Z)(?:\r?\n)?")
_COMMENT: Final = re.compile(r"[ \t]*#.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """A document of a stream.

    Attributes:
        text: Its text, without the ``---`` before it where that has a line of its own.
        comments: The lines of comments before its first field.
        documents: Its objects: one, or the items of a ``List``. None where it has only comments.
    """

    text: str
    comments: str
    documents: tuple[Document, ...]


def stream_parts(text: str, documents: Sequence[Document]) -> list[StreamPart]:
    """Return the documents of a stream, in its order; what has neither an object nor a comment is left out.

    Args:
        text: The stream.
        documents: All objects that were read of it, in its order.
    """
    starts = [0, *(found.start() for found in _MARKER.finditer(text) if found.start())]
    inside: list[list[Document]] = [[] for _ in starts]
    for document in documents:
        inside[bisect_right(starts, document.node.start_mark.index) - 1].append(document)
    parts: list[StreamPart] = []
    for begin, end, found in zip(starts, [*starts[1:], len(text)], inside, strict=True):
        bare = _BARE_MARKER.match(text, begin, end)
        own = text[bare.end() if bare else begin : end]
        head = own if not found else text[bare.end() if bare else begin : found[0].node.start_mark.index]
        comments = "".join(f"{line}\n" for line in head.splitlines() if _COMMENT.fullmatch(line))
        if found or comments:
            parts.append(StreamPart(text=own if found else comments, comments=comments, documents=tuple(found)))
    return parts
