"""The tests of this folder run on the form of the allocator that is meant: Python files, or a wheel's extensions."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES

from driver.allocator import search


def test_the_tests_run_on_the_form_that_is_meant() -> None:
    is_compiled = os.environ.get("ROOTPORT_COMPILE") == "required"  # make test-compiled
    assert str(search.__file__).endswith(tuple(EXTENSION_SUFFIXES)) == is_compiled
