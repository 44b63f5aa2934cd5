"""The numbers are those of Go's math/rand: figures that a Go program printed, and a Go program if there is Go."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from driver.placement.replay.go_random import GoRandom
from tests.support.needed_tools import require_tool

PROGRAM = """package main

import (
	"fmt"
	"math/rand"
)

func main() {
	for _, seed := range []int64{%s} {
		r := rand.New(rand.NewSource(seed))
		items := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
		fmt.Println(seed, r.Int63(), r.Intn(7), r.Intn(8), r.Intn(1000000007), r.Intn(2147483647), r.Perm(9))
		r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		var sum uint64
		for i := 0; i < 2000; i++ {
			sum = sum*31 + r.Uint64()
		}
		fmt.Println(items, sum)
	}
}
"""
SEEDS = (42, 43, 51, 0, 1, -5, 2**31 - 1, 2**31, 2**63 - 1, -(2**63))


@pytest.mark.parametrize(
    ("seed", "first", "second", "perm", "shuffled", "checksum"),
    [
        pytest.param(
            *(42, 3440579354231278675, 9832119173398632219, [1, 0, 6, 9, 7, 8, 2, 4, 5, 3]),
            *([2, 3, 5, 4, 1, 0, 8, 9, 6, 7], 13366249155977887440),
            id="42",
        ),
        pytest.param(
            *(0, 8717895732742165505, 2259404117704393152, [3, 1, 0, 4, 7, 5, 9, 6, 2, 8]),
            *([1, 3, 8, 4, 9, 2, 5, 6, 0, 7], 12529325666761927659),
            id="none",
        ),
        pytest.param(
            *(-5, 1811683815564572222, 4427849682616757295, [1, 6, 5, 8, 0, 4, 3, 2, 9, 7]),
            *([9, 2, 0, 8, 7, 4, 1, 6, 5, 3], 5571568750753813711),
            id="negative",
        ),
    ],
)
def test_a_seed_gives_what_go_gives(
    seed: int, first: int, second: int, perm: list[int], shuffled: list[int], checksum: int
) -> None:
    random = GoRandom(seed)
    assert (random.int63(), random.uint64()) == (first, second)
    for bound in (7, 8, 1_000_000):
        assert 0 <= random.intn(bound) < bound
    random.int63()
    assert random.perm(10) == perm
    items = list(range(10))
    random.shuffle(items)
    assert items == shuffled
    total = 0
    for _ in range(5000):
        total = (total * 31 + random.uint64()) % 2**64
    assert total == checksum


@pytest.mark.needs_go
def test_it_is_what_this_machines_go_gives(tmp_path: Path) -> None:
    require_tool("go")
    program = tmp_path / "main.go"
    program.write_text(PROGRAM % ", ".join(map(str, SEEDS)))
    ran = subprocess.run(["go", "run", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    lines: list[str] = []
    for seed in SEEDS:
        random = GoRandom(seed)
        items = list(range(12))
        figures = [random.int63(), *(random.intn(bound) for bound in (7, 8, 1_000_000_007, 2**31 - 1))]
        lines.append(" ".join(map(str, [seed, *figures])) + f" [{' '.join(map(str, random.perm(9)))}]")
        random.shuffle(items)
        total = 0
        for _ in range(2000):
            total = (total * 31 + random.uint64()) % 2**64
        lines.append(f"[{' '.join(map(str, items))}] {total}")
    assert ran.stdout.splitlines() == lines


@pytest.mark.parametrize("bound", [0, -1, 2**31])
def test_a_bound_that_go_takes_another_way_is_refused(bound: int) -> None:
    with pytest.raises(ValueError, match="is not from 1 to 2147483647"):
        GoRandom(1).intn(bound)
