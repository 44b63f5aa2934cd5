"""What the API server refuses, or why it cannot be reached, as errors that say what was asked and what to do next."""

from __future__ import annotations

from typing import ClassVar

from driver.errors import RootportError

__all__ = [
    "AlreadyExistsError",
    "ApiServerError",
    "ConflictError",
    "ExpiredError",
    "ForbiddenError",
    "InvalidError",
    "NamespaceTerminatingError",
    "NotFoundError",
    "TooLargeError",
    "UnavailableError",
]


class ApiServerError(RootportError):
    """The API server did not do what it was asked; the subclasses say why.

    Attributes:
        status: The HTTP status; None where no answer came.
        reason: The machine-readable reason, such as ``AlreadyExists``; empty where there is none.
        causes: One sentence for each field at fault, where the server names some.
    """

    default_hint: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        reason: str = "",
        causes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint or self.default_hint)
        self.status = status
        self.reason = reason
        self.causes = causes


class NotFoundError(ApiServerError):
    """No such object (404), or the API server does not know its kind."""


class NamespaceTerminatingError(NotFoundError):
    """The namespace is being deleted (403 on create): soon nothing of it is there, so nobody needs to be warned."""

    default_hint = "make it in another namespace, or again once this one is gone"


class AlreadyExistsError(ApiServerError):
    """An object of that name is there already (409 on create)."""


class ConflictError(ApiServerError):
    """Somebody else changed the object, a precondition does not hold, or another manager owns a field (409)."""

    default_hint = "read it again and decide anew"


class ExpiredError(ApiServerError):
    """The resource version, or the continue token, is older than the API server remembers (410): list anew."""


class ForbiddenError(ApiServerError):
    """These credentials may not do that (403), or are not accepted at all (401)."""


class InvalidError(ApiServerError):
    """The request or the object is wrong (400, 413, 422): a retry fails again."""


class TooLargeError(ApiServerError):
    """The answer is longer than what is read."""


class UnavailableError(ApiServerError):
    """No connection, no answer in time, or a server that is too busy or broken for now (429, 5xx): retry later.

    Attributes:
        retry_after_s: The shortest wait that the server asks for; None where it does not say.
    """

    retry_helps = True

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        reason: str = "",
        causes: tuple[str, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint, status=status, reason=reason, causes=causes)
        self.retry_after_s = retry_after_s
