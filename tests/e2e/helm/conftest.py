"""Rootport is installed by Helm for all tests of this folder, in place of the processes of the other tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.binaries import cache_folder
from tests.support.cluster.helm_release import HelmRelease
from tests.support.cluster.images import build_rootport
from tests.support.cluster.rootport import RunningRootport
from tests.support.helm import Helm
from tests.support.paths import REPO

__all__ = ["installed", "rootport"]


@pytest.fixture(scope="package")
def installed(running: RunningRootport, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelmRelease]:
    """Rootport, rolled out."""
    running.stop()
    running.cluster.import_image(build_rootport(REPO, cache_folder()))
    release = HelmRelease(running, helm, tmp_path_factory.mktemp("helm-values"))
    try:
        release.install()
        release.rolled_out()
        yield release
    finally:
        release.uninstall()
        running.start()


@pytest.fixture
def rootport(installed: HelmRelease) -> Iterator[RunningRootport]:
    """Rootport as every test finds it and has to leave it: with nothing prepared."""
    running = installed.running
    assert not (left := running.leftovers()), left
    yield running
    running.delete_all()
    running.wait_until_clean()
