"""Methods as gRPC knows them, without its transport: messages in frames of their own, status codes, errors."""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from urllib.parse import quote, unquote

__all__ = [
    "MESSAGE_HEAD",
    "Call",
    "Method",
    "RpcError",
    "Status",
    "framed",
    "message_in",
    "percent_decoded",
    "percent_encoded",
    "streaming",
    "unary",
]

MESSAGE_HEAD: Final = struct.Struct(">BI")
"""Before each message: whether it is compressed, and its length."""

_PLAIN: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""What stands for itself in ``grpc-message``, beside letters and digits."""


class Status(enum.IntEnum):
    """The status codes that are used here (github.com/grpc/grpc, doc/statuscodes.md)."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class RpcError(Exception):
    """A call failed as a whole.

    Args:
        status: Why.
        message: For a person.
    """

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(f"{status.name}: {message}")
        self.status = status
        self.message = message


class Call(Protocol):
    """What a method that streams knows of its caller."""

    def on_gone(self, callback: Callable[[], None]) -> bool:
        """Have something called, once, when the caller gives up or is gone; False if it is already."""
        ...


class Message(Protocol):
    """A message of protobuf."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        """Return the message's bytes."""
        ...


_Request = TypeVar("_Request")


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service.

    Attributes:
        answer: Returns the answers to a request, as bytes; a unary method has one.
        streams: Whether it may have any number of them.
    """

    answer: Callable[[bytes, Call], Generator[bytes]]
    streams: bool


def unary(parse: Callable[[bytes], _Request], answer: Callable[[_Request], Generator[Message]]) -> Method:
    """Return a method with one answer.

    Args:
        parse: The request's ``FromString``.
        answer: Yields the answer; may raise an RpcError instead. What it does after that, nobody waits for.
    """

    def answers(request: bytes, _: Call) -> Generator[bytes]:
        with closing(answer(_parsed(parse, request))) as messages:
            for message in messages:
                yield message.SerializeToString()

    return Method(answers, streams=False)


def streaming(parse: Callable[[bytes], _Request], answer: Callable[[_Request, Call], Generator[Message]]) -> Method:
    """Return a method with any number of answers; the iterator is closed when the caller is gone.

    Args:
        parse: As for :func:`unary`.
        answer: Likewise.
    """

    def answers(request: bytes, call: Call) -> Generator[bytes]:
        with closing(answer(_parsed(parse, request), call)) as messages:
            for message in messages:
                yield message.SerializeToString()

    return Method(answers, streams=True)


def framed(message: bytes) -> bytes:
    """Return a message as it stands in the stream."""
    return MESSAGE_HEAD.pack(0, len(message)) + message


def message_in(content: bytes) -> bytes:
    """Return the one message of a stream.

    Raises:
        RpcError: It is compressed, cut off, or not alone.
    """
    if len(content) < MESSAGE_HEAD.size:
        raise RpcError(Status.INTERNAL, "there is no message")
    is_compressed, length = MESSAGE_HEAD.unpack_from(content)
    if is_compressed:
        raise RpcError(Status.UNIMPLEMENTED, "compressed messages are not read")
    if len(content) != MESSAGE_HEAD.size + length:
        raise RpcError(Status.INTERNAL, "there is not exactly one message")
    return content[MESSAGE_HEAD.size :]


def percent_encoded(message: str) -> bytes:
    """Return a message as ``grpc-message`` has it."""
    return quote(message, safe=_PLAIN).encode()


def percent_decoded(value: bytes) -> str:
    """Return what :func:`percent_encoded` was given."""
    return unquote(value.decode("latin-1"), errors="replace")


def _parsed(parse: Callable[[bytes], _Request], request: bytes) -> _Request:
    try:
        return parse(request)
    except Exception as error:
        raise RpcError(Status.INTERNAL, f"the request cannot be read: {error}") from error
