"""Folders of the host that an administrator names in a flag, checked before they become a part of any path."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from driver.api.validation.errors import shown
from driver.errors import InputError

__all__ = ["host_folder"]

# No control characters and no spaces: these paths stand in CDI specs, logs and the arguments of hooks.
_FOLDER: Final = re.compile(r"(?:/[!-.0-~]{1,255}){1,32}", re.ASCII)


def host_folder(path: str, what: str) -> str:
    """The folder, as a prefix of absolute paths: ``/`` and the empty string are both the host's own root, ``""``.

    Args:
        path: What the administrator gave.
        what: Names it in the error, such as ``device_root``.

    Raises:
        InputError: It is not absolute, or not in its shortest form (``..``, ``.``, ``//`` or a closing ``/``).
    """
    if path in ("", "/"):
        return ""
    if _FOLDER.fullmatch(path) is None or posixpath.normpath(path) != path:
        raise InputError(
            f"{what} {shown(path)} is not the path of a folder",
            hint="give an absolute path without '.', '..', '//', spaces and a closing '/', such as /run/nvidia/driver",
        )
    return path
