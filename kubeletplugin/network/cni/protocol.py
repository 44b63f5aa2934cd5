"""The protocol between ``rootport-cni`` and the kubelet plugin: one JSON object each way, over a unix socket.

The program sends a :class:`Call` and closes its side; the answer is ``{"version": 1, "result": {}}`` or
``{"version": 1, "error": {"cniVersion", "code", "msg"}}``, whose error object the program prints as it is. The network
configuration stays with the program: nothing here depends on it. During an update of the plugin the program on the host
may be older or newer than the plugin, so a field may be added but none removed or given another meaning; what cannot be
told so is another version.
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from driver.api.validation.wording import field_errors
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


def _plain_path(path: str) -> str:
    if path and (not path.startswith("/") or "\0" in path or ".." in path.split("/")):
        raise ValueError("must be an absolute path without '..'")
    return path


class Call(BaseModel):
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

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    version: Literal[1]
    command: Literal["ADD", "DEL", "CHECK"]
    cni_version: Annotated[str, Field(alias="cniVersion", pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] = _OLDEST
    container_id: Annotated[str, Field(alias="containerID", max_length=256)] = ""
    netns: Annotated[str, StringConstraints(max_length=4096), AfterValidator(_plain_path)] = ""
    if_name: Annotated[str, Field(alias="ifName", max_length=256)] = ""
    pod_uid: Annotated[str, Field(alias="podUID", pattern=r"^[0-9a-fA-F-]{1,64}$")]
    pod_namespace: Annotated[str, Field(alias="podNamespace", max_length=256)] = ""
    pod_name: Annotated[str, Field(alias="podName", max_length=256)] = ""

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
        return Call.model_validate(call)
    except ValidationError as error:
        problems = "; ".join(map(str, field_errors(error, path="call", with_input=False)))
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
