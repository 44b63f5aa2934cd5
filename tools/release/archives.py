"""Archives and checksums that are the same in every build: names in order, no owner, one time."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Member", "checksums", "repack", "sha256", "tar_gz", "tree"]


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive."""

    content: bytes
    executable: bool = False


def tar_gz(members: Mapping[str, Member], seconds: int) -> bytes:
    """Return a .tar.gz of these files by name; all have the time ``seconds`` (since 1970) and belong to root."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=6, mtime=seconds) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, member in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(member.content), seconds, 0o755 if member.executable else 0o644
            tar.addfile(entry, io.BytesIO(member.content))
    return packed.getvalue()


def tree(folder: Path) -> dict[str, Member]:
    """Return all files below a folder, by their path in it."""
    return {
        path.relative_to(folder).as_posix(): Member(path.read_bytes(), executable=bool(path.stat().st_mode & 0o100))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def repack(archive: bytes, seconds: int) -> bytes:
    """Return a .tar.gz with the same files, as :func:`tar_gz` writes it.

    Raises:
        ValueError: A member is no file and no folder.
    """
    members = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for entry in tar:
            content = tar.extractfile(entry) if entry.isfile() else None
            if content is not None:
                members[entry.name] = Member(content.read(), executable=bool(entry.mode & 0o100))
            elif not entry.isdir():
                raise ValueError(f"{entry.name} is neither a file nor a folder")
    return tar_gz(members, seconds)


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums(files: Mapping[str, str]) -> str:
    """Return what ``sha256sum --check`` reads, of digests by file name."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
