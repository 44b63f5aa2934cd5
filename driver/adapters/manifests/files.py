"""Finds and reads the files that a user names as for ``kubectl apply -f``: files, folders and standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from driver.adapters.files.input_file import open_input, path_name, read_all, unreadable
from driver.adapters.files.output_folder import MARKER
from driver.errors import InputError

__all__ = ["MAX_FILE_BYTES", "ManifestFile", "find_files"]

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
"""An API object has at most 1.5 MiB (etcd's request limit); a file of several is still far below this."""

_MAX_FILES: Final = 10_000
_WHAT: Final = "a file of manifests (YAML or JSON)"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_STANDARD_INPUT: Final = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
# Where shells put the pipe of <(...).
_DESCRIPTORS: Final = ("/dev/fd/", "/proc/self/fd/")


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file of manifests, or standard input.

    Attributes:
        path: The file.
        is_named: Whether the user named it, rather than a folder that it is in.
        reason: Why a folder could not be listed, if ``path`` is such a folder; else empty.
    """

    path: Path
    is_named: bool
    reason: str = ""

    @property
    def is_standard_input(self) -> bool:
        """Whether it is standard input."""
        return self.is_named and str(self.path) in _STANDARD_INPUT

    @property
    def source(self) -> str:
        """The file's name in messages."""
        return "<stdin>" if self.is_standard_input else path_name(self.path)

    def read(self) -> str:
        """Return the file's text.

        Raises:
            InputError: The file cannot be read, is too large, or is not UTF-8.
        """
        if self.reason:
            raise InputError(f"{self.source}: cannot be read: {self.reason}")
        try:
            with self._open() as stream:
                data = read_all(
                    stream, self.source, MAX_FILE_BYTES, _WHAT, too_large="split it into several files of one folder"
                )
        except OSError as error:
            raise unreadable(self.path, error, _WHAT) from error
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(f"{self.source}:{line}: not UTF-8 text", hint="is this a YAML or JSON file?") from error

    def _open(self) -> BinaryIO:
        name = str(self.path)
        if self.is_standard_input:
            if sys.stdin is None:
                raise InputError("<stdin>: cannot be read: it is closed", hint=f"name {_WHAT}")
            # The caller's descriptor must stay open.
            return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
        return open_input(self.path, _WHAT, pipe=self.is_named and name.startswith(_DESCRIPTORS))


def find_files(paths: Sequence[Path], *, recursive: bool, left_out: list[Path] | None = None) -> Iterator[ManifestFile]:
    """Yield the files, and the .yaml, .yml and .json files in folders, sorted; each file once.

    Args:
        paths: What the user named; ``-`` is standard input.
        recursive: Whether to read nested folders. Links to folders are not followed; hidden folders are left out, as
            are those that rootport wrote, unless they are named.
        left_out: Gets the folders that rootport wrote.

    Raises:
        InputError: A file or folder does not exist, a folder has no such file, or there are more than 10,000.
    """
    seen: set[str] = set()
    for path in paths:
        for file in _files(path, [] if left_out is None else left_out, recursive=recursive):
            real = os.path.realpath(file.path)
            if real in seen and not file.reason:
                continue
            seen.add(real)
            if len(seen) > _MAX_FILES:
                raise InputError(f"more than {_MAX_FILES} files", hint="name fewer folders")
            yield file


def _files(path: Path, left_out: list[Path], *, recursive: bool) -> Iterator[ManifestFile]:
    if str(path) in _STANDARD_INPUT or str(path).startswith(_DESCRIPTORS):
        yield ManifestFile(path, is_named=True)
        return
    try:
        # Also checks a file, so that a missing one is reported at once.
        if not path.is_dir():
            path.stat()
            yield ManifestFile(path, is_named=True)
            return
        found = (
            list(_below(path, left_out)) if recursive else [ManifestFile(each, is_named=False) for each in _in(path)]
        )
    except OSError as error:
        raise unreadable(path, error, _WHAT) from error
    except ValueError as error:  # a NUL character in the name
        raise InputError(f"{path_name(path)}: cannot be read: {error}", hint=f"name {_WHAT}") from error
    if not found:
        raise InputError(f"{path_name(path)}: no .yaml, .yml or .json file in this folder")
    yield from found


def _in(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.suffix in _SUFFIXES and each.is_file())


def _below(folder: Path, left_out: list[Path]) -> Iterator[ManifestFile]:
    """Yield the files of a folder, then those of its folders; at most one more than may be read."""
    folders, count = [folder], 0
    while folders:
        here = folders.pop()
        try:
            if here != folder and (here / MARKER).is_file():
                left_out.append(here)  # a simulation's result repeats the claims that it was made from
                continue
            inner = sorted(each for each in here.iterdir() if each.is_dir() and not each.is_symlink())
            files = _in(here)
        except OSError as error:
            if here == folder:
                raise
            yield ManifestFile(here, is_named=False, reason=error.strerror or str(error))
            continue
        folders += [each for each in reversed(inner) if not each.name.startswith(".")]
        for file in files:
            yield ManifestFile(file, is_named=False)
            count += 1
            if count > _MAX_FILES:
                return
