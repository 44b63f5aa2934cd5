"""`rootport pairs`: the claim that nobody should write by hand, valid for the API, and what cannot be told at once."""

from __future__ import annotations

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.unit.driver.cli.test_pairs import WISHES, Run


@pytest.mark.needs_go
def test_a_real_api_server_takes_all_of_them(rootport: Run, control_plane: ControlPlane) -> None:
    claims = []
    for number, wish in enumerate(WISHES):
        arguments = [part for part in wish.values[0] if part not in {"--name", "job", "--namespace", "training"}]
        ran = rootport("pairs", *arguments, "--name", f"pairs-{number}", *(["--template"] if number % 2 else []))
        claims.append(ran.out)
    told = control_plane.kubectl(
        "create", "--dry-run=server", "--validate=strict", "--output=name", "--filename=-", input="---\n".join(claims)
    )
    assert len(told.split()) == len(WISHES)
