"""The list of exported metrics, which the rules and the dashboard are held against, is the product's."""

from __future__ import annotations

import ast

from tests.support.exported_metrics import EXPORTED
from tests.support.paths import REPO


def test_every_listed_metric_is_one_that_the_product_makes() -> None:
    files = [*(REPO / "kubeletplugin" / "metrics").glob("*.py"), *(REPO / "controller" / "metrics").glob("*.py")]
    made = {
        node.value
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("rootport_")
    }
    assert made == EXPORTED.keys()
