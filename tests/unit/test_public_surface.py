"""Every module says what is public, and what it says is there."""

from __future__ import annotations

import ast
import importlib
import inspect

from tests.support.paths import REPO

MODULES = sorted(
    ".".join(path.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__")
    for package in ("driver", "controller", "kubeletplugin", "resourceclasses")
    for path in (REPO / package).rglob("*.py")
    if path.name != "__main__.py" and "_pb2" not in path.name  # starts a program; made by protoc
)


def offence(name: str) -> str:
    """What is wrong with a module's public surface; empty where nothing is."""
    module = importlib.import_module(name)
    if len(ast.parse(inspect.getsource(module)).body) <= 1 and hasattr(module, "__path__"):
        return ""  # a package whose modules are imported by name, and that has nothing of its own but a docstring
    public = getattr(module, "__all__", None)
    if public is None:
        return "has no __all__"
    if public != sorted(public, key=lambda item: (not item.isupper(), not item[0].isupper(), item)):
        return "__all__ is not in ruff's order"
    if len(set(public)) != len(public):
        return "__all__ names something twice"
    missing = [item for item in public if not hasattr(module, item)]
    return f"__all__ names what is not there: {', '.join(missing)}" if missing else ""


def test_each_module_names_its_public_surface() -> None:
    assert len(MODULES) > 400
    assert [f"{name}: {wrong}" for name in MODULES if (wrong := offence(name))] == []
