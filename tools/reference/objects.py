"""The reference of the objects that Rootport keeps in the API server, from their CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.reference.tables import Field, Section, escaped, rendered, schema_type

__all__ = ["kind_page"]


def kind_page(definition: Mapping[str, Any]) -> str:
    """Return the section of a CustomResourceDefinition."""
    names = definition["spec"]["names"]
    (version,) = (each for each in definition["spec"]["versions"] if each["storage"])
    schema = version["schema"]["openAPIV3Schema"]
    short = ", ".join(f"`{name}`" for name in names.get("shortNames", ()))
    scope = definition["spec"]["scope"].lower()
    head = [
        f"## {names['kind']}\n",
        f"{escaped(schema['description'])}\n",
        f"`{definition['spec']['group']}/{version['name']}`, {scope}-scoped; `kubectl get {names['plural']}`"
        + (f", or {short} for short.\n" if short else ".\n"),
    ]
    sections = [
        section
        for name in ("spec", "status")
        for section in _sections(f"{names['singular']}.{name}", schema["properties"][name])
    ]
    columns = Section(
        title=f"kubectl get {names['plural']}",
        about="",
        heads=("column", "field"),
        fields=tuple(
            Field(
                name=column["name"],
                type=f"`{column['jsonPath']}`" + (", with `-o wide`" if column.get("priority") else ""),
                about=escaped(column.get("description", "")),
            )
            for column in version["additionalPrinterColumns"]
        ),
    )
    return "\n".join((*head, rendered([*sections, columns])))


def _sections(path: str, schema: Mapping[str, Any]) -> Iterator[Section]:
    properties = schema.get("properties", {})
    required = set(schema.get("required", ()))
    yield Section(
        title=f"`{path}`",
        about=escaped(schema.get("description", "")),
        fields=tuple(
            Field(
                name=name,
                type=_type(item) + (", required" if name in required else ""),
                about=escaped(item.get("description", "")),
            )
            for name, item in properties.items()
        ),
    )
    for name, item in properties.items():
        below = item.get("items", item)
        if below.get("properties"):
            yield from _sections(f"{path}.{name}" + ("[]" if "items" in item else ""), below)


def _type(schema: Mapping[str, Any]) -> str:
    if schema.get("properties"):
        return "object, below"
    if schema.get("items", {}).get("properties"):
        return "list of objects, below"
    return schema_type(schema)
