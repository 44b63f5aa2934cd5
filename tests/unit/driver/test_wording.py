"""Counts, lists and long texts in messages."""

from __future__ import annotations

from driver.wording import listed, plural, short


def test_a_count_has_the_noun_that_goes_with_it() -> None:
    assert [plural(1, "device"), plural(2, "device"), plural(0, "entry", "entries")] == [
        "1 device",
        "2 devices",
        "0 entries",
    ]


def test_a_list_is_written_out_or_its_rest_is_counted() -> None:
    assert [listed(list(names)) for names in ("", "a", "ab", "abc", "abcd")] == [
        "",
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and 1 more",
    ]
    assert listed(["a", "b", "c"], shown=1, what="other nodes", separator="; ") == "a and 2 other nodes"


def test_a_long_text_is_one_line_that_is_cut() -> None:
    assert short("a\n  b") == "a b"
    assert short("abcdef", 4) == "abc…"
