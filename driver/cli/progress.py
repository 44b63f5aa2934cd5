"""Shows progress on a terminal while a command takes its time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["progress"]

_QUIET_FOR_S: Final = 1.5


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Show on standard error that something goes on: on a terminal alone, not before 1.5 s, and gone at the end.

    It is shown from a thread of its own, so that what runs within need not call anything.

    Args:
        what: What is done, such as ``reading the dump``.
        total: How many steps there are; None where that is not known.

    Yields:
        What to call after each step.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    # Imported here: most runs are not shown, and rich takes a tenth of a second.
    from rich import progress as bars  # noqa: PLC0415 - as said above

    from driver.cli.render import console  # noqa: PLC0415 - as said above

    counted = () if total is None else (bars.BarColumn(), bars.MofNCompleteColumn())
    described = bars.TextColumn("{task.description}", markup=False)
    shown = bars.Progress(
        *(bars.SpinnerColumn(), described, *counted, bars.TimeElapsedColumn()),
        console=console(stderr=True),
        transient=True,
    )
    task = shown.add_task(what, total=total)
    later = threading.Timer(_QUIET_FOR_S, shown.start)
    later.daemon = True
    later.start()
    try:
        yield lambda: shown.advance(task)
    finally:
        later.cancel()
        later.join()  # it may just be about to start
        shown.stop()
