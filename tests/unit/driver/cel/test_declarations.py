"""The functions that a selector may call are those of Kubernetes' environment."""

from __future__ import annotations

from driver.cel.declarations import functions
from driver.cel.macros import _MACROS
from tests.support.paths import REPO

LINES = (REPO / "tests" / "data" / "cel" / "declarations.tsv").read_text(encoding="utf-8").splitlines()


def test_overloads_and_their_order_are_those_of_kubernetes() -> None:
    ours = [
        f"{name}\t{overload.id}\t{'member' if overload.is_member else 'function'}"
        f"\t({', '.join(map(str, overload.parameters))})\t{overload.result}"
        for name, overloads in sorted(functions().items())
        for overload in overloads
    ]
    assert ours == [line for line in LINES if not line.startswith("macro\t")]


def test_macros_are_those_of_kubernetes() -> None:
    ours = {f"macro\t{name}:{count}:{str(is_member).lower()}" for name, count, is_member in _MACROS}
    assert ours == {line for line in LINES if line.startswith("macro\t")}
