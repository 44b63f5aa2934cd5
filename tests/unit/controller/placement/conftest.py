"""One managed node before a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.controller.placement.placed_world import (
    FakeServer,
    node,
    slice_of,
)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    made = FakeServer()
    made.put("Node", node("n1"))
    made.put("ResourceSlice", slice_of("n1", gpus=2))
    yield made
    for leader in made.leaders:
        leader.close()
