"""Fixtures for tests that use a cluster, or Prometheus' tools: a conftest.py imports those that its folder uses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.support.cluster import driver
from tests.support.cluster.binaries import Binaries, ToolMissingError, build_helm
from tests.support.cluster.binaries import build as build_binaries
from tests.support.cluster.binaries import promtool as unpacked_promtool
from tests.support.cluster.control_plane import ControlPlane
from tests.support.helm import Helm
from tests.support.needed_tools import unavailable

__all__ = ["cluster_binaries", "control_plane", "helm", "kustomized", "lint_metrics", "promtool"]


@pytest.fixture(scope="session")
def cluster_binaries() -> Binaries:
    """What a cluster is made of; built, the first time, within about ten minutes."""
    try:
        return build_binaries(lambda text: print(text, file=sys.__stderr__, flush=True))
    except ToolMissingError as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def control_plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and a real API server, shared by the tests of a session: use names of your own in it."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), cluster_binaries) as plane:
        yield plane


@pytest.fixture(scope="session")
def kustomized() -> Callable[..., str]:
    """What a user's kustomization with these components makes."""
    return driver.kustomized


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The real Helm, for what needs no cluster."""
    try:
        program = build_helm(lambda text: print(text, file=sys.__stderr__, flush=True))
    except ToolMissingError as error:
        unavailable(str(error))
    return Helm(program, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def promtool() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs promtool, of Debian's package, with standard input as ``stdin``."""
    try:
        program = unpacked_promtool(lambda text: print(text, file=sys.__stderr__, flush=True))
    except (ToolMissingError, subprocess.CalledProcessError) as error:
        unavailable(f"promtool cannot be had: {error}")

    def run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *map(str, arguments)], input=stdin, capture_output=True, text=True, check=False, timeout=60
        )

    return run


@pytest.fixture(scope="session")
def lint_metrics(promtool: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[[str], str]:
    """What Prometheus' own linter says of a page of metrics; empty where it is content."""

    def linted(text: str) -> str:
        done = promtool("check", "metrics", stdin=text)
        return done.stdout + done.stderr + ("" if done.returncode == 0 else f"exit status {done.returncode}")

    return linted
