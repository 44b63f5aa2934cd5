"""The errors of calls to the API server: what was asked, why it failed, and what to do next."""

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
        status: The HTTP status; None if no answer came.
        reason: The machine-readable reason, such as ``AlreadyExists``; empty if there is none.
        causes: One sentence for each field at fault that the server names.
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
    """There is no such object (404), or the API server does not know its kind."""


class NamespaceTerminatingError(NotFoundError):
    """The namespace is being deleted (403 on create): its objects will be gone soon, so no warning is needed."""

    default_hint = "make it in another namespace, or again once this one is gone"


class AlreadyExistsError(ApiServerError):
    """An object of that name exists already (409 on create)."""


class ConflictError(ApiServerError):
    """Another client changed the object, a precondition fails, or another manager owns a field (409)."""

    default_hint = "read it again and decide anew"


class ExpiredError(ApiServerError):
    """The resource version, or the continue token, is older than the API server remembers (410): list again."""


class ForbiddenError(ApiServerError):
    """These credentials do not allow the request (403), or are not accepted at all (401)."""


class InvalidError(ApiServerError):
    """The request or the object is not valid (400, 413, 422): a retry fails again."""


class TooLargeError(ApiServerError):
    """The answer is longer than the limit."""


class UnavailableError(ApiServerError):
    """There was no connection or no answer in time, or the server is too busy or broken (429, 5xx): retry later.

    Attributes:
        retry_after_s: The shortest wait that the server asks for; None if it names none.
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
