"""Every module says what is public, and what it says is there."""

from __future__ import annotations

import importlib

import pytest

from tests.support.paths import REPO

MODULES = sorted(
    ".".join(path.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__")
    for package in ("driver", "controller", "kubeletplugin", "resourceclasses")
    for path in (REPO / package).rglob("*.py")
    if path.name != "__main__.py" and "_pb2" not in path.name  # starts a program; made by protoc
)
# Packages whose modules are meant to be imported by name, and have nothing of their own.
BARE = {
    "controller",
    "controller.admission",
    "controller.explanations",
    "driver.adapters",
    "driver.adapters.http",
    "driver.adapters.kubernetes",
    "driver.cli",
    "driver.explain",
    "driver.explain.propose.nearest",
    "driver.model",
    "kubeletplugin",
    "kubeletplugin.protocol",
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_names_its_public_surface(name: str) -> None:
    module = importlib.import_module(name)
    if name in BARE:
        assert not hasattr(module, "__all__")
        return
    public = module.__all__
    assert public == sorted(public, key=lambda item: (not item.isupper(), not item[0].isupper(), item)), "ruff's order"
    assert len(set(public)) == len(public)
    assert all(hasattr(module, item) for item in public)
