"""``rootport allocate``: allocation problems in, answers out, one JSON line each."""

from __future__ import annotations

from pathlib import Path

import click

from driver.adapters.files.allocation_problems import answer_file
from driver.cli.options import FILE

__all__ = ["command"]


@click.command("allocate", epilog="""\b
Examples:
  rootport allocate --problems tests/data/conformance/quirks.jsonl
  rootport allocate --problems problems.jsonl | jq -c '{id, node}'

Exit codes: 0 each problem has its answer, an error in its line included;
2 the file cannot be read.
""")  # fmt: skip
@click.option("--problems", type=FILE, required=True, help="A file with one problem, a JSON object, a line.")
def command(problems: Path) -> None:
    """Answer allocation problems, one JSON line each: {id, node, result, error}.

    A problem holds nodes, classes, slices, allocatedClaims and claims, all of them objects of resource.k8s.io/v1 or
    core/v1; the result is one allocation a claim, or null where no node fits. docs/design/allocator.md has the details.
    """
    for line in answer_file(problems):
        click.echo(line)
