"""Amounts of memory as tables show them."""

from __future__ import annotations

import pytest

from driver.cli.amounts import gibibytes

MIB = 1024**2


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (40, "<1Mi"),
        (MIB, "1Mi"),
        (102 * MIB, "102Mi"),
        (103 * MIB, "0.1Gi"),
        (81559 * MIB, "79.6Gi"),
        (80 * 1024 * MIB, "80Gi"),
    ],
)
def test_memory_is_never_shown_as_more_than_it_is_and_never_as_none(amount: int, text: str) -> None:
    assert gibibytes(amount) == text


def test_small_amounts_have_the_unit_in_the_same_style() -> None:
    assert gibibytes(40 * MIB, unit=" GiB") == "40 MiB"
