"""``rootport bench-placement``: replays a trace of pods with every policy, beside what others published about it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from driver.adapters.files.durable_files import os_errors_as_node_errors, replace_file
from driver.adapters.files.input_file import path_name
from driver.adapters.files.trace_folder import read_trace
from driver.cli.bench_placement_report import report, to_wire
from driver.cli.bench_placement_runs import Task, run_all
from driver.cli.bench_placement_svg import drawing
from driver.cli.options import FILE, FOLDER, output_option
from driver.cli.output import to_json
from driver.cli.progress import progress
from driver.errors import InputError
from driver.placement.policies import POLICIES
from driver.placement.replay.comparison import of_interest, published_order
from driver.placement.replay.curves import curves_of
from driver.placement.replay.run import DEMANDS
from driver.wording import plural

__all__ = ["command"]

_MOST_SEEDS: Final = 1000
_LAST_DEMAND: Final = DEMANDS[-1]


@click.command("bench-placement", epilog="""\
The experiment is that of the paper on fragmentation gradient descent (Weng and others,
"Beware of Fragmentation", USENIX ATC 2023): pods arrive one by one, none leaves, one that
fits nowhere is dropped. The order is random by a seed, and pods are repeated (or taken out)
until they ask for 130 % of the GPUs. With the seeds 42 to 51 it is, pod by pod, the order of
the published runs.

\b
DIR has a trace in one of two layouts; each file may end in .gz:
  nodes.csv, pods/WORKLOAD.csv, and published-allocation.csv if there are results
  openb_node_list_gpu_node.csv, openb_pod_list_WORKLOAD.csv, analysis_allo_discrete.csv
The second one is what the authors publish:
  git clone https://github.com/hkust-adsl/kubernetes-scheduler-simulator
  rootport bench-placement --trace kubernetes-scheduler-simulator

A trace of your own needs the columns gpu (nodes) and num_gpu (pods); cpu_milli, memory_mib,
model, gpu_milli and gpu_spec count where they are there (docs/dev/placement-benchmark.md).

\b
Examples:
  rootport bench-placement --trace DIR                         # all of it: minutes
  rootport bench-placement --trace DIR --workloads default --seeds 42
  rootport bench-placement --trace DIR --policy pack --seed-by-seed
  rootport bench-placement --trace DIR --curves curves.svg     # opens in a browser

Exit codes: 0 done; 1 a file cannot be written; 2 bad input; 130 interrupted.
""")  # fmt: skip
@click.option("--trace", "folder", type=FOLDER, required=True, metavar="DIR", help="The folder with the trace.")
@click.option("--workloads", metavar="NAME,...", help="Only these. [default: all in the folder]")
@click.option(
    "--policy",
    "policies",
    type=click.Choice(list(POLICIES)),
    multiple=True,
    help="Only this one; may be given several times. The first is compared with the best published. [default: all]",
)
@click.option(
    "--seeds", default="42-51", show_default=True, metavar="N,...", help="Of the random order, such as 42 or 42-45,50."
)
@click.option(
    "--demand",
    default="100,130",
    show_default=True,
    metavar="PERCENT,...",
    help="At which arrived demand the tables are, in percent of all GPUs.",
)
@click.option("--seed-by-seed", is_flag=True, help="A line for each seed, not only for their mean.")
@click.option("--jobs", type=click.IntRange(1, 256), help="How many processes run at once. [default: one for each CPU]")
@click.option(
    "--curves",
    type=FILE,
    metavar="FILE.svg",
    help="Draw allocation and fragmentation over arrived demand into this file.",
)
@output_option("text", "json")
def command(  # noqa: PLR0913, PLR0917 - one each option, by name
    folder: Path,
    workloads: str | None,
    policies: tuple[str, ...],
    seeds: str,
    demand: str,
    seed_by_seed: bool,  # noqa: FBT001 - click passes flags so
    jobs: int | None,
    curves: Path | None,
    output: str,
) -> None:
    """Replay a trace of pods with every placement policy, and compare how much of the GPUs is allocated.

    Nothing of a cluster is needed or touched. The tables show, for each workload, the mean of all seeds: percent of all
    GPUs that are allocated when so much demand has arrived. The policy first-fit is no model of stock Kubernetes: it
    fills nodes in order of their names, while kube-scheduler spreads pods by CPU and memory.
    """
    names = _names(workloads)
    chosen = tuple(dict.fromkeys(policies)) or tuple(POLICIES)
    numbers = _numbers("--seeds", seeds, most=2**31 - 1, count=_MOST_SEEDS)
    demands = _numbers("--demand", demand, most=_LAST_DEMAND, count=len(DEMANDS))
    if curves is not None:
        _check_target(curves)
    with progress("reading the trace"):
        trace = read_trace(folder, names)
    tasks = [Task(name, policy, seed) for name in trace.workloads for seed in numbers for policy in chosen]
    with progress("replaying", total=len(tasks)) as step:
        timed = run_all(trace, tasks, jobs or len(os.sched_getaffinity(0)), step)
    results = [each.result for each in timed]
    published = of_interest(trace.published, results)
    order = published_order(published, demands[-1])
    if curves is not None:
        with os_errors_as_node_errors(f"--curves {path_name(curves)}: cannot be written"):
            subtitle = _subtitle(folder, trace.gpus, numbers)
            replace_file(curves, drawing(curves_of(results, published, order), subtitle).encode())
    if output == "json":
        click.echo(to_json(to_wire(trace, timed, published, demands)), nl=False)
    else:
        for line in report(trace, timed, published, demands, by_seed=seed_by_seed):
            click.echo(line)


def _names(text: str | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))
    if text is not None and not names:
        raise InputError("--workloads: names none", hint="such as default,multigpu50")
    return names


def _numbers(flag: str, text: str, *, most: int, count: int) -> list[int]:
    """Return the numbers of a list such as 42-45,50, ascending."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = [first, last if dash else first]
        if not all(end.isascii() and end.isdigit() and len(end) <= 10 and int(end) <= most for end in ends):
            raise InputError(f"{flag} {text}: {part!r} is no number from 0 to {most}", hint="such as 42 or 42-45,50")
        begin, end = map(int, ends)
        if begin > end:
            raise InputError(f"{flag} {text}: {part!r} begins after its end")
        if end - begin >= count or len(found) > count:
            raise InputError(f"{flag} {text}: more than {count} numbers")
        found.update(range(begin, end + 1))
    return sorted(found)


def _check_target(curves: Path) -> None:
    """Refuse a file that could not be written, before minutes of work are done for it."""
    if curves.suffix.lower() != ".svg":
        raise InputError(f"--curves {path_name(curves)}: the drawing is SVG", hint="give it a name that ends in .svg")
    if curves.is_dir() or not curves.absolute().parent.is_dir():
        raise InputError(f"--curves {path_name(curves)}: not a file in a folder that exists")


def _subtitle(folder: Path, gpus: int, seeds: Sequence[int]) -> str:
    runs = f"mean of {plural(len(seeds), 'seed')}" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"Trace {folder.absolute().name}: {gpus:,} GPUs; {runs}"
