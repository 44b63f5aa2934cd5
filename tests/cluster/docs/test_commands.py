"""The commands on the pages that ask a cluster, typed as they are on a real API server with Rootport installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.docs.shown_world import furnish
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.documents.console import PAGES, Command, commands, is_shown_by
from tests.support.documents.desk import Desk
from tests.support.documents.rules import ENDS_WITH, NOT_COMPARED, Runner, runner_of

pytestmark = pytest.mark.needs_go

_LAST: Final = ("docs/operator/placement.md", "docs/operator/install.md")
"""Their last commands take things away."""
COMMANDS: Final[dict[str, list[Command]]] = {
    page: found
    for page in sorted(PAGES, key=lambda page: (_LAST.index(page) if page in _LAST else -1, page))
    if (found := [command for command in commands(page) if runner_of(command) is Runner.API_SERVER])
}


@pytest.fixture(scope="module")
def plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("documents"), cluster_binaries) as plane:
        # A namespace does not end without its controller.
        plane.start_controller_manager("--controllers=namespace-controller")
        furnish(plane)
        yield plane


@pytest.mark.parametrize("page", COMMANDS)
def test_the_commands_of_a_page_do_what_it_shows(page: str, plane: ControlPlane, tmp_path: Path) -> None:
    kubectl = f'exec {plane.binaries["kubectl"]} "$@"'
    programs = {"kubectl": kubectl, "kustomize": 'shift\nexec kubectl kustomize "$@"'}
    desk = Desk(tmp_path, programs, {"KUBECONFIG": str(plane.kubeconfig)})
    wrong = []
    for command in COMMANDS[page]:
        typed = desk.type(command)
        is_compared = command.output and command.text not in NOT_COMPARED
        if (
            typed.returncode not in ENDS_WITH.get(command.text, (0,))
            or "Traceback" in typed.stdout
            or (is_compared and not is_shown_by(command.output, typed.stdout))
        ):
            wrong.append(f"{page}:{command.line}: {command.text}\nexit code {typed.returncode}\n{typed.stdout}")
    assert wrong == [], "\n".join(wrong)
