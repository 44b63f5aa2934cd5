"""The linter's findings: codes that stay, and the field of the object that is the reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from driver.model.devices import DeviceType

__all__ = ["LintCode", "LintFinding", "Severity"]


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """The claim cannot be allocated or prepared as it is: by no cluster, or not by the one that was looked at."""
    WARNING = "warning"
    """It can, but it may do something else than was meant, or fail on some nodes."""
    NOTE = "note"
    """Nothing is wrong; it is good to know."""


class LintCode(StrEnum):
    """The codes of findings. The values are printed and stay; docs/user/lint.md explains each."""

    UNREADABLE = "unreadable"
    NOT_AN_OBJECT = "not-an-object"
    OLD_VERSION = "old-version"
    INVALID_OBJECT = "invalid-object"
    DUPLICATE_OBJECT = "duplicate-object"
    ASKS_FOR_NOTHING = "asks-for-nothing"
    UNKNOWN_CLASS = "unknown-class"
    SELECTOR_INVALID = "selector-invalid"
    SELECTOR_TOO_COSTLY = "selector-too-costly"
    PARAMETERS_INVALID = "parameters-invalid"
    FOREIGN_PARAMETERS = "foreign-parameters"
    CAPACITY_INVALID = "capacity-invalid"
    SMALL_AMOUNT = "small-amount"
    TOO_MANY_DEVICES = "too-many-devices"
    UNKNOWN_ATTRIBUTE = "unknown-attribute"
    UNKNOWN_CAPACITY = "unknown-capacity"
    UNGUARDED_ATTRIBUTE = "unguarded-attribute"
    COMPARISON_OF_TYPES = "comparison-of-types"
    CONSTRAINT_ATTRIBUTE = "constraint-attribute"
    CONSTRAINT_WITHOUT_EFFECT = "constraint-without-effect"
    UNPAIRED_DEVICES = "unpaired-devices"
    LADDER_CHANGED = "ladder-changed"
    REDUNDANT_ALTERNATIVE = "redundant-alternative"
    SLOW_SEARCH = "slow-search"
    PARTIAL_SHARE = "partial-share"
    MANAGED_TAINT_TOLERATED = "managed-taint-tolerated"
    SELECTS_TOO_FEW = "selects-too-few"
    CAPACITY_UNAVAILABLE = "capacity-unavailable"
    SELECTOR_FAILS = "selector-fails"
    NEVER_FITS = "never-fits"
    POD_CLAIM_NAME = "pod-claim-name"
    POD_CLAIM_SOURCE = "pod-claim-source"
    POD_CLAIM_MISSING = "pod-claim-missing"
    POD_CLAIM_UNUSED = "pod-claim-unused"
    DEVICE_PLUGIN_RESOURCE = "device-plugin-resource"
    NOT_LOOKED_AT = "not-looked-at"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """One thing that is wrong, or likely to be.

    Attributes:
        code: What.
        severity: How bad.
        path: The field, such as ``spec.devices.requests[0].exactly.selectors[0].cel.expression``; of a claim also where
            a template was read.
        message: What is wrong, in one sentence without a full stop.
        hint: What to do; may be empty.
        names: Full names of the attributes and capacities that it depends on, where it follows from what is published.
        kinds: The kinds of devices that it depends on, likewise.
    """

    code: LintCode
    severity: Severity
    path: str
    message: str
    hint: str = ""
    names: frozenset[str] = frozenset()
    kinds: frozenset[DeviceType] = frozenset()
