"""What former versions left on a node is taken over, claims of every kind, and so is what this one leaves by the last.

``tests/data/states`` was written by the code of those versions: :mod:`tests.support.states`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.last_release import LAST_RELEASE, source_of
from tests.support.paths import REPO
from tests.support.states.claims import read_state, write_state
from tests.support.states.running import CLAIMS, run_in

STATES = REPO / "tests/data/states"
VERSIONS = sorted(folder.name for folder in STATES.iterdir())
EFFECTS = 7
"""A time slice, two MPS daemons, two MIG devices, a VF's settings and its interface."""


def told(state: Path) -> dict[str, Any]:
    """By kind of claim, what the kubelet was told of it."""
    return {kind: item["answer"] for kind, item in json.loads((state / "claims.json").read_text()).items()}


def is_kept(former: Any, now: Any) -> bool:
    """Whether all that was said is said still, and what is new says nothing."""
    if isinstance(former, dict) and isinstance(now, dict):
        new = now.keys() - former.keys()
        return all(now[key] is None for key in new) and all(
            key in now and is_kept(value, now[key]) for key, value in former.items()
        )
    if isinstance(former, list) and isinstance(now, list):
        return len(former) == len(now) and all(map(is_kept, former, now))
    return bool(former == now)


def check(former: dict[str, Any], now: dict[str, Any]) -> None:
    """All claims have the devices that they had, keep them from others, and end with nothing left."""
    assert now["answers"].keys() == former.keys()
    assert [kind for kind, answer in former.items() if not is_kept(answer, now["answers"][kind])] == []
    holders = ("claim-1 ", "claim-3 ", "claim-7 ", "claim-9 ", "claim-13 ")
    assert [holder in text for holder, text in zip(holders, now["refused"], strict=True)] == [True] * len(holders)
    assert len(now["done"]) == EFFECTS, "what was left over is undone, and nothing else"
    ((link,),) = ([record["loan"]["link"] for record in now["lent"]],)
    assert (link["name"], link["mtu"], link["altnames"]) == ("ens1v0", 1500, ["enp65s0v0"])
    assert (now["former"]["vlan"], now["former"]["trust"]) == (0, False)
    assert now["left"] == []


def test_there_is_a_state_of_the_last_release_and_of_the_formats_before() -> None:
    assert {LAST_RELEASE.version} < set(VERSIONS)


@pytest.mark.parametrize("without_checkpoint", [False, True], ids=["checkpoint", "cdi-specs-alone"])
@pytest.mark.parametrize("version", VERSIONS)
def test_claims_of_a_former_version_keep_their_devices_and_end(version: str, without_checkpoint: bool) -> None:
    state = STATES / version
    check(told(state), read_state(state, without_checkpoint=without_checkpoint))


def test_the_last_release_takes_over_what_this_version_leaves(tmp_path: Path) -> None:
    """A downgrade with pods running: refusing would be no error, but has to be documented first (upgrade.md)."""
    write_state(tmp_path)
    check(told(tmp_path), json.loads(run_in(source_of(LAST_RELEASE.commit), CLAIMS, "read", tmp_path)))
