"""Compare Rootport's allocator with Kubernetes' own one on fresh random problems.

    python -m tests.oracle.allocator.compare --seed 1 --count 5000

Builds the Go program beside this file (once: a minute or two), asks both, and prints what does not agree. Quirks of
Kubernetes' allocator are told apart by tags (random_problems.quirks) and, for tiny problems, by trying every
combination; the exit status is 1 if anything is left. With ``--select N`` it writes up to N of the problems with their
answers instead: that is how tests/data/conformance/core-random.jsonl was made. ``--answer FILE`` writes the problems of
such a file with fresh answers, for another version of Kubernetes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from driver.adapters.files.allocation_problems import AllocationProblem, answer
from tests.oracle.allocator.random_problems import FLAVOURS, random_problem
from tests.support.agreement import disagreements
from tests.support.brute_force import first_allocation

Json = dict[str, Any]

_HERE: Final = Path(__file__).parent
_MOST_CHARACTERS: Final = 12_000
_NO_ERRORS: Final = ("plain", "constraints", "distinct", "several-claims", "admin", "allocated", "pairs")


def with_answers(problems: list[Json], *, timeout: str) -> Iterator[Json]:
    """The problems with Kubernetes' answers, without those on which its search takes too long."""
    for problem, oracle in zip(problems, asked(problems, timeout=timeout), strict=True):
        if oracle.get("errorKind") != "timeout":
            yield problem | {"oracle": oracle} | strict(problem, oracle)


def asked(problems: list[Json], *, timeout: str) -> Iterator[Json]:
    """Kubernetes' answer to each problem."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "allocator"
        subprocess.run(["go", "build", "-o", program, "."], cwd=_HERE, check=True)
        lines = "\n".join(json.dumps(problem) for problem in problems)
        done = subprocess.run([program, "-timeout", timeout], input=lines, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        oracle = json.loads(line)
        del oracle["id"], oracle["micros"]
        yield oracle


def strict(problem: Json, oracle: Json) -> Json:
    """Whether there is any valid allocation, where that can be tried out."""
    if "tiny" not in problem["tags"] or problem["tags"][0] not in _NO_ERRORS or "error" in oracle:
        return {}
    return {"strict": {"feasible": first_allocation(problem, problem["nodes"][0]) is not None}}


def is_decided(problem: Json) -> bool:
    """Whether Kubernetes' answer is what is to be expected: not where it may be wrong, or takes pools at random."""
    doubtful = any(tag.startswith("quirk-") for tag in problem["tags"]) and "strict" not in problem
    return not doubtful and problem["oracle"].get("channel") != "stable"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--flavour")
    parser.add_argument("--timeout", default="2s", help="how long Kubernetes' allocator may search")
    parser.add_argument("--select", type=int, metavar="N")
    parser.add_argument("--answer", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.answer is not None:
        known = [json.loads(line) for line in options.answer.read_text(encoding="utf-8").splitlines()]
        for problem, oracle in zip(known, asked(known, timeout="60s"), strict=True):
            sys.stdout.write(json.dumps(problem | {"oracle": oracle}, separators=(",", ":")) + "\n")
        return 0
    problems = []
    for seed in range(options.seed, options.seed + options.count):
        tiny = options.flavour is None and seed % 2 == 0
        problem = random_problem(seed, flavour=options.flavour, tiny=tiny)
        problem["tags"] += ["tiny"] if tiny else []
        problems.append(problem)
    answered = [problem for problem in with_answers(problems, timeout=options.timeout) if is_decided(problem)]
    if options.select is not None:
        sys.stdout.writelines(
            json.dumps(problem, separators=(",", ":")) + "\n" for problem in select(answered, options)
        )
        return 0
    wrong = 0
    for problem in answered:
        found = disagreements(problem, answer(AllocationProblem.model_validate(problem)))
        if found:
            wrong += 1
            sys.stdout.write(f"{problem['id']} {problem['tags']}: {'; '.join(found)}\n")
    sys.stdout.write(f"{len(problems)} problems, {len(answered)} compared, {wrong} disagree\n")
    return 1 if wrong else 0


def select(answered: list[Json], options: argparse.Namespace) -> list[Json]:
    """The hardest few of each flavour and outcome, of those that are not too long."""
    groups: defaultdict[tuple[str, str], list[Json]] = defaultdict(list)
    for problem in answered:
        oracle = problem["oracle"]
        outcome = "fits" if oracle["result"] is not None else oracle.get("errorKind", "none")
        if len(json.dumps(problem)) < _MOST_CHARACTERS:
            groups[problem["tags"][0], outcome].append(problem)
    share = -(-options.select // len(groups))
    for members in groups.values():
        members.sort(key=lambda problem: (-min(problem["oracle"]["steps"], 1000), len(json.dumps(problem))))
    chosen = [problem for members in groups.values() for problem in members[:share]]
    sys.stderr.write(f"{Counter(problem['tags'][0] for problem in chosen)} of {', '.join(FLAVOURS)}\n")
    return sorted(chosen, key=lambda problem: str(problem["id"]))


if __name__ == "__main__":
    sys.exit(main())
