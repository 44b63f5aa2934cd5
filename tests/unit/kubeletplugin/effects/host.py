"""A host with NVIDIA's programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kubeletplugin.node.roots import Roots
from tests.support.stub_nvidia import InstalledPrograms

__all__ = ["Host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host as the plugin knows it.

    Attributes:
        root: The folder that stands for its ``/``.
        programs: NVIDIA's programs in it.
        roots: What the plugin is told.
        runtime_root: Where MPS daemons' folders are, as the host knows it.
    """

    root: Path
    programs: InstalledPrograms
    roots: Roots
    runtime_root: str
