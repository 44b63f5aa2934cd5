"""JSON for people: the same bytes as the standard library's."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.pretty_json import pretty_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(_VALUES)
def test_it_is_what_the_standard_library_writes(value: object) -> None:
    assert pretty_json(value) == json.dumps(value, ensure_ascii=False, indent=2)


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1, 2}}, [b"bytes"], object()])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        pretty_json(value)
