"""Rootport's objects on a real API server, and the tokens of those who work with them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cluster.binaries import KUBERNETES_MINOR
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.installation import NODES, claim, inventory, slice_of

_ACTIVE_WITHIN_S = 30
# Before Kubernetes 1.36 the API server drops the amounts (DRAConsumableCapacity is off by default).
_GREEDY = {"deviceClassName": "gpu.rootport.dev", "capacity": {"requests": {"core": "10"}}}


@pytest.fixture(scope="session")
def installed(control_plane: ControlPlane) -> ControlPlane:
    """The API server with everything but the workloads installed, two nodes, and the policies at work."""
    install(control_plane)
    for node in NODES:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
        control_plane.kubectl("apply", "--filename=-", input=json.dumps(body))
    _wait_for_policies(control_plane)
    return control_plane


@pytest.fixture(scope="session")
def token_of(installed: ControlPlane) -> Callable[..., Path]:
    """A kubeconfig of one of Rootport's service accounts, by its name, bound to a node where one is named."""
    made: dict[tuple[str, str | None], Path] = {}

    def token_of(account: str, node: str | None = None) -> Path:
        if (account, node) not in made:
            made[account, node] = installed.service_account_kubeconfig("rootport-system", account, node=node)
        return made[account, node]

    return token_of


def _wait_for_policies(plane: ControlPlane) -> None:
    """The API server takes up a new policy by a watch, some 100 ms after it has accepted it."""
    plugin = ("--as=system:serviceaccount:rootport-system:rootport-kubelet-plugin", "--as-group=system:masters")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "trial", "namespace": "rootport-system"},
    }
    trials: list[tuple[dict[str, object], tuple[str, ...]]] = [
        (inventory("trial"), plugin),
        (dict(lease), plugin),
        (slice_of("rootport.dev", name="trial"), ()),
        (claim("trial", config=({"kind": "trial"},)), ()),
        *([(claim("trial", {"name": "gpu", "exactly": _GREEDY}), ())] if KUBERNETES_MINOR >= 36 else []),
        (claim("trial"), plugin),
    ]
    until = time.monotonic() + _ACTIVE_WITHIN_S
    for body, user in trials:
        command = ("create", "--dry-run=server", "--filename=-", *user)
        while "ValidatingAdmissionPolicy" not in plane.kubectl(*command, input=json.dumps(body), check=False):
            assert time.monotonic() < until, f"no policy refuses {body['kind']}"
            time.sleep(0.05)
