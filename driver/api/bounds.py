"""The bounds of Rootport's own objects that their writers keep; the CRDs have all of them."""

from __future__ import annotations

from typing import Final

__all__ = [
    "MAX_CLAIMS_TO_PREPARE",
    "MAX_DEVICES",
    "MAX_FAULTS",
    "MAX_NOTES",
    "MAX_NOTE_LENGTH",
    "MAX_RIVALS",
    "MAX_RIVAL_DEVICES",
]

MAX_CLAIMS_TO_PREPARE: Final = 128
"""How many claims a NodeInventory names that its node is to prepare; others wait until some of these are prepared."""

MAX_NOTES: Final = 256
"""How many notes a NodeInventory holds."""

MAX_NOTE_LENGTH: Final = 1024
"""How many characters a note has at most."""

MAX_FAULTS: Final = 512
"""How many faults a NodeInventory names; the mildest beyond that are left out."""

MAX_RIVALS: Final = 32
"""How many rivals a NodeInventory names."""

MAX_RIVAL_DEVICES: Final = 512
"""How many devices of one rival it names: more than the GPUs, NICs and FPGAs that a node may have."""

MAX_DEVICES: Final = 3072
"""How many GPUs, NICs, VFs and FPGAs a NodeInventory has, all in all: 16 NICs may have 190 VFs each."""
