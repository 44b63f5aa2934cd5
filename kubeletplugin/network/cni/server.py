"""Serves ``rootport-cni``: the container runtime's calls for pods that have network interfaces lent to them.

The newest process on a node owns the socket; the one before goes on with what it has been asked. A process that ends
leaves a newer one's socket alone. Every thread is a daemon: a call that hangs never keeps the process from ending, and
since calls are idempotent, the program asks the next process again.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from driver.adapters.files.durable_files import os_errors_as_node_errors
from driver.errors import NodeError, RootportError
from kubeletplugin.grpc_server.sockets import PluginSocket, is_served
from kubeletplugin.internal_errors import InternalError, guarded, internal_error
from kubeletplugin.network.cni.protocol import (
    MAX_CALL_BYTES,
    Call,
    CniErrorCode,
    error_answer,
    read_call,
    success_answer,
)
from kubeletplugin.operation import log_line
from kubeletplugin.state.file_lock import FileLock

__all__ = ["CniServer", "Lender"]

_LOG: Final = logging.getLogger(__name__)
_MAX_CALLS: Final = 64
_READ_S: Final = 5.0
_UCRED: Final = struct.Struct("iII")  # struct ucred of unix(7): pid, uid, gid


class Lender(Protocol):
    """Moves the interfaces that are lent to a pod. Every method is idempotent, and does what a killed call left."""

    def attach(self, pod_uid: str, netns: str) -> None:
        """Move them into the pod's network namespace.

        Raises:
            NodeError: What is in the way: which claim, which device, and what helps.
        """
        ...

    def detach(self, pod_uid: str, netns: str | None) -> None:
        """Bring them back to the host; the namespace is None where the runtime no longer knows it.

        Raises:
            NodeError: As above.
        """
        ...

    def check(self, pod_uid: str, netns: str) -> None:
        """Look whether they are in the pod's network namespace.

        Raises:
            NodeError: One is not.
        """
        ...


class CniServer:
    """The server of ``<state_dir>/cni.sock``.

    Args:
        state_dir: The folder that ``rootport-cni`` was compiled for, as this process sees it; made where missing.
        lender: Does the work.
        call_timeout_s: Seconds after which a call is answered with "try again later"; the work goes on. Below what
            ``rootport-cni`` waits for an answer (40 s).
        peer_uid: Whose processes may call.
    """

    def __init__(self, state_dir: Path, lender: Lender, *, call_timeout_s: float = 30.0, peer_uid: int = 0) -> None:
        self._socket = PluginSocket(path=state_dir / "cni.sock")
        self._lender = lender
        self._call_timeout_s = call_timeout_s
        self._peer_uid = peer_uid
        self._ownership = FileLock(state_dir / "cni.lock", holder=f"process {os.getpid()}")
        self._calls = threading.BoundedSemaphore(_MAX_CALLS)
        self._listener: socket.socket | None = None
        self._shown: os.stat_result | None = None
        self._ended = False

    def start(self) -> None:
        """Take the socket over, from whoever has it, and serve it.

        Raises:
            NodeError: The folder cannot be written, or another process does not let go of its lock.
        """
        with os_errors_as_node_errors(f"the socket {self._socket.path} cannot be made"):
            self._socket.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with self._ownership.held(), os_errors_as_node_errors(f"the socket {self._socket.path} cannot be made"):
            if self._ended:
                return  # a check that ran beside stop() must not leave the socket of a process that ends
            self._close()
            self._listener = self._listening()
            self._shown = self._socket.show()
        threading.Thread(target=self._accept, args=(self._listener,), name="cni-accept", daemon=True).start()

    def check(self) -> None:
        """Serve again if no process does: the newer one that took the socket over has ended.

        Raises:
            NodeError: As for :meth:`start`.
        """
        if not is_served(self._socket.path):
            _LOG.info("%s", log_line(event="cni-socket-taken", path=self._socket.path))
            self.start()

    def stop(self) -> None:
        """Take no more calls, for good; those that were taken go on until the process ends."""
        self._ended = True
        with suppress(NodeError), self._ownership.held():
            if self._shown is not None:
                self._socket.remove(self._shown)
        self._close()

    def _close(self) -> None:
        listener, self._listener, self._shown = self._listener, None, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() does not
            listener.close()

    def _listening(self) -> socket.socket:
        self._socket.hidden.unlink(missing_ok=True)  # of a process that was killed: nobody else has the lock
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(os.fspath(self._socket.hidden))
            listener.listen(_MAX_CALLS)
        except OSError:
            listener.close()
            raise
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                if listener is not self._listener:
                    return  # closed by stop(), or by a start() anew
                _LOG.exception("a connection of rootport-cni cannot be accepted")
                threading.Event().wait(1)  # no descriptors left: a hot loop frees none
                continue
            if not self._calls.acquire(blocking=False):
                busy = f"the plugin is at work on {_MAX_CALLS} calls of rootport-cni already"
                _send(connection, error_answer(busy, CniErrorCode.TRY_LATER, None))
                continue
            try:
                threading.Thread(target=self._serve, args=(connection,), name="cni-call", daemon=True).start()
            except RuntimeError:
                # Without this thread nobody would ever accept again, and the socket would still look served.
                _LOG.exception("no thread can be started for a call of rootport-cni")
                self._calls.release()
                busy = "the plugin's container has reached its limit of processes and threads"
                _send(connection, error_answer(busy, CniErrorCode.TRY_LATER, None))

    def _serve(self, connection: socket.socket) -> None:
        """Answer one connection, and let its place go."""
        try:
            with guarded("cni", "a connection of rootport-cni"):
                content = _received(connection) if self._may_call(connection) else None
                if content is None:
                    connection.close()  # a look whether somebody listens, or a program that was killed
                    return
                answer = self._answer(connection, content)
                if answer is not None:
                    _send(connection, answer)
        except InternalError as error:
            _send(connection, error_answer(error, CniErrorCode.BUG, None))
        finally:
            self._calls.release()

    def _may_call(self, connection: socket.socket) -> bool:
        _, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        return bool(uid == self._peer_uid)

    def _answer(self, connection: socket.socket, content: bytes) -> bytes | None:
        """Return the answer; None if it came too late and another was sent."""
        try:
            call = read_call(content)
        except RootportError as error:
            _LOG.warning("%s", log_line(event="cni-call-refused", error=str(error)))
            return error_answer(error, CniErrorCode.BAD_CALL, None)
        once = threading.Lock()
        timer = threading.Timer(self._call_timeout_s, self._give_up, args=(connection, call, once))
        timer.daemon = True
        timer.start()
        try:
            answer = self._done(call)
        finally:
            timer.cancel()
        return answer if once.acquire(blocking=False) else None

    def _give_up(self, connection: socket.socket, call: Call, once: threading.Lock) -> None:
        if once.acquire(blocking=False):
            late = (
                f"{call.pod}: its network interfaces are not moved yet after {self._call_timeout_s:g} s "
                f"(the kubelet tries again; if this stays, look at the log of Rootport's kubelet plugin on this node)"
            )
            _LOG.warning("%s", log_line(event="cni-call-late", command=call.command, pod=call.pod_uid))
            _send(connection, error_answer(late, CniErrorCode.TRY_LATER, call))

    def _done(self, call: Call) -> bytes:
        outcome = "failed"
        try:
            if call.command == "DEL":
                self._lender.detach(call.pod_uid, call.netns or None)
            elif not call.netns:
                return error_answer(
                    f"{call.pod}: the runtime has named no network namespace", CniErrorCode.BAD_ENVIRONMENT, call
                )
            elif call.command == "ADD":
                self._lender.attach(call.pod_uid, call.netns)
            else:
                self._lender.check(call.pod_uid, call.netns)
            outcome = "done"
            return success_answer()
        except RootportError as error:
            outcome = str(error)
            code = CniErrorCode.TRY_LATER if error.retry_helps else CniErrorCode.REFUSED
            return error_answer(error, code, call)
        except Exception as error:  # noqa: BLE001 - the last line of defence of a thread: told, never swallowed
            outcome = "failed unexpectedly"
            return error_answer(internal_error("cni", call.pod, error), CniErrorCode.BUG, call)
        finally:
            _LOG.info(
                "%s",
                log_line(
                    event="cni-call",
                    command=call.command,
                    pod=f"{call.pod_namespace}/{call.pod_name}",
                    uid=call.pod_uid,
                    container=call.container_id,
                    outcome=outcome,
                ),
            )


def _received(connection: socket.socket) -> bytes | None:
    """Return all that a client sends within a few seconds; None if it sends nothing, too much or too slowly."""
    connection.settimeout(_READ_S)
    received = bytearray()
    try:
        while piece := connection.recv(MAX_CALL_BYTES + 1 - len(received)):
            received += piece
    except OSError:
        return None
    return bytes(received) if 0 < len(received) <= MAX_CALL_BYTES else None


def _send(connection: socket.socket, answer: bytes) -> None:
    """Send an answer; a client that has gone asks again."""
    with connection, suppress(OSError):
        connection.settimeout(_READ_S)
        connection.sendall(answer)
