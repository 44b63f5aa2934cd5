"""Tables and JSON of ``rootport bench-placement``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, Final

from driver.cli.bench_placement_runs import Timed
from driver.cli.columns import Cell, Columns
from driver.cli.render import console
from driver.placement.replay.comparison import Line, compared, mean_line, published_order
from driver.placement.replay.trace import Published, Trace
from driver.wording import listed, plural

__all__ = ["report", "to_wire"]

_WIDTH: Final = 100
_CAPITALS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOTHING: Final = "-"


def report(
    trace: Trace, timed: Sequence[Timed], published: Sequence[Published], demands: Sequence[int], *, by_seed: bool
) -> Iterator[str]:
    """Yield the tables for people, a line each.

    Args:
        trace: What was replayed.
        timed: The results.
        published: Published runs of the same workloads and seeds.
        demands: For each a table: at which arrived demand, in percent of all GPUs.
        by_seed: Whether each seed gets a line.
    """
    results = [each.result for each in timed]
    seeds = sorted({result.seed for result in results})
    theirs = published_order(published, demands[-1])
    of_seeds = f"mean of the seeds {_span(seeds)}" if len(seeds) > 1 and not by_seed else f"seed {_span(seeds)}"
    for demand in demands:
        lines = compared(results, published, demand, by_seed=by_seed)
        yield f"Allocated GPUs in %, at a demand of {demand} % of {trace.gpus:,} GPUs; {of_seeds}"
        yield from _table(lines, theirs, by_seed=by_seed)
        yield ""
        if theirs:
            yield from _verdict(compared(results, published, demand), theirs[-1])
            yield ""
    ours = ", ".join(dict.fromkeys(result.policy for result in results))
    if theirs:
        yield f"Published: {', '.join(theirs)}."
    else:
        yield "The trace has no published results for these workloads and seeds."
    yield f"Rootport: {ours}."
    seconds = sorted(each.seconds for each in timed)
    yield f"{plural(len(timed), 'run')} of {seconds[0]:.1f} to {seconds[-1]:.1f} s of processor time each."


def _table(lines: Sequence[Line], theirs: Sequence[str], *, by_seed: bool) -> Iterator[str]:
    ours = list(lines[0].ours)
    shown = [*lines, mean_line(lines)] if len(lines) > 1 else list(lines)
    heading = [
        "workload/seed" if by_seed else "workload",
        *(_CAPITALS.sub(" ", policy) for policy in theirs),
        *ours,
        *([f"{ours[0]} - {theirs[-1]}"] if theirs else []),
    ]
    rows = [
        [
            Cell(line.workload if line.seed is None else f"{line.workload}/{line.seed}"),
            *(Cell(_figure(line.published.get(policy))) for policy in theirs),
            *(Cell(_figure(line.ours[policy]), is_bold=policy == ours[0]) for policy in ours),
            *([_difference(line.difference(ours[0], theirs[-1]))] if theirs else []),
        ]
        for line in shown
    ]
    columns = Columns(heading, rows, flexible=[0], left=[0], width=min(console().width, _WIDTH))
    yield from columns.heading()
    for row in rows:
        yield from columns.row(row)


def _verdict(lines: Sequence[Line], best: str) -> Iterator[str]:
    ours = next(iter(lines[0].ours))
    found = [(difference, line.workload) for line in lines if (difference := line.difference(ours, best)) is not None]
    if not found:
        return
    least, workload = min(found)
    mean = fmean(difference for difference, _ in found)
    if len(found) == 1:
        yield f"{ours} - {best}: {mean:+.2f} points."
    else:
        of_all = f"{mean:+.2f} points in the mean of {len(found)} workloads"
        yield f"{ours} - {best}: {of_all}, {least:+.2f} in the worst, {workload}."


def _figure(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2f}"


def _difference(value: float | None) -> Cell:
    if value is None:
        return Cell(_NOTHING)
    return Cell(f"{value:+.2f}", "green" if value >= 0 else "red")


def _span(numbers: Sequence[int]) -> str:
    """Return ``42-51`` or ``42, 45 and 50``."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return listed([str(number) for number in numbers], shown=10)


def to_wire(
    trace: Trace, timed: Sequence[Timed], published: Sequence[Published], demands: Sequence[int]
) -> dict[str, Any]:
    """Return everything as JSON types; figures are percent of all GPUs, rounded to thousandths."""
    return {
        "nodes": len(trace.nodes),
        "gpus": trace.gpus,
        "demands": list(demands),
        "workloads": [
            {
                "name": name,
                "pods": len(pods),
                "runs": [
                    {
                        "policy": each.result.policy,
                        "seed": each.result.seed,
                        "allocation": _by_demand(each.result.run.allocation, demands),
                        "fragmentation": _by_demand(each.result.run.fragmentation, demands),
                        "placed": each.result.run.placed,
                        "dropped": each.result.run.dropped,
                        "processorSeconds": round(each.seconds, 3),
                    }
                    for each in timed
                    if each.result.workload == name
                ],
                "published": [
                    {
                        "policy": each.policy,
                        "seed": each.seed,
                        "allocation": _by_demand(each.allocation, demands),
                    }
                    for each in published
                    if each.workload == name
                ],
            }
            for name, pods in trace.workloads.items()
        ],
    }


def _by_demand(curve: Sequence[float | None], demands: Sequence[int]) -> dict[str, float | None]:
    return {str(demand): None if (value := curve[demand]) is None else round(value, 3) for demand in demands}
