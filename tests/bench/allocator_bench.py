"""`make bench`, the allocator: Rootport's beside Kubernetes' own one, the same problems, in one run.

What is timed, on both sides, is answering a problem whose objects have been read:

- *warm*: what is kept between pods is kept. Go: compiled selectors and the sets of what is allocated, which
  kube-scheduler copies for each pod, making an allocator for it. Rootport: the Allocator, hence pools, ledger and what
  selectors said of devices; not its memory of nodes that are full for claims of this kind. Both read the claim's
  requests and write the result each time; that Go converts a node's slices each time, and ours does not, is the work of
  kube-scheduler for a pod as well.
- *anew*: nothing is kept; compiled selectors, pools and the sets of what is allocated are made for the problem.

Rounds of both take turns, a figure is the median of rounds, and each round's is a median of many. Answers are compared.
Ours is what is imported: the Python files, or, as `make bench` does it, the compiled allocator (`make compiled`, then
PYTHONPATH=build/compiled:. python -P -m). With --one-node the problems of one node alone.
Without Go there is no figure, and the exit status says so.
"""

from __future__ import annotations

import gc
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, Final

from driver.adapters.files.allocation_problems import AllocationProblem, answer
from driver.allocator import Allocator, Features, search
from driver.api.validation.defaults import with_defaults
from driver.cel import selector
from tests.bench import allocator_problems
from tests.bench.figure import Figure, report
from tests.support.agreement import disagreements
from tests.support.paths import REPO

Json = dict[str, Any]

ORACLE: Final = REPO / "tests" / "oracle" / "allocator"
NOT_MEASURED: Final = 3
ROUNDS: Final = 5
SPEND: Final = 0.1
"""Seconds for a problem in a round, warm and anew."""

HARD_SECONDS: Final = 1.0
LARGE_RATIO, HARD_MS = 1.0, 50.0
IS_COMPILED: Final = str(search.__file__).endswith(tuple(EXTENSION_SUFFIXES))
FORM: Final = "compiled" if IS_COMPILED else "Python"
MEAN_RATIO, WORST_RATIO = (0.5, 1.5) if IS_COMPILED else (1.0, 2.5)
"""The limits of one node's problems."""


@dataclass(slots=True, kw_only=True)
class Case:
    """A problem and how long its answers took, in microseconds, a number a round."""

    wire: Json
    problem: AllocationProblem
    go_warm: list[float] = field(default_factory=list)
    go_anew: list[float] = field(default_factory=list)
    our_warm: list[float] = field(default_factory=list)
    our_anew: list[float] = field(default_factory=list)

    def warm_ratio(self) -> float:
        return statistics.median(self.our_warm) / statistics.median(self.go_warm)

    def anew_ratio(self) -> float:
        return statistics.median(self.our_anew) / statistics.median(self.go_anew)


def main() -> int:
    go = shutil.which("go")
    if go is None:
        print("allocator beside Kubernetes' own: NOT MEASURED: there is no go program to build that one with")
        return NOT_MEASURED
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "allocator"
        subprocess.run([go, "build", "-o", program, "."], cwd=ORACLE, check=True)
        return report(one_node(program) if "--one-node" in sys.argv[1:] else figures(program))


def figures(program: Path) -> Iterator[Figure]:
    """What this module measures."""
    yield from one_node(program)
    cases = measured(program, allocator_problems.large(), 3)
    name = f"{allocator_problems.NODES} nodes x 8 GPUs"
    yield Figure(f"allocator ({FORM}) / Go's: {name}, median", median(cases), LARGE_RATIO, "x")
    print(f"  {name}: worst {max(map(Case.warm_ratio, cases)):.2f}x; all built anew, {anew(cases):.2f}x")
    yield from hard_figures(program)


def one_node(program: Path) -> Iterator[Figure]:
    """The problems of one node."""
    cases = measured(program, allocator_problems.typical(), ROUNDS)
    name = f"allocator ({FORM}) / Go's: {len(cases)} problems of one node"
    ratios = [case.warm_ratio() for case in cases]
    yield Figure(f"{name}, geometric mean", statistics.geometric_mean(ratios), MEAN_RATIO, "x")
    yield Figure(f"{name}, worst", max(ratios), WORST_RATIO, "x")
    print(f"  median {median(cases):.2f}x; all built anew, {anew(cases):.2f}x")


