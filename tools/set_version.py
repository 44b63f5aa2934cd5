# ruff: noqa: INP001 - a script, in no package
"""Changes the version of Rootport in all files that name it: ``python -m tools.set_version 0.3.0.dev0``.

Without a version it only says whether the files agree. The changelog is for people to write.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from tools.release.versions import current_version, disagreements, read_tree, released_versions, with_version

REPO: Final = Path(__file__).resolve().parents[1]


@click.command()
@click.argument("version", required=False)
def main(version: str | None) -> None:
    """Write VERSION, such as 0.2.0 or 0.3.0.dev0, into all files that name the present one."""
    tree = read_tree(REPO)
    if version is not None:
        try:
            changed = with_version(tree, version)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        for name, text in changed.items():
            (REPO / name).write_text(text)
            click.echo(name)
        tree = {**tree, **changed}
    wrong = disagreements(tree, released_versions((REPO / "CHANGELOG.md").read_text()))
    for sentence in wrong:
        click.echo(sentence, err=True)
    if version is None and not wrong:
        click.echo(current_version(tree))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
