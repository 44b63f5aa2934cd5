"""Converts what objects ask of device plugins and other systems' schedulers into ResourceClaims for Rootport."""

from driver.convert.findings import Conversion, Finding, Outcome
from driver.convert.objects import convert
from driver.convert.settings import DEFAULT, Settings

__all__ = ["DEFAULT", "Conversion", "Finding", "Outcome", "Settings", "convert"]
