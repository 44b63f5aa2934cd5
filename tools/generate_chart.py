# ruff: noqa: INP001 - a script, in no package
"""Writes what the chart has from elsewhere: the README's table of values, and the schema of policies.

The table is made of the comments in values.yaml: one that begins with ``# --`` describes the value below it. What
policies may have is in the models of driver/api; values.schema.json has it as those definitions whose names begin with
a capital.

Usage: ``python tools/generate_chart.py`` writes the files; with ``--check`` it only reports whether they are up to
date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import yaml

from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_map import ResourceMap

_CHART: Final = Path(__file__).resolve().parents[1] / "resourceclasses"
VALUES: Final = _CHART / "values.yaml"
README: Final = _CHART / "README.md"
SCHEMA: Final = _CHART / "values.schema.json"
_BEGIN: Final = "<!-- Made by tools/generate_chart.py from values.yaml. -->\n"
_END: Final = "<!-- End of the table. -->\n"
_MARK: Final = "# -- "
_GENERATED: Final = r'^    "[A-Z]\w*": .*?^    \}\},?\n'
_CLOSING: Final = "\n  }\n}\n"
_LONGEST_DEFAULT: Final = 60  # characters; a longer one would make the table too wide to read


def described() -> dict[str, tuple[object, str]]:
    """Return default and description of each described value, by its path, in the file's order.

    Raises:
        ValueError: A value that holds no other has no description.
    """
    text = VALUES.read_text(encoding="utf-8")
    return dict(_described(yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text), text.splitlines(), ""))


def _described(
    node: yaml.Node | None, values: object, lines: list[str], prefix: str
) -> Iterator[tuple[str, tuple[object, str]]]:
    if not isinstance(node, yaml.MappingNode) or not isinstance(values, dict) or not values:
        raise ValueError(f"{VALUES}: {prefix.rstrip('.')} needs a comment that begins with {_MARK}")
    for key, child in node.value:
        above = lines[key.start_mark.line - 1].strip()
        path, default = prefix + key.value, values[key.value]
        if above.startswith(_MARK):
            yield path, (default, above.removeprefix(_MARK))
        else:
            yield from _described(child, default, lines, path + ".")


def table() -> str:
    """Return the table in Markdown."""
    rows = ["| value | default | |", "|---|---|---|"]
    for path, (default, text) in described().items():
        shown = json.dumps(default)
        code = f"`{shown}`" if len(shown) <= _LONGEST_DEFAULT else "see values.yaml"
        rows.append(f"| `{path}` | {code} | {text} |")
    return "\n".join(rows) + "\n"


def readme() -> str:
    """Return the README with the table as it should be."""
    before, _, rest = README.read_text(encoding="utf-8").partition(_BEGIN)
    return before + _BEGIN + "\n" + table() + "\n" + _END + rest.partition(_END)[2]


def schema() -> str:
    """Return the schema of values with the definitions of policies as they should be.

    It takes all policies that are right, except null for a field, and refuses unknown fields, words that are no choice,
    and numbers out of range. What a schema cannot say, controller and plugin check.

    Raises:
        ValueError: Two models of one name have different fields.
    """
    found: dict[str, Any] = {}
    for model in (GpuPolicies, NicPolicies, DevicePolicies, ResourceMap):
        whole = model.model_json_schema()
        for name, definition in {**whole.pop("$defs"), model.__name__: whole}.items():
            made = _plain(definition)
            if found.setdefault(name, made) != made:
                raise ValueError(f"two models are called {name}")
    text = re.sub(_GENERATED, "", SCHEMA.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    definitions = ",\n".join(_written(name, found[name]) for name in sorted(found))
    head, tail = text.removesuffix(_CLOSING).rstrip(",\n"), _CLOSING
    return f"{head},\n{definitions}{tail}"


def _plain(value: Any) -> Any:
    """Return a part of a model's schema without what explains it, and without null."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "anyOf" in value and {"type": "null"} in value["anyOf"]:
        (only,) = (item for item in value["anyOf"] if item != {"type": "null"})
        return _plain(only)
    if "apiVersion" in value.get("properties", ()):  # a document, of which the chart writes these two
        value = value | {
            "properties": {k: v for k, v in value["properties"].items() if k not in ("apiVersion", "kind")}
        }
        del value["required"]
    made = {key: item for key, item in value.items() if key not in ("title", "description", "default", "properties")}
    made = {key: _plain(item) for key, item in made.items()}
    if made == {"type": "string"}:  # perhaps a quantity, which may be a number in YAML
        return {"type": ["string", "number"]}
    if "$ref" in made:
        made["$ref"] = made["$ref"].replace("#/$defs/", "#/definitions/")
    if "properties" in value:
        made["properties"] = {name: _plain(item) for name, item in value["properties"].items()}
    return made


def _written(name: str, definition: Mapping[str, Any]) -> str:
    """Return a definition as the file has it: a field a line."""
    head = json.dumps({key: item for key, item in definition.items() if key != "properties"})[:-1]
    fields = ",\n".join(
        f"        {json.dumps(field)}: {json.dumps(item)}" for field, item in definition["properties"].items()
    )
    return f'    "{name}": {head}, "properties": {{\n{fields}\n    }}}}'


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail where a file is out of date.")
def main(*, check: bool) -> None:
    """Write the table and the definitions."""
    for path, text in ((README, readme()), (SCHEMA, schema())):
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is out of date: run python tools/generate_chart.py")


if __name__ == "__main__":
    main()
