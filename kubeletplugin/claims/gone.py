"""The one answer of the API server that the plugin's state depends on: a claim that is positively no longer there."""

from __future__ import annotations

from driver.errors import InputError

__all__ = ["ClaimGoneError"]


class ClaimGoneError(InputError):
    """The API server said that the claim was deleted, or that its name now belongs to another one."""
