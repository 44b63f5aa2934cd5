"""``make matrix``: runs the suite on each version, and makes the table of the documentation from what it has seen.

``python -m tests.matrix v1.34.4`` runs some versions only; ``--table`` makes the table from what is recorded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.matrix.results import PAGE, RUNS, lacking, page
from tests.matrix.rows import rows
from tests.support.cluster.binaries import KUBERNETES_VERSIONS
from tests.support.paths import REPO


def main() -> int:
    """Run what is asked for; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("versions", nargs="*", help=f"of {', '.join(KUBERNETES_VERSIONS)}; all unless named")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    failed = []
    for run in RUNS:
        if options.table or (options.versions and run.kubernetes not in options.versions):
            continue
        gates = "on" if run.has_gates else "off"
        print(f"Kubernetes {run.kubernetes}, gates {gates}", flush=True)
        environment = {"KUBERNETES": run.kubernetes, "ROOTPORT_MATRIX_GATES": gates, "ROOTPORT_MATRIX_RECORD": "on"}
        command = [sys.executable, "-m", "pytest", "--quiet", "tests/matrix"]
        if run.has_gates:
            command.append(f"-k={' or '.join(lacking(run.kubernetes)) or 'none'}")
        if subprocess.run(command, cwd=REPO, env=os.environ | environment, check=False).returncode != 0:
            failed.append(f"{run.kubernetes}, gates {gates}")
    if failed:
        print(f"the table is as it was: there were failures on {'; '.join(failed)}", file=sys.stderr)
        return 1
    PAGE.write_text(page(rows(), PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
