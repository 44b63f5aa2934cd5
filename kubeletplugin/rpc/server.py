"""Serves methods on unix sockets. Whichever thread reads a call answers it, while another one reads on.

So an answer costs no hand-over to another thread. How many calls are answered at once is up to each method's lane: what
waits for something that may be away has a lane of its own.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kubeletplugin.rpc.peer import Incoming, Peer
from kubeletplugin.rpc.service import Method, RpcError, Status

__all__ = ["Lane", "RpcServer"]

_LOG: Final = logging.getLogger(__name__)
_MOST_PEERS: Final = 32
_IDLE_THREADS: Final = 4
"""Of one connection: the kubelet prepares some pods at once, and a thread takes time to start."""


class Lane:
    """Bounds how many calls of some methods are answered at once; the others wait in their order.

    Args:
        at_once: How many are answered.
        waiting: How many may wait; who comes after them is refused.
    """

    def __init__(self, at_once: int, *, waiting: int = 512) -> None:
        self._free = at_once
        self._most = waiting
        self._lock = threading.Lock()
        self._waiting: deque[Incoming] = deque()

    def enter(self, call: Incoming) -> bool:
        """Whether a call is to be answered now. If not, :meth:`leave` will return it, or it is refused.

        Raises:
            RpcError: Too many wait.
        """
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            if len(self._waiting) >= self._most:
                raise RpcError(Status.RESOURCE_EXHAUSTED, f"{self._most} calls wait already")
            self._waiting.append(call)
            return False

    def leave(self) -> Incoming | None:
        """Return the call that is to be answered in place of one that is over; None if none waits."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._free += 1
            return None


class RpcServer:
    """Serves the same methods on several sockets.

    Args:
        methods: The methods and their lanes, by ``/<service>/<method>``.
        name: Of the threads.
        max_request: Bytes of a request's message.
    """

    def __init__(self, methods: Mapping[str, tuple[Method, Lane]], *, name: str, max_request: int) -> None:
        self._methods = {path.encode(): each for path, each in methods.items()}
        self._name = name
        self._max_request = max_request
        self._lock = threading.Lock()
        self._over = threading.Condition(self._lock)
        self._listeners: list[socket.socket] = []
        self._peers: set[Peer] = set()
        self._running = 0
        self._stopping = False

    def listen(self, path: Path) -> None:
        """Bind a socket and let clients connect to it; they are answered from :meth:`start` on.

        Raises:
            OSError: It cannot be bound.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(os.fspath(path))
            listener.listen()
        except BaseException:
            listener.close()
            raise
        self._listeners.append(listener)

    def start(self) -> None:
        """Answer."""
        for listener in self._listeners:
            self._spawn(lambda listener=listener: self._accept(listener))  # type: ignore[misc]

    def drain(self) -> None:
        """Take no further calls; those that run go on."""
        with self._lock:
            self._stopping = True
            peers = tuple(self._peers)
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for peer in peers:
            peer.go_away()

    def close(self, grace_s: float) -> None:
        """Wait for the calls that run, after :meth:`drain`, and end all connections.

        Args:
            grace_s: Seconds; what runs longer is given up for the client.
        """
        with self._over:
            self._over.wait_for(lambda: self._running == 0, grace_s)
            peers = tuple(self._peers)
        for peer in peers:
            peer.close()

    def _spawn(self, target: Callable[[], None]) -> None:
        threading.Thread(target=target, name=self._name, daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError as error:
                if self._stopping:
                    return
                _LOG.warning("a connection cannot be accepted", extra={"error": error})
                time.sleep(0.1)  # such as too many open files
                continue
            peer = Peer(client, max_request=self._max_request, known=self._methods.__contains__)
            with self._lock:
                refused = self._stopping or len(self._peers) >= _MOST_PEERS
                if not refused:
                    self._peers.add(peer)
            if refused:
                peer.close()
            else:
                self._serve_in_new_thread(peer)

    def _serve_in_new_thread(self, peer: Peer) -> None:
        with self._lock:
            peer.readers += 1
        self._spawn(lambda: self._serve(peer))

    def _serve(self, peer: Peer) -> None:
        """Read a call, answer it, and so on, in turn with the connection's other threads."""
        while True:
            with peer.reading:
                call = self._next(peer)
            with self._lock:
                peer.readers -= 1
                is_last = peer.readers == 0
                if call is None and is_last:
                    self._peers.discard(peer)
            if call is None:
                peer.close()
                return
            if is_last:
                self._serve_in_new_thread(peer)
            self._answer(call)
            with self._lock:
                if peer.readers >= _IDLE_THREADS:
                    return
                peer.readers += 1

    def _next(self, peer: Peer) -> Incoming | None:
        """Return the next call to be answered by this thread; None if the connection ended."""
        while (call := peer.next_call()) is not None:
            with self._lock:
                refused = self._stopping
                if not refused:
                    self._running += 1
            if refused:
                call.fail(RpcError(Status.UNAVAILABLE, "the plugin is ending"))
                continue
            try:
                if self._methods[call.path][1].enter(call):
                    return call
            except RpcError as error:
                call.fail(error)
                self._ended()
        return None

    def _answer(self, first: Incoming) -> None:
        call: Incoming | None = first
        while call is not None:
            method, lane = self._methods[call.path]
            try:
                call.answer(method)
            finally:
                self._ended()
                call = lane.leave()

    def _ended(self) -> None:
        with self._over:
            self._running -= 1
            if self._running == 0:
                self._over.notify_all()
