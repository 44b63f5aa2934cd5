"""Runs replays in several processes, and leaves none of them behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Final

from driver.errors import NodeError
from driver.placement.engine import Engine
from driver.placement.mix import Mix
from driver.placement.policies import POLICIES
from driver.placement.replay.comparison import Result
from driver.placement.replay.run import replay
from driver.placement.replay.sequence import arrivals
from driver.placement.replay.trace import Trace

__all__ = ["Task", "Timed", "run_all"]

_MOST_RANKED: Final = 4_000_000
"""200 kinds of pods on 20,000 nodes: some 500 MB."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is run: a workload with a policy and a seed."""

    workload: str
    policy: str
    seed: int


@dataclass(frozen=True, slots=True)
class Timed:
    """A result, and the processor time that it took."""

    result: Result
    seconds: float


def run_all(trace: Trace, tasks: Sequence[Task], jobs: int, step: Callable[[], None]) -> list[Timed]:
    """Run all tasks, and return their results in the same order.

    Args:
        trace: Nodes and workloads.
        tasks: What to run.
        jobs: How many processes; 1 for none but this one.
        step: Called after each run.

    Raises:
        InputError: A workload cannot be run on this cluster.
        NodeError: A process was killed from outside.
    """
    if min(jobs, len(tasks)) <= 1:
        done: list[Timed] = []
        for task in tasks:
            done.append(_run(trace, task))
            step()
        return done
    # Not by fork: the progress on the terminal is shown from a thread.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), context, _begin, (trace,))
    try:
        futures = [pool.submit(_run_here, task) for task in tasks]
        for future in as_completed(futures):
            future.result()
            step()
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise NodeError(
            "a process that ran a part of it was ended", hint="use fewer --jobs if memory is short"
        ) from error
    finally:
        # After Ctrl-C or an error nobody waits for what still runs.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


_trace: list[Trace] = []
"""Of a process that was begun: what it runs parts of."""


def _begin(trace: Trace) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent ends it
    parent = multiprocessing.parent_process()
    if parent is not None:

        def end_with_parent() -> None:
            wait([parent.sentinel])
            os._exit(1)

        threading.Thread(target=end_with_parent, daemon=True).start()
    _trace.append(trace)


def _run_here(task: Task) -> Timed:
    return _run(_trace[0], task)


def _run(trace: Trace, task: Task) -> Timed:
    began = time.process_time()
    pods = trace.workloads[task.workload]
    mix = Mix.of(pod.shape for pod in pods)
    engine = Engine(POLICIES[task.policy], mix, most_ranked=_MOST_RANKED)
    run = replay(arrivals(trace.nodes, pods, task.seed), engine, mix)
    return Timed(Result(task.workload, task.policy, task.seed, run), time.process_time() - began)
