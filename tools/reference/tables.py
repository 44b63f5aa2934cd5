"""What all reference pages are made of: sections with a table of fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Field", "Section", "cell", "choice", "documentation", "escaped", "rendered", "schema_type"]

_ATTRIBUTE: Final = re.compile(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)
_ROLE: Final = re.compile(r":(?:class|attr|mod|func|meth|data):`~?([^`]+)`")
_ABSENT: Final = re.compile(r"(^|[;:,.] )None( is| leaves| for|:)(?!\w)")
_OF_FORMATS: Final = frozenset({-(2**63), -(2.0**63), 2**63 - 1, 2**32 - 1, 2**31 - 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of an object.

    Attributes:
        name: As it is written in YAML.
        type: In Markdown.
        default: In Markdown; empty for none.
        about: In Markdown.
    """

    name: str
    type: str
    default: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An object with its fields."""

    title: str
    about: str
    fields: tuple[Field, ...]
    heads: tuple[str, str] = ("field", "type")


def rendered(sections: Iterable[Section], level: int = 3) -> str:
    """Return sections in Markdown, with headings of a level."""
    parts = []
    for section in sections:
        parts.append(f"{'#' * level} {section.title}\n")
        if section.about:
            parts.append(f"{section.about}\n")
        if section.fields:
            has_defaults = any(field.default for field in section.fields)
            heads = (*section.heads, *(("default",) if has_defaults else ()))
            parts.append(f"| {' | '.join(heads)} | |\n{'|---' * (len(heads) + 1)}|")
            for field in section.fields:
                default = [cell(field.default)] if has_defaults else []
                parts.append(
                    "| " + " | ".join((f"`{field.name}`", cell(field.type), *default, cell(field.about))) + " |"
                )
            parts.append("")
    return "\n".join(parts)


def cell(text: str) -> str:
    """Return a text as a cell of a table may have it."""
    return " ".join(text.split()).replace("|", "\\|")


def documentation(cls: type, names: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a class's summary, and its attributes' descriptions, those of its bases included.

    Args:
        cls: The class, with docstrings as Google's style has them.
        names: What attributes are called in YAML.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, attributes = inspect.cleandoc(base.__dict__.get("__doc__") or "").partition("\nAttributes:\n")
        found |= {match[1]: " ".join(match[2].split()) for match in _ATTRIBUTE.finditer(attributes)}
    summary = inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")[0]
    return _plain(summary, names), {name: _plain(text, names) for name, text in found.items()}


def _plain(text: str, names: Mapping[str, str]) -> str:
    """Turn a docstring's markup into Markdown, with the names of YAML."""
    text = _ROLE.sub(lambda match: f"`{names.get(match[1], match[1].rpartition('.')[2])}`", text)
    text = _ABSENT.sub(_left_out, " ".join(text.replace("``", "`").split()))
    return escaped(text)


def _left_out(match: re.Match[str]) -> str:
    """None is Python's word for a field that is not there."""
    words = {
        " is": "left out, it is",
        " leaves": "left out, that leaves",
        " for": "left out, it means",
        ":": "left out:",
    }[match[2]]
    return match[1] + (words if match[1] in ("; ", ": ", ", ") else words.capitalize())


def escaped(text: str) -> str:
    """Return plain text in Markdown, which would take ``<node>`` for HTML."""
    parts = text.split("`")
    return "`".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts))


def choice(values: Iterable[object]) -> str:
    """Return values of which one is expected, in words."""
    return "one of " + ", ".join(f"`{each}`" for each in values)


def schema_type(schema: Mapping[str, Any]) -> str:
    """Return in words which values a JSON schema allows, without what is below an object."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(schema_type(each) for each in schema["anyOf"] if each != {"type": "null"}))
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return choice(schema["enum"])
    match schema.get("type"):
        case "array":
            most = f", at most {schema['maxItems']}" if "maxItems" in schema else ""
            return f"list of {_several(schema['items'])}{most}"
        case "object":
            return "map by string"
        case "integer" | "number" as name:
            return f"{name}{_bounds(schema)}"
        case "string":
            most = f", at most {schema['maxLength']} characters" if "maxLength" in schema else ""
            return str(schema.get("format", "string")) + most
        case "boolean":
            return "boolean"
    raise TypeError(f"no words for the schema {schema}")


def _several(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema or "enum" in schema:
        return schema_type(schema).removeprefix("one of ")
    return f"{schema['type']}s"


def _bounds(schema: Mapping[str, Any]) -> str:
    # The bounds of a format are no rule of ours.
    least, most = (None if bound in _OF_FORMATS else bound for bound in (schema.get("minimum"), schema.get("maximum")))
    if most is None:
        return "" if least is None else f", at least {least}"
    return f", at most {most}" if least is None else f", {least} to {most}"
