"""The machines that tests read, by name."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from driver.adapters.machines.description import read_machine
from tests.support.paths import REPO

__all__ = ["MACHINE_FILES", "OTHERS_FILES", "REAL_MACHINE_FILES", "machine_file", "nccl_file"]

_FOLDERS: Final = (REPO / "examples" / "machines", REPO / "tests" / "data" / "machines")

MACHINE_FILES: Final = tuple(
    sorted((path for folder in _FOLDERS for path in folder.glob("*.yaml")), key=lambda path: path.name)
)
"""All machine descriptions of the repository, by name."""

REAL_MACHINE_FILES: Final = tuple(path for path in MACHINE_FILES if path.stem != "fpga-server")
"""Those of machines that there are."""

OTHERS_FILES: Final = REPO.parent / "shared" / "topologies"
"""Where the files are that other projects publish of these machines; not everywhere, and never in this repository."""


def machine_file(name: str) -> Path:
    """The description of a machine, such as ``azure-nd-h100-v5``, that a command's ``--topology`` takes.

    Raises:
        LookupError: There is none of that name.
    """
    for path in MACHINE_FILES:
        if path.stem == name:
            return path
    raise LookupError(f"no machine is named {name}")


@cache
def nccl_file(name: str) -> Path:
    """The same machine as an NCCL topology file, which ``--topology`` takes as well.

    Raises:
        LookupError: There is none of that name.
    """
    path = _folder() / f"{name}.xml"
    path.write_text(_xml(machine_file(name)), encoding="utf-8")
    return path


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="rootport-nccl-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _xml(description: Path) -> str:
    made: list[ET.Element] = []
    for element in read_machine(description).elements:
        made.append(ET.Element(element.tag, dict(element.attributes)))
        if element.parent is not None:
            made[element.parent].append(made[-1])
    ET.indent(made[0])
    return ET.tostring(made[0], encoding="unicode") + "\n"
