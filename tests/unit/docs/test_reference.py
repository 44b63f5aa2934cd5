"""docs/reference is what the programs, the CRDs and the models say, and each command tells its exit codes."""

from __future__ import annotations

import re

import click
import pytest

from controller.main import command as controller
from driver.cli.main import cli
from kubeletplugin.main import command as plugin
from tests.support.paths import REPO
from tools.reference.__main__ import PAGES, page
from tools.reference.commands import command_page

_CONTEXT = click.Context(cli, info_name="rootport")
COMMANDS = {name: cli.get_command(_CONTEXT, name) for name in cli.list_commands(_CONTEXT)} | {
    "rootport-controller": controller,
    "rootport-kubelet-plugin": plugin,
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    found = (REPO / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert found == page(name), "run python -m tools.reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_tells_nothing_of_the_machine_that_made_it(name: str) -> None:
    assert str(REPO) not in page(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_tells_its_exit_codes(name: str) -> None:
    command = COMMANDS[name]
    assert command is not None
    assert re.search(r"^Exit codes?: ", command.epilog or "", re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_told(name: str) -> None:
    command = COMMANDS[name]
    assert command is not None
    text = command_page(command, name, level=2)
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    assert [option.opts for option in options if not any(opt in text for opt in option.opts)] == []
    assert [option.opts for option in options if not option.help] == []
