"""Authenticates and authorizes callers by the API server: TokenReview and SubjectAccessReview.

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

from controller.serving.buckets import Buckets, Rate
from driver.adapters.http.exchange import Request
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import UnavailableError
from driver.adapters.kubernetes.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, JsonObject

__all__ = ["Caller", "Callers", "NotAuthenticatedError"]

_T = TypeVar("_T")

_KEPT_S: Final = 10.0  # as long as the API server itself caches the answers of an authentication webhook
_MAX_KEPT: Final = 1024
_MAX_TOKEN: Final = 16 * 1024

# Reviews of unknown tokens: of one client address, and of all. After a pause an address may use its burst.
_OF_SOURCE: Final = Rate(a_second=10, at_once=50)
_OF_STRANGERS: Final = Rate(a_second=50, at_once=100)
_STRANGERS_AT_ONCE: Final = 8  # a slow API server must not have all threads wait for its answers about them
# Reviews of tokens that were accepted lately are not among them: for each such token, and for its user's rights.
_OF_KNOWN: Final = Rate(a_second=1, at_once=5)
_OF_USER: Final = Rate(a_second=20, at_once=50)
_KNOWN_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A user whom the API server knows.

    Attributes:
        username: Such as ``system:serviceaccount:default:ci``.
        uid: The user's UID; empty if there is none.
        groups: The user's groups.
        extra: Further information of the authenticator.
    """

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class NotAuthenticatedError(Exception):
    """The request has no bearer token that the API server accepts: answer 401 with the text."""


class Callers:
    """Asks the API server about callers; answers are kept for 10 seconds. Thread-safe.

    Invented tokens cost the API server a review each. So reviews are limited by the client's address, apart from those
    of tokens that were accepted within the last hour: a flood of invented tokens takes nothing from users.

    Args:
        api: With the right to create tokenreviews and subjectaccessreviews.
        clock: Monotonic seconds.
    """

    def __init__(self, api: KubernetesApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._callers: _Kept[Caller] = _Kept(clock, _KEPT_S)
        self._refused: _Kept[None] = _Kept(clock, _KEPT_S)
        self._rights: _Kept[bool] = _Kept(clock, _KEPT_S)
        self._known: _Kept[None] = _Kept(clock, _KNOWN_S)
        self._of_sources = Buckets(_OF_SOURCE, clock)
        self._of_strangers = Buckets(_OF_STRANGERS, clock)
        self._of_known = Buckets(_OF_KNOWN, clock)
        self._of_users = Buckets(_OF_USER, clock)
        self._strangers = threading.BoundedSemaphore(_STRANGERS_AT_ONCE)

    def caller(self, request: Request) -> Caller:
        """Return the caller of a request, by its header ``Authorization: Bearer TOKEN``.

        Raises:
            NotAuthenticatedError: The API server does not accept the token, or there is none.
            ApiServerError: The API server does not answer, or there are too many reviews.
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
        if (found := self._callers.get(key)) is not None:
            return found
        if key not in self._refused:
            if (made := self._review(token, key, request.client)) is not None:
                self._callers.put(key, made)
                self._known.put(key, None)
                return made
            self._refused.put(key, None)
        raise NotAuthenticatedError("the API server does not accept the token; it may have ended")

    def may(self, caller: Caller, verb: str, resource: str, *, group: str, namespace: str = "", name: str = "") -> bool:
        """Return whether the caller has a right, as ``kubectl auth can-i`` does.

        Args:
            caller: From :meth:`caller`.
            verb: Such as ``get``.
            resource: Plural, such as ``resourceclaims``.
            group: API group; empty for the core one.
            namespace: Empty means in all namespaces.
            name: Empty means any name.

        Raises:
            ApiServerError: The API server does not answer, or there are too many reviews.
        """
        attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace, "name": name}
        return self._may(caller, "resourceAttributes", {key: value for key, value in attributes.items() if value})

    def may_get(self, caller: Caller, path: str) -> bool:
        """Return whether the caller has the right to get a path: ``nonResourceURLs`` of RBAC.

        Raises:
            ApiServerError: The API server does not answer, or there are too many reviews.
        """
        return self._may(caller, "nonResourceAttributes", {"path": path, "verb": "get"})

    def _may(self, caller: Caller, kind: str, attributes: Mapping[str, str]) -> bool:
        who = (caller.username, caller.uid, caller.groups, tuple(sorted(caller.extra.items())))
        key = (who, kind, *attributes.items())
        kept = self._rights.get(key)
        if kept is not None:
            return kept
        spec: JsonObject = {
            kind: dict(attributes),
            "user": caller.username,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": {name: list(values) for name, values in caller.extra.items()},
        }
        if not self._of_users.take(caller.username):
            raise _too_many()
        status = self._api.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec}).get("status") or {}
        is_allowed = status.get("allowed") is True
        self._rights.put(key, is_allowed)
        return is_allowed

    def _review(self, token: str, key: bytes, source: str) -> Caller | None:
        if key in self._known:
            if not self._of_known.take(key):
                raise _too_many()
            return self._reviewed(token)
        # In this order: an address that has used up its own rate takes nothing of the common one.
        if not (self._of_sources.take(source) and self._of_strangers.take("")):
            raise _too_many()
        if not self._strangers.acquire(blocking=False):
            raise _too_many()
        try:
            return self._reviewed(token)
        finally:
            self._strangers.release()

    def _reviewed(self, token: str) -> Caller | None:
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


def _too_many() -> UnavailableError:
    return UnavailableError("too many callers at once", hint="try again in a second", retry_after_s=1.0)


class _Kept(Generic[_T]):
    """The newest answers, up to an age and a number. Thread-safe."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        self._items: OrderedDict[Hashable, tuple[float, _T]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            found = self._items.get(key)
            return found is not None and self._clock() < found[0] + self._seconds

    def get(self, key: Hashable) -> _T | None:
        with self._lock:
            found = self._items.get(key)
            return found[1] if found is not None and self._clock() < found[0] + self._seconds else None

    def put(self, key: Hashable, item: _T) -> None:
        with self._lock:
            self._items[key] = (self._clock(), item)
            self._items.move_to_end(key)
            while len(self._items) > _MAX_KEPT:
                self._items.popitem(last=False)
