"""``kubectl_complete-rootport``: completes ``kubectl rootport ...`` for kubectl's own completion.

kubectl looks for a program of this name beside its plugin, gives it the words that were typed, the last of them perhaps
unfinished, and reads a choice a line and a directive from it (k8s.io/kubectl v0.37.2,
pkg/cmd/plugin/plugin_completion.go; the form is that of cobra's command ``__complete``).
"""

from __future__ import annotations

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete

from driver.cli.main import cli

__all__ = ["main"]

_FILES: Final = 0  # cobra's ShellCompDirectiveDefault: the shell adds the names of files
_NO_FILES: Final = 4  # ShellCompDirectiveNoFileComp


def main() -> None:
    """Print the choices for the words of the command line, and whether names of files are among them."""
    *words, unfinished = sys.argv[1:] or [""]
    found = ShellComplete(cli, {}, "kubectl rootport", "").get_completions(words, unfinished)
    choices = [item for item in found if item.type == "plain"]
    for item in choices:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_FILES if len(choices) < len(found) else _NO_FILES}")


if __name__ == "__main__":
    main()
