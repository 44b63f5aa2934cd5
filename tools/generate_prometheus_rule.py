# ruff: noqa: INP001 - a script, in no package
"""Writes the Prometheus operator's PrometheusRule from resourceclasses/monitoring/rules.yaml.

Prometheus reads the rules themselves, its operator an object that contains them, and kustomize cannot put the one into
the other.

Usage: ``python tools/generate_prometheus_rule.py`` writes the file; with ``--check`` it only reports whether it is up
to date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

_FOLDER: Final = Path(__file__).resolve().parents[1] / "resourceclasses"
RULES: Final = _FOLDER / "monitoring" / "rules.yaml"
OBJECT: Final = _FOLDER / "components" / "monitoring" / "prometheus-rule.yaml"
_HEADER: Final = """\
# Made by tools/generate_prometheus_rule.py from monitoring/rules.yaml: change that and run it again.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: rootport
  namespace: rootport-system
spec:
"""


def rendered() -> str:
    """Return the file's text: the rules with their comments, indented by two columns."""
    lines = RULES.read_text(encoding="utf-8").splitlines()
    groups = lines[lines.index("groups:") :]
    return _HEADER + "".join(f"  {line}\n" if line else "\n" for line in groups)


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail where the file is out of date.")
def main(*, check: bool) -> None:
    """Write the PrometheusRule."""
    if not check:
        OBJECT.write_text(rendered(), encoding="utf-8")
    elif OBJECT.read_text(encoding="utf-8") != rendered():
        sys.exit(f"{OBJECT} is out of date: run python tools/generate_prometheus_rule.py")


if __name__ == "__main__":
    main()
