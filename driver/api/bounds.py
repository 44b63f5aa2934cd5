"""The bounds of Rootport's own objects that their writers keep; the CRDs have all of them."""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_DEVICES", "MAX_FAULTS", "MAX_NOTES", "MAX_NOTE_LENGTH"]

MAX_NOTES: Final = 256
"""How many notes a NodeInventory holds."""

MAX_NOTE_LENGTH: Final = 1024
"""How many characters a note has at most."""

MAX_FAULTS: Final = 512
"""How many faults a NodeInventory names; the mildest beyond that are left out."""

MAX_DEVICES: Final = 3072
"""How many GPUs, NICs, VFs and FPGAs a NodeInventory has, all in all: 16 NICs may have 190 VFs each."""
