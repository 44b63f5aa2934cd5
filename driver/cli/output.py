"""What commands print: JSON and YAML as kubectl writes them; errors and notes on standard error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import click

from driver.errors import RootportError

__all__ = ["NO_ANSWER", "print_error", "print_note", "to_json", "to_yaml", "yaml_stream"]

_NOT_PLAIN: Final = re.compile(
    r"[-+]?(?:0[xXoObB][0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)|[yYnN]",
    re.ASCII,
)
"""Texts that kubectl's YAML library takes for numbers or truth values where PyYAML does not, such as ``1e3`` and ``08``
(sigs.k8s.io/yaml v1.6.0, goyaml.v2, resolve.go)."""
NO_ANSWER: Final = 2
"""Exit code of a command that could not answer, where 1 is an answer."""


def print_error(error: RootportError) -> None:
    """Print an error on standard error."""
    click.echo(f"rootport: {_clean(str(error))}", err=True)


def print_note(text: str) -> None:
    """Print what the reader of an answer should know on standard error."""
    click.echo(f"note: {_clean(text)}", err=True)


def to_json(value: object) -> str:
    """Return indented JSON with a line end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def to_yaml(value: object) -> str:
    """Return one YAML document."""
    import yaml  # noqa: PLC0415 - most commands need none

    return str(yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=120))


def yaml_stream(values: Iterable[object]) -> str:
    """Return a YAML stream that ``kubectl apply -f`` takes."""
    return "---\n".join(to_yaml(value) for value in values)


@cache
def _dumper() -> Any:
    """Return PyYAML's safe dumper without anchors: equal parts are written out, as kubectl does."""
    import yaml  # noqa: PLC0415 - as above

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml's emitter where it is built in
    dumper: Any = type("Dumper", (base,), {"ignore_aliases": lambda _self, _data: True})
    dumper.add_representer(str, _text)
    return dumper


def _text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else "'" if _NOT_PLAIN.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _clean(text: str) -> str:
    """Return the text without what a terminal would act on: names in it may come from anybody's file."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
