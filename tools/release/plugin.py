"""``kubectl rootport`` for krew: an archive with all packages, and the manifest that names it.

krew unpacks an archive and links one program of it, so everything is in it but Python itself: pure packages once
(``lib/any``), packages with machine code once for each minor version of Python (``lib/cp311``, ...).
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tools.release.archives import Member
from tools.release.versions import chart_version

__all__ = ["PLATFORM", "PYTHONS", "archive_members", "fetch_wheels", "manifest"]

PYTHONS: Final = ("3.11", "3.12", "3.13")
PLATFORM: Final = "linux-amd64"
_PLATFORMS: Final = tuple(f"manylinux{name}_x86_64" for name in ("_2_28", "_2_27", "_2_17", "2014", "_2_5", "1"))
_LAUNCHER: Final = Path(__file__).with_name("launcher.py")
_PROGRAM: Final = "kubectl-rootport"
_DESCRIPTION: Final = (
    "Rootport is a driver for Dynamic Resource Allocation of GPUs, RDMA NICs and FPGAs. This plugin says why a claim"
    " or a pod is pending, device by device, and what would help (explain), what is free, allocated and unhealthy"
    " (status, top), and checks, converts and simulates claims. Most commands also work on the output of kubectl get"
    " -o yaml, without a cluster."
)
_CAVEATS: Final = f"The plugin needs Python {', '.join(PYTHONS[:-1])} or {PYTHONS[-1]} on your machine."


def fetch_wheels(lock: Path, folder: Path) -> dict[str, list[Path]]:
    """Fetch the wheels of a lock file, by their hashes, for each version of Python; return their paths.

    Raises:
        subprocess.CalledProcessError: pip failed; what it said is in ``stderr``.
    """
    found = {}
    for python in PYTHONS:
        into = folder / python
        command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
        command += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", str(lock)]
        command += ["--python-version", python, "--implementation", "cp", "--dest", str(into)]
        command += [f"--platform={platform}" for platform in _PLATFORMS]
        subprocess.run(command, check=True, capture_output=True, text=True)
        found[python] = sorted(into.glob("*.whl"))
    return found


def archive_members(wheels: Mapping[str, Iterable[Path]], rootport: Path, licence: bytes) -> dict[str, Member]:
    """Return the files of the plugin's archive.

    Args:
        wheels: Of the dependencies, by the version of Python.
        rootport: Rootport's own wheel, without machine code.
        licence: The text of LICENSE, which krew asks for.
    """
    members = {_PROGRAM: Member(_LAUNCHER.read_bytes(), executable=True), "LICENSE": Member(licence)}
    for python, paths in wheels.items():
        own = f"lib/cp{python.replace('.', '')}"
        members[f"{own}/README"] = Member(f"Packages with machine code for Python {python}.\n".encode())
        for path in [*paths, rootport]:
            everywhere = path.name.endswith("-none-any.whl") or "-abi3-" in path.name  # abi3: any Python from 3.11 on
            folder = "lib/any" if everywhere else own
            members.update({f"{folder}/{name}": member for name, member in _unpacked(path)})
    return members


def manifest(version: str, url: str, digest: str, homepage: str) -> str:
    """Return krew's manifest of the plugin (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).

    Args:
        version: Rootport's.
        url: Where the archive will be.
        digest: The archive's SHA-256.
        homepage: The project's address.
    """
    platform: dict[str, Any] = {
        "selector": {"matchLabels": dict(zip(("os", "arch"), PLATFORM.split("-"), strict=True))},
        "uri": url,
        "sha256": digest,
        "bin": _PROGRAM,
    }
    told = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "rootport"},
        "spec": {
            "version": f"v{chart_version(version)}",
            "homepage": homepage,
            "shortDescription": "Explain pending GPU and RDMA claims",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": [platform],
        },
    }
    return yaml.safe_dump(told, sort_keys=False, width=100)


def _unpacked(wheel: Path) -> Iterable[tuple[str, Member]]:
    """The files of a wheel at the places where pip installs libraries; its scripts are left out."""
    with zipfile.ZipFile(wheel) as file:
        for entry in file.infolist():
            name = entry.filename
            top, _, rest = name.partition("/")
            if top.endswith(".data"):
                kind, _, name = rest.partition("/")
                if kind not in {"purelib", "platlib"}:
                    continue
            if not entry.is_dir():
                yield name, Member(file.read(entry))
