"""``python -m tests.support.states``: writes tests/data/states anew, each by the code of its own version.

The versions are commits of this repository (:mod:`tests.support.last_release`), so a clone with its history is needed.
``python -m tests.support.states NAME...`` writes some of them. No other file changes: what a version wrote is what it
wrote, so a difference in a state that is there already means that this program has changed.
"""

from __future__ import annotations

import shutil
import sys
from typing import Final

from tests.support.last_release import LAST_RELEASE, source_of
from tests.support.paths import REPO
from tests.support.states.running import CLAIMS, run_in

_STATES: Final = {
    # The last version of the formats before those of 0.1.0.
    "before-0.1.0": "010a6805aaf403d1f1ad4c77590b7ab738b5fc41",
    LAST_RELEASE.version: LAST_RELEASE.commit,
}


def main(*names: str) -> None:
    for name, commit in _STATES.items():
        if names and name not in names:
            continue
        folder = REPO / "tests/data/states" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run_in(source_of(commit), CLAIMS, "write", folder)
        sys.stdout.write(f"{folder.relative_to(REPO)}: written by {commit}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
