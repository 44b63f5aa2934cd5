"""The files of a release, one function for each: made of an export of the commit, into the folder of the release."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.release.archives import checksums, repack, sha256, tar_gz
from tools.release.image import Builder, image_facts
from tools.release.plugin import PLATFORM, archive_members, fetch_wheels, manifest
from tools.release.provenance import statement
from tools.release.sbom import bill_of_materials, debian_packages, licence_of, locked_packages
from tools.release.versions import chart_version

__all__ = [
    "Release",
    "export",
    "make_chart",
    "make_checksums",
    "make_image",
    "make_image_sbom",
    "make_plugin",
    "make_plugin_manifest",
    "make_provenance",
    "make_python_packages",
    "make_sbom",
    "sign",
    "take_image",
]

_PINS: Final = ("requirements.lock", "requirements-dev.lock", "Dockerfile", "pyproject.toml", "setup.py")
"""What pins all that is fetched while a release is made."""


@dataclass(frozen=True, slots=True)
class Release:
    """What is released.

    Attributes:
        version: Rootport's.
        source: A folder with the files of the commit, and no others.
        out: The folder that the release is written into.
        seconds: The time that all files in archives have: SOURCE_DATE_EPOCH.
    """

    version: str
    source: Path
    out: Path
    seconds: int

    @property
    def lock(self) -> Path:
        """The lock file of what Rootport needs to run."""
        return self.source / "requirements.lock"


def export(repo: Path, folder: Path) -> None:
    """Write the files of HEAD into a folder."""
    packed = subprocess.run(["git", "archive", "--format=tar", "HEAD"], cwd=repo, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        tar.extractall(folder, filter="data")


def make_python_packages(release: Release) -> tuple[Path, Path]:
    """Make the wheel, without machine code so that it runs on any machine, and the source distribution."""
    for hook in ("build_wheel", "build_sdist"):
        code = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
        _run([sys.executable, "-c", code, str(release.out)], release, ROOTPORT_COMPILE="no")
    wheel = release.out / f"rootport-{release.version}-py3-none-any.whl"
    sdist = release.out / f"rootport-{release.version}.tar.gz"
    sdist.write_bytes(repack(sdist.read_bytes(), release.seconds))
    return wheel, sdist


def make_sbom(release: Release) -> Path:
    """Make the bill of materials of what ``pip install`` installs by the lock file."""
    return _write_sbom(release, f"rootport-{release.version}.cdx.json")


def make_image(release: Release, builder: Builder) -> Path:
    """Build the image as an OCI archive."""
    archive = _image_path(release)
    name = f"rootport:{release.version}"
    for command in builder.commands:
        _run([part.format(seconds=release.seconds, name=name, archive=archive) for part in command], release)
    return archive


def take_image(release: Release, built: Path) -> Path:
    """Take an OCI archive that was built elsewhere."""
    return Path(shutil.copyfile(built, _image_path(release)))


def make_image_sbom(release: Release, archive: Path) -> Path:
    """Make the bill of materials of the image: the lock file's packages, and Debian's as dpkg in the image has them.

    Raises:
        ValueError: The archive is no image of a Debian.
    """
    facts = image_facts(archive)
    return _write_sbom(
        release,
        f"rootport-{release.version}-image.cdx.json",
        status=facts.dpkg_status,
        os_release=facts.os_release,
        about={"image": facts.digest},
    )


def make_chart(release: Release) -> Path:
    """Package the Helm chart, with Helm."""
    _run(["helm", "package", "resourceclasses", "--destination", str(release.out)], release)
    package = release.out / f"rootport-{chart_version(release.version)}.tgz"
    package.write_bytes(repack(package.read_bytes(), release.seconds))
    return package


def make_plugin(release: Release, wheel: Path) -> Path:
    """Make the archive of the kubectl plugin, from the wheels that the lock file pins."""
    wheels = fetch_wheels(release.lock, release.source / "build" / "wheels")
    members = archive_members(wheels, wheel, (release.source / "LICENSE").read_bytes())
    archive = release.out / f"kubectl-rootport-{release.version}-{PLATFORM}.tar.gz"
    archive.write_bytes(tar_gz(members, release.seconds))
    return archive


def make_plugin_manifest(release: Release, archive: Path, url: str, homepage: str) -> Path:
    """Write krew's manifest; the archive is to be found below ``url``."""
    path = release.out / "rootport.yaml"
    path.write_text(manifest(release.version, f"{url.rstrip('/')}/{archive.name}", sha256(archive), homepage))
    return path


def make_provenance(release: Release, commit: str, builder: str, *, image_is_ours: bool) -> Path:
    """Write the provenance of all that is in the folder now.

    Args:
        release: The release.
        commit: The full id of its git commit.
        builder: A URI that names who or what built it.
        image_is_ours: The image was built here, and not taken: nobody here knows what one from elsewhere was made of.
    """
    made = [path for path in release.out.iterdir() if image_is_ours or path != _image_path(release)]
    provenance = release.out / "provenance.intoto.json"
    provenance.write_text(
        statement(
            files={path.name: sha256(path) for path in made},
            commit=commit,
            version=release.version,
            inputs={name: sha256(release.source / name) for name in _PINS},
            seconds=release.seconds,
            builder=builder,
        )
    )
    return provenance


def make_checksums(release: Release) -> Path:
    """Write the SHA-256 digests of all that is in the folder now."""
    path = release.out / "SHA256SUMS"
    path.write_text(checksums({file.name: sha256(file) for file in release.out.iterdir()}))
    return path


def sign(file: Path, key: str) -> Path:
    """Sign a file with GPG; the signature is a file beside it.

    Raises:
        subprocess.CalledProcessError: GPG has no such key, or could not use it.
    """
    signature = file.with_name(f"{file.name}.asc")
    command = ["gpg", "--batch", "--yes", "--armor", "--local-user", key, "--output", str(signature)]
    subprocess.run([*command, "--detach-sign", str(file)], check=True, capture_output=True, text=True)
    return signature


def _image_path(release: Release) -> Path:
    return release.out / f"rootport-{release.version}-image.tar"


def _write_sbom(
    release: Release, name: str, *, status: str = "", os_release: str = "", about: dict[str, str] | None = None
) -> Path:
    lock = release.lock.read_text()
    path = release.out / name
    path.write_text(
        bill_of_materials(
            version=release.version,
            lock=lock,
            seconds=release.seconds,
            licences={package.name: licence_of(package) for package in locked_packages(lock)},
            debian=debian_packages(status, os_release),
            facts=about,
        )
    )
    return path


def _run(command: Sequence[str], release: Release, **environment: str) -> None:
    subprocess.run(
        command,
        cwd=release.source,
        env={**os.environ, **environment, "SOURCE_DATE_EPOCH": str(release.seconds)},
        check=True,
        capture_output=True,
        text=True,
    )
