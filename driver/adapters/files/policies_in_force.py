"""Holds the administrator's policies in force: read from a file at start, and again when the file changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from driver.adapters.files.file_in_force import FileInForce
from driver.adapters.files.policies_file import read_policies
from driver.api.policies import PoliciesDocument

__all__ = ["PoliciesInForce"]

_LOG: Final = logging.getLogger(__name__)

P = TypeVar("P", bound=PoliciesDocument)


class PoliciesInForce(FileInForce[P]):
    """The policies of one kind that are in force.

    Args:
        path: The file; None to use the defaults always.
        default: The defaults. Their type is the kind of policies that the file holds.
        flag: The flag that names the file, for messages.
        clock: Monotonic seconds.

    Raises:
        InputError: The file is not valid, or its folder does not exist.
    """

    def __init__(
        self, path: Path | None, *, default: P, flag: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        told: tuple[str, ...] = ()

        def read(path: Path) -> P:
            nonlocal told
            policies = read_policies(path, type(default))
            # The file is read every minute, changed or not.
            for note in policies.notes if policies.notes != told else ():
                _LOG.warning("a field of the file is deprecated", extra={"file": str(path), "note": note})
            told = policies.notes
            return policies

        super().__init__(path, default=default, read=read, kind=default.KIND, flag=flag, clock=clock)
