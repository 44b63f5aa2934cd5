"""The page's files without a browser: complete, and nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import controller.dashboard

_STATIC = Path(controller.dashboard.__file__).parent / "static"


def _texts(suffix: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in _STATIC.glob(f"*{suffix}")}


def test_every_module_is_loaded_at_once_and_not_one_after_the_other() -> None:
    preloaded = set(re.findall(r'rel="modulepreload" href="([^"]+)"', (_STATIC / "index.html").read_text()))
    assert preloaded == set(_texts(".js"))


def test_every_file_that_is_named_is_there() -> None:
    named = set(re.findall(r'(?:href|src)="([a-z][^"#:]*)"', (_STATIC / "index.html").read_text()))
    for text in _texts(".js").values():
        named |= {name.removeprefix("./") for name in re.findall(r'from "([^"]+)"', text)}
    assert {name for name in named if not (_STATIC / name).is_file()} == set()


def test_no_file_is_loaded_from_elsewhere_and_no_text_is_read_as_code() -> None:
    everything = {path.name: path.read_text() for path in _STATIC.iterdir()}
    for name, text in everything.items():
        if name != "favicon.svg":
            loaded = re.findall(r"(?:src|href|url|import)[^\n]{0,4}['\"(]\s*(?:https?:)?//", text)
            assert not loaded, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )
        assert not re.search(r"<[a-z]+[^>]*\son[a-z]+=|style=\"", text), name
