"""The reference of what people write for Rootport: parameters of claims and classes, and the administrator's files."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from driver.api.quantity import Quantity
from driver.api.strict import wire_names
from tools.reference.tables import Field, Section, choice, documentation, schema_type

__all__ = ["dataclass_sections", "model_sections"]

_CONSTANT: Final = frozenset({"apiVersion", "kind"})
"""Fields that every kind has, which the pages tell once."""


def model_sections(model: type[BaseModel]) -> list[Section]:
    """Return the sections of a pydantic model and of those within it."""
    schema = model.model_json_schema(by_alias=True)
    classes = {each.__name__: each for each in _below(model)}
    definitions = {model.__name__: schema} | schema.get("$defs", {})
    return [_model_section(cls, definitions[name]) for name, cls in classes.items()]


def _model_section(model: type[BaseModel], schema: Mapping[str, Any]) -> Section:
    names = {attribute: info.alias or attribute for attribute, info in model.model_fields.items()}
    about, texts = documentation(model, names)
    by_name = {names[attribute]: texts[attribute] for attribute in names if attribute in texts}
    required = set(schema.get("required", ()))
    quantities = {names[name] for name, info in model.model_fields.items() if Quantity in _parts(info.annotation)}

    def type_of(name: str, item: Mapping[str, Any]) -> str:
        is_map = any(each.get("type") == "object" for each in item.get("anyOf", (item,)))
        of_quantities = "map of quantities" if is_map else "quantity"
        return (of_quantities if name in quantities else schema_type(item)) + (", required" if name in required else "")

    return Section(
        title=model.__name__,
        about=about,
        fields=tuple(
            Field(
                name=name,
                type=type_of(name, item),
                default=_shown(item.get("default")),
                about=by_name.get(name, ""),
            )
            for name, item in schema["properties"].items()
            if name not in _CONSTANT
        ),
    )


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    seen = []
    waiting: list[Any] = [model]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, type) and issubclass(each, BaseModel):
            if each not in seen:
                seen.append(each)
                waiting.extend(info.annotation for info in each.model_fields.values())
        else:
            waiting.extend(get_args(each))
    yield from seen


def dataclass_sections(cls: type) -> list[Section]:
    """Return the sections of a class of :mod:`driver.api.strict` and of those within it."""
    found: dict[type, Section] = {}
    waiting = [cls]
    while waiting:
        each = waiting.pop(0)
        if each in found:
            continue
        hints, names = get_type_hints(each), wire_names(each)
        about, texts = documentation(each, names)
        rows = []
        for field in dataclasses.fields(each):
            if names[field.name] in _CONSTANT:
                continue
            hint = hints[field.name]
            waiting.extend(part for part in _parts(hint) if isinstance(part, type) and dataclasses.is_dataclass(part))
            is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            rows.append(
                Field(
                    name=names[field.name],
                    type=_hint(hint) + _bounds(field.metadata.get("rule")) + (", required" if is_required else ""),
                    default="" if is_required else _shown(field.default),
                    about=texts.get(field.name, ""),
                )
            )
        found[each] = Section(title=each.__name__, about=about, fields=tuple(rows))
    return list(found.values())


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for each in get_args(hint):
        yield from _parts(each)


def _hint(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"`{arguments[0]}`" if len(arguments) == 1 else choice(arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_hint(each) for each in arguments if each is not types.NoneType)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    known = {str: "string", int: "integer", bool: "boolean", Quantity: "quantity"}
    if hint not in known:
        raise TypeError(f"no words for the type {hint}")
    return known[hint]


def _bounds(rule: Any) -> str:
    if rule is None or rule.least is None:
        return ""
    return f", {rule.least} to {rule.most}"


def _shown(value: object) -> str:
    """Return a default in Markdown; empty where the field has none to speak of."""
    if value is None or dataclasses.is_dataclass(value) or isinstance(value, Mapping):
        return ""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, list | tuple):
        return "`" + json.dumps([str(each) for each in value]).replace('"', "") + "`"
    return f"`{value if isinstance(value, str) else json.dumps(value, default=str)}`"
