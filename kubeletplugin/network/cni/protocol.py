"""The protocol between ``rootport-cni`` and the kubelet plugin: one JSON object each way, over a unix socket.

The program sends a :class:`Call` and closes its side; the answer is ``{"version": 1, "result": {}}`` or
``{"version": 1, "error": {"cniVersion", "code", "msg"}}``, whose error object the program prints as it is. The network
configuration stays with the program: nothing here depends on it. During an update of the plugin the program on the host
may be older or newer than the plugin, so a field may be added but none removed or given another meaning; what cannot be
told so is another version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Literal

from driver.api.strict import StrictError, read, rule
from driver.bounded_json import JsonError, parse_foreign_json
from driver.errors import InputError, RootportError

__all__ = ["MAX_CALL_BYTES", "Call", "CniErrorCode", "error_answer", "read_call", "success_answer"]

VERSION: Final = 1
MAX_CALL_BYTES: Final = 256 * 1024
"""More than the program can send: it refuses environment variables of more than 4096 bytes."""

_OLDEST: Final = "0.3.0"
_MAX_MESSAGE: Final = 4096


class CniErrorCode(IntEnum):
    """Codes of error objects: the specification's own below 100, ours from there on."""

    BAD_ENVIRONMENT = 4
    BAD_CALL = 6
    TRY_LATER = 11
    REFUSED = 100
    BUG = 101


def _plain_path(path: str, _fields: Mapping[str, Any]) -> str:
    if path and (not path.startswith("/") or "\0" in path or ".." in path.split("/")):
        raise ValueError("must be an absolute path without '..'")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the container runtime.

    Attributes:
        version: Of this protocol.
        command: What the runtime wants.
        cni_version: The specification's version that an error object names.
        container_id: The pod sandbox's id at the runtime.
        netns: The path of the pod's network namespace on the host; empty where it is gone already (DEL).
        if_name: The name of the pod's first interface.
        pod_uid: The pod.
        pod_namespace: As above, for messages.
        pod_name: As above.
    """

    version: Literal[1]
    command: Literal["ADD", "DEL", "CHECK"]
    cni_version: str = rule(default=_OLDEST, name="cniVersion", pattern=r"[0-9]+\.[0-9]+\.[0-9]+")
    container_id: str = rule(default="", name="containerID", longest=256)
    netns: str = rule(default="", longest=4096, check=_plain_path)
    if_name: str = rule(default="", name="ifName", longest=256)
    pod_uid: str = rule(name="podUID", pattern=r"[0-9a-fA-F-]{1,64}")
    pod_namespace: str = rule(default="", name="podNamespace", longest=256)
    pod_name: str = rule(default="", name="podName", longest=256)

    @property
    def pod(self) -> str:
        """The pod, as messages name it."""
        return f"pod {self.pod_namespace}/{self.pod_name} (uid {self.pod_uid})"


def read_call(content: bytes) -> Call:
    """Parse what a client sent.

    Raises:
        InputError: It is none, or of a version that is not spoken here.
    """
    try:
        # A byte that is no UTF-8 is no reason to fail a DEL: where it matters, the rules below refuse it.
        call, _ = parse_foreign_json(content, max_bytes=MAX_CALL_BYTES)
        return read(Call, call, path="call", ignore_unknown=True)
    except StrictError as error:
        problems = "; ".join(map(str, error.errors))
        raise InputError(f"the call of rootport-cni is not understood: {problems}") from error
    except JsonError as error:
        raise InputError("the call of rootport-cni is no JSON object") from error


def success_answer() -> bytes:
    """Return the answer to a call that succeeded."""
    return json.dumps({"version": VERSION, "result": {}}).encode()


def error_answer(error: RootportError | str, code: CniErrorCode, call: Call | None) -> bytes:
    """Return the answer to a call that failed.

    Args:
        error: The text for the pod's event FailedCreatePodSandbox. libcni shows ``msg`` alone for sure, so all of it
            stands there (containernetworking/cni, pkg/types, ``Error``).
        code: What kind of error it is.
        call: The call; None where it could not be read.
    """
    version = call.cni_version if call is not None else _OLDEST
    message = str(error)[:_MAX_MESSAGE]
    return json.dumps(
        {"version": VERSION, "error": {"cniVersion": version, "code": int(code), "msg": message}}
    ).encode()
