"""A test that cannot hold on a version of Kubernetes is skipped there with its reason, and runs elsewhere."""

from __future__ import annotations

import pytest

from tests.support import needed_tools
from tests.support.needed_tools import require_kubernetes


@pytest.mark.parametrize(
    ("minor", "oldest", "newest", "said"),
    [
        (35, 36, None, "Kubernetes 1.36 or newer: because"),
        (36, 36, None, None),
        (37, 0, 35, "Kubernetes 1.35 or older: because"),
        (35, 0, 35, None),
    ],
)
def test_the_version_decides(
    monkeypatch: pytest.MonkeyPatch, minor: int, oldest: int, newest: int | None, said: str | None
) -> None:
    monkeypatch.setattr(needed_tools, "KUBERNETES_MINOR", minor)
    if said is None:
        require_kubernetes(oldest, "because", newest=newest)
        return
    with pytest.raises(pytest.skip.Exception, match=said):
        require_kubernetes(oldest, "because", newest=newest)
