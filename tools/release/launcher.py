#!/usr/bin/env python3
"""``kubectl rootport``, as krew installs it: runs Rootport's command line on the packages beside this file.

Packages with machine code are there once for each minor version of Python; where ``python3`` is another one, the newest
that this machine has is used.
"""

import os
import sys
from pathlib import Path

LIBRARIES = Path(__file__).resolve().parent / "lib"
PREFIX = "cp3"


def main() -> None:
    """Find the packages for this Python, and run; or start another Python that has them."""
    own = LIBRARIES / "cp{}{}".format(*sys.version_info[:2])
    if own.is_dir():
        sys.path[:1] = [str(LIBRARIES / "any"), str(own)]
        from driver.cli.entry import main as run  # noqa: PLC0415 - found only now

        run()
        return
    known = sorted((int(path.name[len(PREFIX) :]) for path in LIBRARIES.glob(PREFIX + "*")), reverse=True)
    for minor in known:
        try:
            os.execvp(f"python3.{minor}", [f"python3.{minor}", __file__, *sys.argv[1:]])  # noqa: S606 - no shell is the point
        except FileNotFoundError:
            continue
    wanted = ", ".join(f"3.{minor}" for minor in reversed(known))
    has = "{}.{}".format(*sys.version_info[:2])
    sys.exit(f"kubectl rootport needs one of Python {wanted}; python3 on this machine is {has}")


if __name__ == "__main__":
    main()
