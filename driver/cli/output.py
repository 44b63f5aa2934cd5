"""Structured output: JSON and YAML as kubectl writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import yaml

__all__ = ["to_json", "to_yaml", "yaml_stream"]

_DumperBase: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DumperBase):  # type: ignore[misc] # chosen at run time: libyaml's emitter where it is built in
    """PyYAML's safe dumper without anchors: equal parts are written out, as kubectl does."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def to_json(value: object) -> str:
    """Indented JSON with a closing line end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def to_yaml(value: object) -> str:
    """One YAML document."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


def yaml_stream(values: Iterable[object]) -> str:
    """A YAML stream that ``kubectl apply -f`` takes."""
    return "---\n".join(to_yaml(value) for value in values)
