"""The container image of a release: which builder makes it, and what the made one consists of."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Builder", "ImageFacts", "find_builder", "image_facts"]

_STATUS: Final = "var/lib/dpkg/status"
_RELEASE: Final = ("etc/os-release", "usr/lib/os-release")


@dataclass(frozen=True, slots=True)
class Builder:
    """A program that builds images, with the command lines that build one and write it as an OCI archive.

    Each has the placeholders ``{seconds}``, ``{name}`` and ``{archive}``.
    """

    name: str
    works: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


_EPOCH: Final = ("--build-arg", "SOURCE_DATE_EPOCH={seconds}")
_BUILDKIT: Final = ("--output", "type=oci,dest={archive},name={name},rewrite-timestamp=true")
_BUILDERS: Final = (
    # BuildKit 0.13 or later: before, it does not know rewrite-timestamp.
    Builder(
        "docker buildx",
        ("docker", "buildx", "inspect", "--bootstrap"),
        (("docker", "buildx", "build", "--no-cache", "--provenance=false", *_EPOCH, *_BUILDKIT, "."),),
    ),
    *(
        Builder(
            program,
            (program, "info"),
            (
                (program, "build", "--no-cache", "--timestamp", "{seconds}", *_EPOCH, "--tag", "{name}", "."),
                (program, "push", "{name}", "oci-archive:{archive}:{name}"),
            ),
        )
        for program in ("buildah", "podman")
    ),
)


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an image is: the digest of its manifest and of its layers, and what dpkg has installed in it."""

    digest: str
    layers: tuple[str, ...]
    dpkg_status: str
    os_release: str


def find_builder(
    which: Callable[[str], str | None] = shutil.which, works: Callable[[tuple[str, ...]], bool] | None = None
) -> Builder | None:
    """Return the first builder that this machine has and that answers; docker without its daemon does not."""
    answers = works or _answers
    return next((builder for builder in _BUILDERS if which(builder.works[0]) and answers(builder.works)), None)


def image_facts(archive: Path) -> ImageFacts:
    """Return what an OCI archive has (image-spec v1.1): of several images in it, the first.

    Raises:
        ValueError: It is none, or nothing is known to dpkg in it.
    """
    with tarfile.open(archive) as tar:
        index = json.loads(_member(tar, "index.json"))
        digest = index["manifests"][0]["digest"]
        manifest = json.loads(_blob(tar, digest))
        if "manifests" in manifest:  # an index within the index, as BuildKit writes it
            digest = manifest["manifests"][0]["digest"]
            manifest = json.loads(_blob(tar, digest))
        layers = tuple(layer["digest"] for layer in manifest["layers"])
        found: dict[str, str] = {}
        for layer in layers:
            found.update(_files(_blob(tar, layer), (_STATUS, *_RELEASE)))
    if _STATUS not in found:
        raise ValueError(f"{archive} has no {_STATUS}: no image of a Debian")
    return ImageFacts(digest, layers, found[_STATUS], next((found[name] for name in _RELEASE if found.get(name)), ""))


def _answers(command: tuple[str, ...]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _files(layer: bytes, names: tuple[str, ...]) -> Mapping[str, str]:
    content = gzip.decompress(layer) if layer[:2] == b"\x1f\x8b" else layer
    found = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for entry in tar:
            name = entry.name.removeprefix("./")
            file = tar.extractfile(entry) if name in names and entry.isfile() else None
            if file is not None:
                found[name] = file.read().decode()
    return found


def _blob(tar: tarfile.TarFile, digest: str) -> bytes:
    algorithm, _, value = digest.partition(":")
    return _member(tar, f"blobs/{algorithm}/{value}")


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    try:
        file = tar.extractfile(name)
    except KeyError as error:
        raise ValueError(f"the archive has no {name}: no OCI archive") from error
    if file is None:
        raise ValueError(f"{name} in the archive is no file")
    return file.read()
