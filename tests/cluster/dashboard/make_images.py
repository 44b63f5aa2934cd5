"""Makes the dashboard's pictures in docs/operator/images anew: ``python -m tests.cluster.dashboard.make_images``.

That of an explanation is of a real cluster (``make cluster``), and stays. What the others show is made up
(:mod:`tests.cluster.dashboard.canned`), with the memory that NVML reports of an H100.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tests.cluster.dashboard import canned
from tests.cluster.dashboard.page_server import TOKEN, PageServer
from tests.support.chromium import chromium
from tests.support.paths import REPO

_IMAGES: Final = REPO / "docs" / "operator" / "images"
_H100: Final = "81559Mi"
_NODES: Final = 500


def main() -> None:
    """Take each picture."""
    server = PageServer(canned.cluster(_NODES))
    server.details["gpu-a-000"] = _with_memory(canned.hgx_node("gpu-a-000"))
    server.pending = canned.pending()
    try:
        with chromium() as browser:
            for name, place, width, height, scheme in (
                ("overview", "#/", 1280, 800, "light"),
                ("node", "#/nodes/gpu-a-000/gpu-3", 1280, 940, "dark"),
                ("phone", "#/", 390, 844, "dark"),
            ):
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.add_init_script(f"sessionStorage.setItem('rootport.token', {json.dumps(TOKEN)})")
                page.goto(server.url + place)
                page.locator(".tile .cell, .device").first.wait_for()
                page.wait_for_timeout(500)
                page.screenshot(path=_IMAGES / f"dashboard-{name}.png")
                page.close()
    finally:
        server.close()


def _with_memory(details: dict[str, Any]) -> dict[str, Any]:
    """All that is said of the 80 GB of a GPU, as NVML says it."""
    replaced: dict[str, Any] = json.loads(json.dumps(details).replace('"80Gi"', f'"{_H100}"'))
    return replaced


if __name__ == "__main__":
    main()
