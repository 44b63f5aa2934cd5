"""JSON is read into dataclasses strictly, with every mistake at once, and written so that it is read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.api.quantity import Quantity
from driver.api.strict import StrictError, read, rule, write
from driver.model.devices import DeviceType


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    kind: Literal["circle"] = "circle"
    radius: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    kind: Literal["square"] = "square"
    side: int


def _even(value: int, found: Mapping[str, Any]) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd, beside {found['name']}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    name: str
    flag: bool
    count: int = rule(least=0, most=8, check=_even)
    text: str = rule(default="", longest=3, pattern="[a-z]*")
    choice: Literal["one", "two", "three"] = "one"
    type: DeviceType = DeviceType.GPU
    shapes: tuple[Circle | Square, ...] = ()
    pairs: tuple[tuple[str, int], ...] = ()
    by_name: Mapping[str, int | None] = rule(default=None)
    moment: datetime | None = None
    amount: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    WIRE: ClassVar[bool] = True

    some_field: int = 1
    share_id: str | None = rule(default=None, name="shareID")
    inner: Circle | None = None


LEAST: dict[str, Any] = {"name": "n", "flag": True, "count": 2}

_SHAPES = st.builds(Circle, radius=st.integers()) | st.builds(Square, side=st.integers())
_EVERYTHING = st.builds(
    Everything,
    name=st.text(),
    flag=st.booleans(),
    count=st.sampled_from([0, 2, 8]),
    text=st.text("abc", max_size=3),
    choice=st.sampled_from(["one", "two", "three"]),
    type=st.sampled_from(DeviceType),
    shapes=st.lists(_SHAPES).map(tuple),
    pairs=st.lists(st.tuples(st.text(), st.integers())).map(tuple),
    by_name=st.dictionaries(st.text(), st.none() | st.integers()),
    moment=st.none() | st.datetimes(timezones=st.just(UTC)),
    amount=st.none() | st.integers(0, 2**60).map(Quantity.of),
)


@given(_EVERYTHING)
def test_what_is_written_is_read_again(value: Everything) -> None:
    assert read(Everything, json.loads(json.dumps(write(value))), is_complete=True) == value


def test_defaults_stand_for_what_is_not_there() -> None:
    assert read(Everything, LEAST) == Everything(name="n", flag=True, count=2)
    with pytest.raises(StrictError, match="text: is required"):
        read(Everything, LEAST, is_complete=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 1}, "name: expected a string, not 1"),
        ({"name": None}, "name: expected a string"),
        ({"flag": 1}, "flag: expected true or false, not 1"),
        ({"count": True}, "count: expected a whole number, not true"),
        ({"count": 2.0}, "count: expected a whole number, not 2.0"),
        ({"count": -2}, "count: must be at least 0, not -2"),
        ({"count": 10}, "count: must be at most 8, not 10"),
        ({"count": 3}, "count: 3 is odd, beside n"),
        ({"text": "abcd"}, "text: must have at most 3 characters"),
        ({"text": "A"}, "text: must match [a-z]*, not 'A'"),
        ({"choice": "threee"}, "choice: 'threee' is not known: did you mean three?"),
        ({"choice": []}, "choice: expected 'one', 'two' or 'three'"),
        ({"type": "gpus"}, "type: 'gpus' is not known: did you mean gpu?"),
        ({"shapes": {}}, "shapes: expected a list"),
        ({"shapes": [{"kind": "line"}]}, "shapes[0].kind: 'line' is not known: expected 'circle' or 'square'"),
        ({"shapes": [{"kind": "circle", "side": 1}]}, "shapes[0].radius: is required"),
        ({"shapes": [1]}, "shapes[0]: expected an object"),
        ({"pairs": [["a"]]}, "pairs[0]: expected a list of 2"),
        ({"by_name": {"a b": "x"}}, "by_name['a b']: expected a whole number, not 'x'"),
        ({"moment": "2026-01-01T00:00:00"}, "moment: expected a time, such as 2026-01-31T12:00:00Z"),
        ({"amount": "1X"}, "amount: '1X' is not a quantity"),
        ({"nmae": "x"}, "nmae: unknown field; did you mean name?"),
    ],
)
def test_a_mistake_is_named_with_its_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(StrictError) as caught:
        read(Everything, LEAST | change, for_people=True)
    assert str(caught.value).startswith(message)


def test_all_mistakes_come_at_once_and_show_no_value_unless_asked() -> None:
    with pytest.raises(StrictError) as caught:
        read(Everything, {"name": 7, "flag": "secret", "more": 1, "shapes": [{"kind": "circle", "radius": "secret"}]})
    assert [error.path for error in caught.value.errors] == ["name", "flag", "count", "shapes[0].radius", "more"]
    assert "secret" not in " ".join(map(str, caught.value.errors))


def test_the_wire_has_names_in_camel_case_and_null_means_absent() -> None:
    assert read(Wire, {"someField": 2, "shareID": "s", "inner": None}) == Wire(some_field=2, share_id="s")
    assert read(Wire, {"someField": None}) == Wire()
    for wrong in ("some_field", "shareId", "share_id"):
        with pytest.raises(StrictError, match=f"{wrong}: unknown field"):
            read(Wire, {wrong: 1})
    assert read(Wire, {"later": 1, "inner": {"radius": 1, "later": 2}}, ignore_unknown=True).inner == Circle(radius=1)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_json_is_a_value_or_a_list_of_mistakes(value: Any) -> None:
    for given_value in (value, LEAST | {"shapes": value}, LEAST | {"by_name": value, "pairs": value}):
        with suppress(StrictError):
            assert isinstance(read(Everything, given_value, for_people=True), Everything)
