"""Quantities are read, written and compared as Kubernetes does it.

quantities.jsonl is what k8s.io/apimachinery v0.36.3 makes of each text; README.md tells how it was made.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from driver.api.quantity import Quantity
from tests.support.paths import REPO

KUBERNETES = [json.loads(line) for line in (REPO / "tests/data/quantities/quantities.jsonl").read_text().splitlines()]
ACCEPTED = [case for case in KUBERNETES if "error" not in case]
REFUSED = [case["text"] for case in KUBERNETES if "error" in case]

NANO = st.integers(-(10**30), 10**30)
FORMATS = st.sampled_from(["BinarySI", "DecimalSI", "DecimalExponent"])


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case["text"])
def test_text_value_and_format_are_those_of_kubernetes(case: dict[str, object]) -> None:
    quantity = Quantity(str(case["text"]))
    assert (str(quantity), quantity.ceil(), quantity.format) == (case["canonical"], case["value"], case["format"])


@pytest.mark.parametrize("text", REFUSED)
def test_what_kubernetes_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity(text)


@pytest.mark.parametrize("text", ["k", "-", "+", "Ki", "e3", ".", "-.Gi"])
def test_a_text_without_digits_is_refused_though_kubernetes_reads_zero(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity(text)


@pytest.mark.parametrize(
    "text", ["9" * 200, "1e9999", "1" + "0" * 127 + "Ei0", "\u0661", "1 Gi", "1\n", "0x10", "NaN", "inf"]
)
def test_hostile_text_is_refused_and_shown_cut(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        Quantity(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["9" * 128, "-" + "9" * 124 + "Ei", "9" * 124 + "e999", "1e-999", "1e999"])
def test_the_longest_numbers_can_be_written(text: str) -> None:
    assert Quantity(str(Quantity(text))) == Quantity(text)


def test_a_binary_amount_beyond_int64_is_capped_as_kubernetes_does() -> None:
    assert Quantity("100Ei").ceil() == 2**63 - 1


def test_of_writes_whole_numbers() -> None:
    assert (str(Quantity.of(80 << 30, binary=True)), str(Quantity.of(1000))) == ("80Gi", "1k")


def test_amounts_compare_across_formats() -> None:
    assert Quantity("1Ki") == Quantity("1024") == Quantity("1.024e3")
    assert hash(Quantity("1Ki")) == hash(Quantity("1024"))
    assert Quantity("1k") < Quantity("1Ki") <= Quantity("1025")
    assert Quantity("1") != "1"


def test_only_whole_amounts_are_whole() -> None:
    assert (Quantity("1500m").is_whole(), Quantity("2000m").is_whole()) == (False, True)


def test_a_sum_keeps_the_format_of_its_left_side_unless_that_is_zero() -> None:
    assert str(Quantity("1Ki") + Quantity("1k")) == "2024"
    assert (Quantity("1Ki") + Quantity("1k")).format == "BinarySI"
    assert (Quantity("0") + Quantity("1Ki")).format == "BinarySI"
    assert str(Quantity("1Gi") - Quantity("512Mi")) == "512Mi"


@given(NANO, FORMATS)
def test_written_and_read_again_it_is_the_same_amount(nano: int, format_: str) -> None:
    quantity = Quantity.from_nano(nano, format_)
    read = Quantity(str(quantity))
    # Reading caps binary amounts; everything else comes back as it was.
    assert read == quantity or (read.format == "BinarySI" and abs(read.ceil()) == 2**63 - 1)


@given(NANO, NANO)
def test_sums_and_differences_are_exact(left: int, right: int) -> None:
    total = Quantity.from_nano(left) + Quantity.from_nano(right)
    assert total.nano == left + right
    assert total - Quantity.from_nano(right) == Quantity.from_nano(left)


@given(NANO)
def test_ceil_rounds_away_from_zero(nano: int) -> None:
    assert 0 <= abs(Quantity.from_nano(nano).ceil()) * 10**9 - abs(nano) < 10**9


WIRE = TypeAdapter(Quantity)


@pytest.mark.parametrize(("wire", "text"), [("80Gi", "80Gi"), (80, "80"), (1.5, "1500m"), (Quantity("1"), "1")])
def test_on_the_wire_it_is_a_string_or_a_number(wire: object, text: str) -> None:
    assert WIRE.dump_python(WIRE.validate_python(wire), mode="json") == text


@pytest.mark.parametrize(
    "wire",
    [True, None, [], {"value": 1}, "80GB", float("nan"), pytest.param(10**5000, id="a number of 5001 digits")],
)
def test_anything_else_is_a_validation_error(wire: object) -> None:
    with pytest.raises(ValidationError):
        WIRE.validate_python(wire)
