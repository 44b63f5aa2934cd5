from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.cdi.test_cdi_library import oracle
from tests.support.preparer.machine import Machine

__all__ = ["machine", "oracle"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
