"""Into which shares a capacity is divided: amounts from a minimum up, in steps."""

from __future__ import annotations

from typing import Final

__all__ = ["LEAST_MEMORY", "given_in_shares", "largest_share"]

LEAST_MEMORY: Final = 2**20
"""The minimum and the step of shares of a GPU's memory, in bytes, where an administrator has not set them."""


def largest_share(whole: int, *, minimum: int, step: int) -> int:
    """Return the largest amount that one share may have.

    Args:
        whole: All that there is.
        minimum: The least that a share may have; more than there is means all of it.
        step: What is between two amounts that a share may have.
    """
    minimum = min(minimum, whole)
    return minimum + (whole - minimum) // step * step


def given_in_shares(whole: int, *, minimum: int, step: int) -> int:
    """Return how much is given in shares: as much as leaves no room for another share beside the largest one.

    That is the largest share where the rest would be enough for another one, else all that there is. The arguments are
    those of :func:`largest_share`.
    """
    most = largest_share(whole, minimum=minimum, step=step)
    return most if whole - most >= minimum else whole
