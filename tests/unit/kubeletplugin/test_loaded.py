"""What a plugin's process has loaded once it has served claims: each library costs every node its memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.bench.plugin_memory_bench import PARAMETERS, Node

pytestmark = [pytest.mark.needs_cc]

WITHOUT = (
    *("kubernetes", "urllib3", "requests", "oauthlib", "websocket", "unicodedata"),
    *("celpy", "re2", "lark", "rich", "cryptography", "defusedxml", "jsonschema", "pydantic", "pydantic_core"),
    *("driver.allocator", "driver.explain", "driver.cli", "driver.simulation", "driver.lint", "controller"),
)
_LIST_AT_END = """
import atexit, runpy, sys
path = sys.argv.pop(1)
atexit.register(lambda: open(path, "w").write("\\n".join(sys.modules)))
runpy.run_module("kubeletplugin", run_name="__main__", alter_sys=True)
"""


def test_a_plugin_that_has_served_claims_has_loaded_no_library_that_it_can_do_without() -> None:
    with tempfile.TemporaryDirectory(prefix="rootport-") as text:
        folder = Path(text, "node")
        folder.mkdir()
        listed = folder / "modules"
        node = Node(folder, "-c", _LIST_AT_END, str(listed))
        try:
            node.wait_serving()
            node.scrape()
            node.claims_come_and_go(2, None)
            node.claims_come_and_go(2, PARAMETERS)
        finally:
            node.stop()
        loaded = listed.read_text().split()
    assert "kubeletplugin.claims.reader" in loaded
    assert [name for name in loaded if name in WITHOUT or name.startswith(tuple(f"{each}." for each in WITHOUT))] == []
