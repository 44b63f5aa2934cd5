"""Versions of kubelets and runtimes, as far as a decision needs them: major and minor."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Version", "parse_version"]

_VERSION: Final = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})(?:[.+-].*)?", re.ASCII | re.DOTALL)


class Version(NamedTuple):
    """Major and minor; compares as versions do."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def parse_version(text: str) -> Version | None:
    """The version in ``1.34``, ``v1.36.3-gke.1``, ``2.1.0``; None where the text is none."""
    match = _VERSION.fullmatch(text)
    return Version(int(match[1]), int(match[2])) if match else None
