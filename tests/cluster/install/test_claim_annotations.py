"""The controller says in a claim's annotations why it waits, and changes nothing else of it: on a real API server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.installation import claim

pytestmark = pytest.mark.needs_go

_NAME = "install-annotated"
_ACTIVE_WITHIN_S = 30
_MASTERS = ("--as=system:serviceaccount:rootport-system:rootport-controller", "--as-group=system:masters")

TokenOf = Callable[..., Path]


@pytest.fixture(autouse=True)
def _annotated_claim(installed: ControlPlane) -> Iterator[None]:
    """A claim with annotations of others, and the policy at work."""
    body = claim(_NAME)
    body["metadata"] |= {"annotations": {"example.com/a": "1"}, "labels": {"a": "1"}, "finalizers": ["example.com/x"]}
    installed.kubectl("create", "--filename=-", input=json.dumps(body))
    until = time.monotonic() + _ACTIVE_WITHIN_S
    while "nothing else of it" not in _patch(installed, {"metadata": {"labels": {"a": "2"}}}, *_DRY):
        assert time.monotonic() < until, "the policy refuses nothing"
        time.sleep(0.05)
    yield
    installed.kubectl("delete", "resourceclaim", _NAME, "--wait=false")
    installed.kubectl("patch", "resourceclaim", _NAME, "--type=merge", '--patch={"metadata":{"finalizers":null}}')


_DRY = ("--dry-run=server", *_MASTERS)


def test_the_controller_writes_its_two_annotations_and_removes_them(installed: ControlPlane, token_of: TokenOf) -> None:
    own = {"rootport.dev/pending-reason": "DevicesInUse", "rootport.dev/pending-message": "all are in use"}
    controller = token_of("rootport-controller")
    _patch(installed, {"metadata": {"annotations": own}}, kubeconfig=controller, check=True)
    assert _annotations(installed) == own | {"example.com/a": "1"}
    gone = dict.fromkeys(own)
    _patch(installed, {"metadata": {"annotations": gone}}, kubeconfig=controller, check=True)
    assert _annotations(installed) == {"example.com/a": "1"}


@pytest.mark.parametrize(
    "change",
    [
        {"annotations": {"example.com/b": "1"}},
        {"annotations": {"example.com/a": "2"}},
        {"annotations": {"example.com/a": None}},
        {"annotations": {"rootport.dev/other": "1"}},
        {"labels": {"a": None}},
        {"finalizers": None},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]},
    ],
    ids=str,
)
def test_the_controller_changes_nothing_else_of_a_claim(
    installed: ControlPlane, token_of: TokenOf, change: dict[str, Any]
) -> None:
    said = _patch(installed, {"metadata": change}, kubeconfig=token_of("rootport-controller"))
    assert "nothing else of it" in said
    # Nor together with what it may change.
    both = change | {"annotations": change.get("annotations", {}) | {"rootport.dev/pending-reason": "X"}}
    assert "nothing else of it" in _patch(installed, {"metadata": both}, kubeconfig=token_of("rootport-controller"))


def test_status_creation_and_deletion_are_guarded_should_somebody_ever_give_it_the_right(
    installed: ControlPlane,
) -> None:
    result = {"request": "gpu", "driver": "rootport.dev", "pool": "p", "device": "d"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    assert "nothing else of it" in _patch(installed, status, "--subresource=status", *_DRY)
    delete = ("delete", "resourceclaim", _NAME, *_DRY)
    assert "nothing else of it" in installed.kubectl(*delete, check=False)
    create = ("create", "--filename=-", *_DRY)
    assert "nothing else of it" in installed.kubectl(*create, input=json.dumps(claim("other")), check=False)


def test_others_annotate_claims_as_ever(installed: ControlPlane) -> None:
    _patch(installed, {"metadata": {"annotations": {"example.com/b": "1"}, "labels": {"b": "1"}}}, check=True)
    assert _annotations(installed)["example.com/b"] == "1"


def _patch(
    plane: ControlPlane, body: dict[str, Any], *options: str, kubeconfig: Path | None = None, check: bool = False
) -> str:
    change = ("patch", "resourceclaim", _NAME, "--type=merge", f"--patch={json.dumps(body)}", *options)
    return plane.kubectl(*change, kubeconfig=kubeconfig, check=check)


def _annotations(plane: ControlPlane) -> dict[str, str]:
    found = json.loads(plane.kubectl("get", "resourceclaim", _NAME, "--output=json"))
    annotations: dict[str, str] = found["metadata"]["annotations"]
    return annotations
