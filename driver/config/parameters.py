"""What all kinds of ``rootport.dev/v1alpha1`` have in common."""

from __future__ import annotations

from typing import Final

from pydantic import ConfigDict

from driver.api.resource_v1 import Wire

__all__ = ["API_VERSION", "PLAIN_ERROR", "Parameters"]

API_VERSION: Final = "rootport.dev/v1alpha1"

PLAIN_ERROR: Final = "plain"
"""The type of a validation error whose message says all, the value included."""


class Parameters(Wire):
    """Read strictly: no text where a number belongs, and no field by another spelling."""

    model_config = ConfigDict(strict=True, populate_by_name=False)
