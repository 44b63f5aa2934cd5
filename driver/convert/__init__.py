"""Converts what objects ask of device plugins and other systems' schedulers into ResourceClaims for Rootport."""

from driver.convert.claims import CONVERTED_LABEL, claim_lines
from driver.convert.containers import ReadContainer
from driver.convert.findings import Conversion, Finding, Outcome
from driver.convert.objects import convert
from driver.convert.pods import converted_pod
from driver.convert.settings import DEFAULT, Settings

__all__ = [
    "CONVERTED_LABEL",
    "DEFAULT",
    "Conversion",
    "Finding",
    "Outcome",
    "ReadContainer",
    "Settings",
    "claim_lines",
    "convert",
    "converted_pod",
]
