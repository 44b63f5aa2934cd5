"""Builds the site into ./site: strictly, so that a warning is a failure."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
from sphinx.cmd.build import build_main

from tools.site.pages import SiteError
from tools.site.staging import REPO, stage


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=REPO / "site")
def main(folder: Path) -> None:
    """Build the site into FOLDER, which is ./site if it is not given."""
    with tempfile.TemporaryDirectory() as scratch:
        source, doctrees = Path(scratch, "source"), Path(scratch, "doctrees")
        source.mkdir()
        try:
            stage(source)
        except SiteError as error:
            sys.exit(f"error: {error}")
        # -E and a fresh folder of doctrees: what is built depends on the documents alone.
        options = ["-q", "-E", "-W", "--keep-going", "-b", "html", "-c", str(Path(__file__).parent)]
        code = build_main([*options, "-d", str(doctrees), str(source), str(folder)])
    if code:
        sys.exit(code)
    click.echo(f"open {folder / 'index.html'}")


if __name__ == "__main__":
    main()
