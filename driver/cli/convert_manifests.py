"""Writes the manifests that ``rootport convert`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from driver.adapters.files.document import Document
from driver.adapters.manifests.claims import Manifests
from driver.adapters.manifests.streams import StreamPart, stream_parts
from driver.api.pod_templates import pod_specs
from driver.cli.left_out import machine_descriptions
from driver.cli.output import to_yaml
from driver.convert import Conversion, Outcome

__all__ = ["manifest_texts", "named_twice"]

_SEPARATOR: Final = "---\n"
_TWICE_SHOWN: Final = 5
_AS_THEY_ARE: Final = frozenset({Outcome.UNCHANGED, Outcome.REFUSED})


def manifest_texts(given: Manifests, conversions: Sequence[tuple[Document, Conversion]]) -> Iterator[str]:
    """Yield the documents of all files in their order, each template before the first object that names it.

    Machine descriptions are left out: they are for other commands, and kubectl does not know them.
    """
    machines = set(machine_descriptions(given))
    by_object = {id(document): conversion for document, conversion in conversions}
    of_file: dict[str, list[Document]] = {source: [] for source in given.texts}
    for document in given.documents:
        of_file[document.source].append(document)
    # A template of the files has the name of its content, and may be there from an earlier conversion.
    printed = {_key(document.data) for document in given.documents}
    is_first = True
    for source, text in given.texts.items():
        if source in machines:
            continue
        for part in stream_parts(text, of_file[source]):
            for written in _texts(part, by_object, printed):
                separator = "" if is_first or written.startswith("---") else _SEPARATOR
                yield f"{separator}{written}" if written.endswith("\n") else f"{separator}{written}\n"
                is_first = False


def _texts(part: StreamPart, by_object: Mapping[int, Conversion], printed: set[object]) -> Iterator[str]:
    """Yield the documents that one becomes: itself if nothing in it changes; of a ``List`` all its objects."""
    found = [by_object[id(document)] for document in part.documents]
    if all(conversion.outcome in _AS_THEY_ARE for conversion in found):
        yield part.text
        return
    comments = part.comments
    for conversion in found:
        for template in conversion.templates:
            if (key := _key(template)) not in printed:
                printed.add(key)
                yield to_yaml(template)
        yield f"{comments}{to_yaml(conversion.object)}"
        comments = ""


def _key(data: Mapping[str, Any]) -> object:
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return repr((data.get("kind"), metadata.get("namespace"), metadata.get("name")))


def named_twice(documents: Sequence[Document]) -> Iterator[str]:
    """Return notes on workloads of one name: of these kubectl applies the last."""
    first: dict[object, Document] = {}
    count = 0
    for document in documents:
        if not document.name or not any(True for _ in pod_specs(document.data)):
            continue
        earlier = first.setdefault(_key(document.data), document)
        if earlier is document:
            continue
        count += 1
        if count <= _TWICE_SHOWN:
            subject = f"{document.kind} {document.namespace or 'default'}/{document.name}"
            yield f"{document.where}: {subject} is already defined at {earlier.where}: kubectl applies the last"
    if count > _TWICE_SHOWN:
        yield f"{count - _TWICE_SHOWN} more workloads have the name of an earlier one"
