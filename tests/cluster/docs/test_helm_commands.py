"""Helm's commands on the pages, typed as they are on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE, install
from tests.support.documents.console import PAGES, Command, commands
from tests.support.documents.desk import Desk
from tests.support.documents.rules import Runner, runner_of
from tests.support.helm import CHART, RELEASE, Helm

pytestmark = pytest.mark.needs_go

COMMANDS: Final[dict[str, Command]] = {
    command.text: command for page in PAGES for command in commands(page) if runner_of(command) is Runner.HELM
}
"""Each once: some stand on several pages."""


@pytest.fixture(scope="module")
def plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("helm-commands"), cluster_binaries) as plane:
        plane.start_controller_manager("--controllers=namespace-controller,garbage-collector-controller")
        yield plane


@pytest.mark.parametrize("command", [pytest.param(each, id=f"{each.page}:{each.line}") for each in COMMANDS.values()])
def test_helm_does_what_the_page_says(command: Command, plane: ControlPlane, helm: Helm, tmp_path: Path) -> None:
    place = (f"--namespace={NAMESPACE}", f"--kubeconfig={plane.kubeconfig}")
    words = command.text.split()
    if words[1] == "install":
        helm("uninstall", RELEASE, "--ignore-not-found", "--wait", *place)
        if "--take-ownership" in words:
            install(plane, workloads=True)
    elif words[1] in ("upgrade", "uninstall") and "--install" not in words:
        helm("upgrade", "--install", "--create-namespace", RELEASE, CHART, *place)
    environment = {"KUBECONFIG": str(plane.kubeconfig), "HOME": str(tmp_path)}
    programs = {"helm": f'exec {helm.program} "$@"', "kubectl": f'exec {plane.binaries["kubectl"]} "$@"'}
    typed = Desk(tmp_path, programs, environment).type(command)
    assert typed.returncode == 0, typed.stdout
