"""Runs the plugin until a signal ends the process."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Final

from driver import __version__
from kubeletplugin import heap
from kubeletplugin.options import Options
from kubeletplugin.process.plugin import OUTDATED_SIGNAL, Plugin

__all__ = ["run"]

_LOG: Final = logging.getLogger(__name__)
_LAST_MOMENT_S: Final = 9.0
_SWITCH_S: Final = 0.0005
_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, OUTDATED_SIGNAL})


def run(options: Options) -> int:
    """Run the plugin until a signal ends it.

    Args:
        options: Checked already.

    Returns:
        The exit code.

    Raises:
        RootportError: It cannot be started.
    """
    # Signals wait in a queue for sigwait() below: no handler runs in the middle of something else. Threads inherit it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    _LOG.info("starting", extra={"version": __version__, "node": options.node, "instance": options.instance})
    heap.set_up_malloc()
    # Pods start several at a time. With the interpreter's 5 ms, a call that has its answer from the API server would
    # wait that long for each other one that is computing.
    sys.setswitchinterval(_SWITCH_S)
    plugin = Plugin(options)
    plugin.start()
    heap.give_back()
    code = None
    while code is None:
        received = signal.sigwait(_SIGNALS)
        if received == signal.SIGHUP:
            plugin.discover_now()
        else:
            code = 1 if received == OUTDATED_SIGNAL else 0
    _LOG.info("stopping", extra={"signal": signal.Signals(received).name})
    # Whatever a thread waits for, the end comes in time; all that counts is on disk at any moment.
    last_moment = threading.Timer(_LAST_MOMENT_S, os._exit, [code])
    last_moment.daemon = True
    last_moment.start()
    plugin.stop()
    _LOG.info("stopped")
    return code
