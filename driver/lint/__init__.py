"""Finds claims that will hang, cost the scheduler a long search, or do something else than was meant.

Pure. ``lint_claim`` needs no cluster; with what a cluster publishes it says more. docs/user/lint.md explains the codes.
"""

from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.linter import lint_claim, lint_class, lint_pod
from driver.lint.mistakes import check_claim, check_class
from driver.lint.pods import KnownClaims
from driver.lint.unrecorded import Unrecorded, unread, unrecorded

__all__ = [
    "KnownClaims",
    "LintCode",
    "LintFinding",
    "Severity",
    "Unrecorded",
    "check_claim",
    "check_class",
    "lint_claim",
    "lint_class",
    "lint_pod",
    "unread",
    "unrecorded",
]
