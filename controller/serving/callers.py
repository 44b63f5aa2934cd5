"""Who asks, and whether they may: answered by the API server (TokenReview and SubjectAccessReview).

Sources: k8s.io/api v0.36.3, authentication/v1 and authorization/v1.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from controller.serving.exchange import Request
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import UnavailableError
from driver.adapters.kubernetes.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, JsonObject

__all__ = ["Caller", "Callers", "NotAuthenticatedError"]

_T = TypeVar("_T")

_KEPT_S: Final = 10.0  # as long as the API server itself keeps what an authentication webhook said
_MAX_KEPT: Final = 1024
_MAX_TOKEN: Final = 16 * 1024
_QUESTIONS_A_SECOND: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A user whom the API server knows.

    Attributes:
        username: Such as ``system:serviceaccount:default:ci``.
        uid: The user's, where there is one.
        groups: The user's groups.
        extra: What else the authenticator says.
    """

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class NotAuthenticatedError(Exception):
    """The request has no bearer token, or one that the API server does not accept: answer 401 with the text."""


class Callers:
    """Asks the API server about callers; answers are kept for 10 seconds. Safe for threads.

    Args:
        api: With the right to create tokenreviews and subjectaccessreviews.
        clock: Monotonic seconds.
    """

    def __init__(self, api: KubernetesApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._questions = _Questions(clock)
        self._callers: _Kept[Caller | None] = _Kept(clock)
        self._rights: _Kept[bool] = _Kept(clock)

    def caller(self, request: Request) -> Caller:
        """Who sent a request, by its header ``Authorization: Bearer TOKEN``.

        Raises:
            NotAuthenticatedError: Nobody that the API server knows.
            ApiServerError: The API server cannot be asked, or is asked too much.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise NotAuthenticatedError(
                "expected the header Authorization: Bearer TOKEN; kubectl create token makes one"
            )
        if len(token) > _MAX_TOKEN:
            raise NotAuthenticatedError("the token is too long")
        # No token is kept, not even in memory.
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        found = self._callers.get(key, lambda: self._review(token))
        if found is None:
            raise NotAuthenticatedError("the API server does not accept the token; it may have ended")
        return found

    def may(self, caller: Caller, verb: str, resource: str, *, group: str, namespace: str = "", name: str = "") -> bool:
        """Whether the caller has a right, as ``kubectl auth can-i`` tells.

        Args:
            caller: From :meth:`caller`.
            verb: Such as ``get``.
            resource: Plural, such as ``resourceclaims``.
            group: API group; empty for the core one.
            namespace: Empty means in all namespaces.
            name: Empty means any name.

        Raises:
            ApiServerError: The API server cannot be asked, or is asked too much.
        """
        attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace, "name": name}
        extra = {key: list(values) for key, values in caller.extra.items()}
        spec: JsonObject = {
            "resourceAttributes": {key: value for key, value in attributes.items() if value},
            "user": caller.username,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": extra,
        }
        who = (caller.username, caller.uid, caller.groups, tuple(sorted(caller.extra.items())))
        return self._rights.get((who, *attributes.values()), lambda: self._access(spec))

    def _review(self, token: str) -> Caller | None:
        self._questions.ask()
        status = self._api.create(TOKEN_REVIEWS, {"spec": {"token": token}}).get("status") or {}
        user = status.get("user") or {}
        if status.get("authenticated") is not True or not user.get("username"):
            return None
        return Caller(
            username=str(user["username"]),
            uid=str(user.get("uid") or ""),
            groups=tuple(user.get("groups") or ()),
            extra={key: tuple(values or ()) for key, values in (user.get("extra") or {}).items()},
        )

    def _access(self, spec: JsonObject) -> bool:
        self._questions.ask()
        status = self._api.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec}).get("status") or {}
        return status.get("allowed") is True


class _Questions:
    """Bounds what anybody with made-up tokens can make us ask the API server."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._second = 0
        self._asked = 0

    def ask(self) -> None:
        with self._lock:
            second = int(self._clock())
            if second != self._second:
                self._second, self._asked = second, 0
            self._asked += 1
            if self._asked > _QUESTIONS_A_SECOND:
                raise UnavailableError("too many callers at once", hint="try again in a second", retry_after_s=1.0)


class _Kept(Generic[_T]):
    """Answers of the last seconds, a bounded number of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[float, _T]] = OrderedDict()

    def get(self, key: Hashable, ask: Callable[[], _T]) -> _T:
        with self._lock:
            at, answer = self._answers.get(key, (None, None))
            if at is not None and self._clock() < at + _KEPT_S:
                return answer  # type: ignore[return-value]
        answer = ask()
        with self._lock:
            self._answers[key] = (self._clock(), answer)
            self._answers.move_to_end(key)
            while len(self._answers) > _MAX_KEPT:
                self._answers.popitem(last=False)
        return answer
