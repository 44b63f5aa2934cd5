"""What is remembered, and how much of it."""

from __future__ import annotations

from driver.memo import IdMemo, Memo


def test_a_result_is_made_once() -> None:
    made: list[str] = []
    memo: Memo[str, str] = Memo(2)

    def make() -> str:
        made.append("a")
        return "A"

    assert [memo.of("a", make), memo.of("a", make)] == ["A", "A"]
    assert made == ["a"]


def test_a_result_may_be_none() -> None:
    made: list[None] = []
    memo: Memo[str, None] = Memo(2)
    for _ in range(2):
        memo.of("a", lambda: made.append(None))
    assert len(made) == 1


def test_a_full_memo_begins_anew() -> None:
    memo: Memo[int, int] = Memo(2)
    for number in range(3):
        memo.of(number, lambda number=number: number)
    assert len(memo) == 1
    assert memo.of(2, lambda: -1) == 2


def test_equal_objects_have_results_of_their_own() -> None:
    memo: IdMemo[list[int], str] = IdMemo(4)
    one, other = [1], [1]
    assert memo.of(one, lambda: "one") == "one"
    assert memo.of(other, lambda: "other") == "other"
    assert memo.of(one, lambda: "again") == "one"


def test_an_object_that_is_remembered_is_kept_alive() -> None:
    memo: IdMemo[object, int] = IdMemo(100)
    for number in range(100):
        memo.of(object(), lambda number=number: number)
    assert len(memo) == 100  # each had an id of its own
