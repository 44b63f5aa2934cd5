"""docs/user/migrate/fields.md is what the converter says, with a sample of every name that a dialect knows."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from driver.convert.dialect import Dialect
from driver.convert.dialects import dialects_for
from tests.support.paths import REPO


def loaded() -> ModuleType:
    path = REPO / "tools" / "generate_field_tables.py"
    spec = importlib.util.spec_from_file_location("generate_field_tables", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = loaded()
DIALECTS = dialects_for(TOOL.SETTINGS)


def is_named(pattern: str, names: set[str]) -> bool:
    if pattern.endswith("*"):
        return any(name.startswith(pattern[:-1]) for name in names)
    return pattern in names


def test_the_page_is_what_the_converter_says() -> None:
    assert TOOL.PAGE.read_text(encoding="utf-8") == TOOL.page(), "run python tools/generate_field_tables.py"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_name_of_a_dialect_has_a_sample(dialect: Dialect) -> None:
    resources = {name for sample in TOOL.SAMPLES for name in sample.limits}
    notes = {name for sample in TOOL.SAMPLES for name in (*sample.annotations, *sample.labels)}
    schedulers = {sample.scheduler for sample in TOOL.SAMPLES}
    assert [line.name for line in dialect.resources if not is_named(line.name, resources)] == []
    assert [note.name for note in dialect.notes if not is_named(note.name, notes)] == []
    assert dialect.schedulers <= schedulers


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_dialect_names_its_source(dialect: Dialect) -> None:
    assert "/" in dialect.source or "document" in dialect.source