def median(cases: Iterable[Case]) -> float:
    return statistics.median(map(Case.warm_ratio, cases))


def anew(cases: Iterable[Case]) -> float:
    return statistics.median(map(Case.anew_ratio, cases))


def measured(program: Path, problems: Iterable[Json], rounds: int) -> list[Case]:
    """Both sides' times for every problem; prints a line each."""
    cases = []
    for wire in problems:
        case = Case(wire=wire, problem=AllocationProblem.model_validate(wire))
        line = json.dumps(wire)
        gc.collect()
        for _ in range(rounds):
            oracle = asked(program, line, timeout="60s", spend=SPEND)
            case.go_warm.append(oracle["warmMicros"])
            case.go_anew.append(oracle["anewMicros"])
            warm, anew = timed(case.problem)
            case.our_warm.append(warm)
            case.our_anew.append(anew)
        check(wire, oracle, case.problem)
        print(row(case), flush=True)
        cases.append(case)
    return cases


def row(case: Case) -> str:
    go, ours = statistics.median(case.go_warm), statistics.median(case.our_warm)
    anew = f"anew {case.anew_ratio():5.2f}x"
    return f"  {case.wire['id']:<66} Go {go:>9.0f} us, ours {ours:>9.0f} us, {ours / go:5.2f}x; {anew}"


def hard_figures(program: Path) -> Iterator[Figure]:
    """What Kubernetes' allocator does not answer in a second."""
    worst = 0.0
    count = 0
    for wire in allocator_problems.hard():
        oracle = asked(program, json.dumps(wire), timeout=f"{HARD_SECONDS}s", spend=0)
        problem = AllocationProblem.model_validate(wire)
        if oracle.get("errorKind") != "timeout":
            check(wire, oracle, problem)
            print(f"  {wire['id']:<66} Go {oracle['micros']:>9} us: not hard enough, left out")
            continue
        micros = timed(problem)[0]
        print(f"  {wire['id']:<66} Go > {HARD_SECONDS * 1e6:>7.0f} us, ours {micros:>9.0f} us", flush=True)
        worst = max(worst, micros / 1000)
        count += 1
    if not count:
        raise SystemExit("allocator: no problem is hard for Kubernetes' allocator any more: nothing was measured")
    yield Figure(f"allocator: {count} problems on which Go's takes more than a second, worst", worst, HARD_MS, "ms")


def asked(program: Path, line: str, *, timeout: str, spend: float) -> Json:
    command: Sequence[str | Path] = [program, "-timeout", timeout, "-spend", f"{spend}s"]
    done = subprocess.run(command, input=line, capture_output=True, text=True, check=True)
    oracle: Json = json.loads(done.stdout)
    return oracle


def check(wire: Json, oracle: Json, problem: AllocationProblem) -> None:
    found = disagreements(wire | {"stage": "shares", "tags": [], "oracle": oracle}, answer(problem))
    if found:
        raise SystemExit(f"{wire['id']}: the answers differ: {'; '.join(found)}")


def timed(problem: AllocationProblem) -> tuple[float, float]:
    """Ours in microseconds, warm and anew."""
    nodes = problem.nodes
    claims = [with_defaults(claim) for claim in problem.claims]
    features = Features(**problem.features.model_dump())

    def make() -> Allocator:
        return Allocator(problem.slices, problem.classes, allocated=problem.allocated_claims, features=features)

    kept = make()

    def warm() -> object:
        kept.release(())  # which makes it forget the nodes that are full
        return kept.allocate_first(nodes, claims)

    def anew() -> object:
        forget_compiled()
        return make().allocate_first(nodes, claims)

    warm()
    return median_micros(warm, at_least=3), median_micros(anew, at_least=1)


def forget_compiled() -> None:
    """Empty the cache of compiled selectors, as in a process that has just begun."""
    compiled = selector._COMPILED
    compiled._known.clear()
    compiled._used = 0


def median_micros(call: Callable[[], object], *, at_least: int) -> float:
    took: list[float] = []
    begin = time.perf_counter()
    while len(took) < at_least or time.perf_counter() - begin < SPEND:
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return statistics.median(took) * 1e6


if __name__ == "__main__":
    raise SystemExit(main())
