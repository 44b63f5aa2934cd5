"""The list of exported metrics, which the rules and the dashboard are held against, is the product's."""

from __future__ import annotations

import ast
import re
from typing import Final

from tests.support.exported_metrics import EXPORTED
from tests.support.paths import REPO

_NAME: Final = re.compile(r"(rootport|hw)_[a-z_]+")
_LABELS: Final = {label for labels in EXPORTED.values() for label in labels}


def test_every_listed_metric_is_one_that_the_product_makes() -> None:
    files = [*(REPO / "kubeletplugin" / "metrics").glob("*.py"), *(REPO / "controller" / "metrics").glob("*.py")]
    made = {
        node.value
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value)
    } - _LABELS
    assert made == EXPORTED.keys()
