"""Writes shares in percent as prioritized lists of shares by amount, over the sizes that a cluster's devices have."""

from driver.ratios.rewriting import OF_A_SIZE, Change, Rewriting, restored, rewritten
from driver.ratios.sizes import NO_SIZES, Size, SizeCounter, Sizes

__all__ = ["NO_SIZES", "OF_A_SIZE", "Change", "Rewriting", "Size", "SizeCounter", "Sizes", "restored", "rewritten"]
