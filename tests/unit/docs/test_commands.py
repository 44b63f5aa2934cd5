"""Each command on a page is run by a test, or has a reason why not; here those that need no cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from typing import Final

import pytest

from tests.support.documents.console import PAGES, Command, commands, is_shown_by
from tests.support.documents.desk import Desk
from tests.support.documents.rules import ENDS_WITH, NOT_COMPARED, NOT_RUN, Runner, runner_of
from tests.support.paths import REPO

ALL: Final = tuple(command for page in PAGES for command in commands(page))


def run_by(runner: Runner) -> list[object]:
    """The commands of which a runner takes care, each once: some stand on several pages."""
    once = {(command.text, command.output): command for command in ALL if runner_of(command) is runner}
    return [pytest.param(command, id=f"{command.page}:{command.line}") for command in once.values()]


@pytest.fixture(scope="module")
def desk_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Desk]:
    """A desk for each page: its commands may use what those before them wrote."""
    return cache(lambda _: Desk(tmp_path_factory.mktemp("desk")))


def test_every_command_is_run_or_has_a_reason() -> None:
    assert len(ALL) > 100
    unknown = [f"{each.page}:{each.line}: {each.text}" for each in ALL if runner_of(each) is Runner.UNKNOWN]
    assert unknown == [], "let a test run it, or give a reason in NOT_RUN of tests/support/documents/rules.py"


def test_no_rule_is_for_a_command_that_no_page_has() -> None:
    texts = {command.text for command in ALL}
    assert {*NOT_RUN, *ENDS_WITH, *NOT_COMPARED} - texts == set()


def test_a_program_that_no_rule_knows_is_found() -> None:
    assert runner_of(Command("page.md", 7, "argocd sync | kubectl apply -f -", "")) is Runner.UNKNOWN
    assert runner_of(Command("page.md", 7, "kubectl get pods", "")) is Runner.API_SERVER


@pytest.mark.parametrize("command", run_by(Runner.OFFLINE))
def test_an_offline_command_does_what_the_page_shows(desk_for: Callable[[str], Desk], command: Command) -> None:
    typed = desk_for(command.page).type(command)
    assert typed.returncode in ENDS_WITH.get(command.text, (0,)), typed.stdout
    assert "Traceback" not in typed.stdout
    if command.output and command.text not in NOT_COMPARED:
        assert is_shown_by(command.output, typed.stdout), typed.stdout


@pytest.mark.parametrize("command", run_by(Runner.DRY_RUN))
def test_make_has_what_the_page_names(command: Command) -> None:
    done = subprocess.run([*command.text.split(), "--dry-run"], cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("shown", "printed", "is_shown"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\nb", "a\nb\nc\n", False),
        ("a\n…", "a\nb\nc\n", True),
        ("…\nc", "a\nb\nc\n", True),
        ("a…d", "a bc d\n", True),
        ("a\n…\nd", "a\nb\nc\n", False),
    ],
)
def test_an_ellipsis_stands_for_what_a_page_leaves_out(shown: str, printed: str, is_shown: bool) -> None:
    assert is_shown_by(shown, printed) is is_shown
