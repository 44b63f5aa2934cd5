"""Keeps the objects of one kind in memory as the API server has them, and reports each change.

Not the client's ``kubernetes.informer.SharedInformer``, which (37.0.2) loops hot while the API server is away, with a
traceback each time, blocks in ``stop()`` until the server sends something, lists without pages and keeps model objects.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ExpiredError, UnavailableError
from driver.adapters.kubernetes.resources import JsonObject, Resource, object_key
from driver.adapters.kubernetes.skipped import identity
from driver.adapters.kubernetes.watch import WatchEvent, WatchStream
from driver.backoff import Backoff

__all__ = ["Reflector", "keep", "without_managed_fields"]

E = TypeVar("E")

_LOG: Final = logging.getLogger(__name__)

_WATCH_S: Final = 300  # then the server ends it and a new one begins: with another API server, if there are more
_SHORT_S: Final = 0.5  # a watch that ends sooner without an event is a failure, or else the loop would run hot


def keep(transform: Callable[[JsonObject], JsonObject]) -> Callable[[JsonObject], tuple[JsonObject, None]]:
    """Return a transform for :class:`Reflector` that keeps this of each object, and has no events."""
    return lambda stored: (transform(stored), None)


def without_managed_fields(stored: JsonObject) -> JsonObject:
    """Remove ``metadata.managedFields``, often more than half of an object and of no use to readers; return it."""
    stored["metadata"].pop("managedFields", None)
    return stored


class Reflector(Generic[E]):
    """The objects of one kind, kept up to date by a list and a watch; see :meth:`run`.

    A key is ``name``, or ``namespace/name``. :meth:`get` and :meth:`objects` are for any thread; what they return is
    shared: read it, never change it.

    An object that cannot be processed is skipped (:attr:`KubernetesApi.skipped`) and counts as deleted until another
    version of it comes: so what is kept never depends on what was there before, and a process that starts now keeps the
    same. If a change cannot even be read, it is unknown which object it was, and the object's last version stays.

    Args:
        api: The API server.
        resource: The kind of object.
        namespace: None for all namespaces.
        field_selector: As kubectl's ``--field-selector``; an object that no longer matches counts as deleted.
        metadata_only: Whether to fetch and keep metadata alone.
        on_change: Called from :meth:`run`'s thread, without any lock held, with the key of an object that is new,
            changed or gone (ask :meth:`get`), and with the event that ``transform`` made; None if the object is gone.
            It should be quick: put the key into a queue. If it raises, that is logged and counted.
        transform: Returns what is kept of an object, and an event that is only handed to ``on_change``. To keep less
            takes less memory, but ``name``, ``namespace`` and ``resourceVersion`` of the metadata must stay. It may
            change the object that it gets. An object for which it raises is skipped.

    Attributes:
        synced: Set once the first list is kept and all its keys were reported; never cleared.
        is_refused: Whether the API server has refused the last list or watch: a right or the CRD is missing.
    """

    def __init__(
        self,
        api: KubernetesApi,
        resource: Resource,
        *,
        namespace: str | None = None,
        field_selector: str = "",
        metadata_only: bool = False,
        on_change: Callable[[str, E | None], None],
        transform: Callable[[JsonObject], tuple[JsonObject, E]],
    ) -> None:
        self.synced = threading.Event()
        self.is_refused = False
        self._api = api
        self._resource = resource
        self._namespace = namespace
        self._field_selector = field_selector
        self._metadata_only = metadata_only
        self._on_change = on_change
        self._transform = transform
        self._backoff = Backoff()
        self._state = ""
        # Whether the last watch had an event, or lasted: if not, that a new one begins does not mean that all is well.
        self._steady = True
        self._resource_version = ""  # as far as we have seen; empty before the first list, and where it is too old
        self._lock = threading.Lock()  # of the two below
        self._objects: dict[str, JsonObject] = {}
        self._stream: WatchStream | None = None

    def get(self, key: str) -> JsonObject | None:
        """Return what is kept of the object with this key; None if there is none."""
        with self._lock:
            return self._objects.get(key)

    def objects(self) -> list[JsonObject]:
        """Return what is kept of all objects, as of now, in no order."""
        with self._lock:
            return list(self._objects.values())

    @property
    def count(self) -> int:
        """How many objects are kept."""
        with self._lock:
            return len(self._objects)

    def run(self, stop: threading.Event) -> None:
        """List, then watch, until ``stop`` is set; block meanwhile. Failures are logged and retried with a back-off.

        Nothing that the API server sends, and no exception of ``on_change``, ends it earlier.

        A watch ends at once when ``stop`` is set; a list that is under way ends by the API's own time limit at latest.
        """
        threading.Thread(target=self._close_at, args=(stop,), name=f"stop {self._resource}", daemon=True).start()
        while not stop.is_set():
            stop.wait(self._attempt(stop))

    def _attempt(self, stop: threading.Event) -> float:
        """List, if needed, and watch once; return how long to wait before the next attempt, in seconds."""
        try:
            self._follow(self._resource_version or self._list(), stop)
        except ExpiredError as error:
            self._resource_version = ""
            self._log_once(logging.INFO, "expired", error)
        except UnavailableError as error:
            self._log_once(logging.WARNING, "unavailable", error)
            return max(self._backoff.next_s(), error.retry_after_s or 0.0)
        except ApiServerError as error:
            # RBAC may be granted and a CRD installed while we wait.
            self.is_refused = True
            self._log_once(logging.ERROR, f"refused {error.status}", error)
        except Exception:  # noqa: BLE001 - a mistake of ours; to end would leave the objects as they are for good
            _LOG.exception("reflector resource=%s state=failed", self._resource)
            self._state = "failed"
        else:
            return 0.0
        return self._backoff.next_s()

    def _list(self) -> str:
        """Replace all objects, and report what is new, changed or gone since the last list; return its version."""
        events: dict[str, E] = {}  # until they are reported

        def kept(stored: JsonObject) -> JsonObject:
            found, event = self._transformed(stored)
            events[object_key(found)] = event
            return found

        listing = self._api.list(
            self._resource,
            namespace=self._namespace,
            field_selector=self._field_selector,
            metadata_only=self._metadata_only,
            transform=kept,
        )
        before = self._objects  # written by this thread alone
        # What has not changed stays the same object, which others may share by now.
        objects = {
            key: before[key] if key in before and _version(before[key]) == _version(stored) else stored
            for key, stored in ((object_key(stored), stored) for stored in listing.items)
        }
        with self._lock:
            self._objects = objects
        self._resource_version = listing.resource_version
        self.is_refused = False
        for key in before.keys() - objects.keys():
            self._report(key, None)
        for key, stored in objects.items():
            event = events.pop(key)
            if before.get(key) is not stored:
                self._report(key, event)
        self.synced.set()
        return listing.resource_version

    def _follow(self, resource_version: str, stop: threading.Event) -> None:
        """Watch from the last version seen until the watch ends."""
        with self._api.watch(
            self._resource,
            resource_version=resource_version,
            namespace=self._namespace,
            field_selector=self._field_selector,
            metadata_only=self._metadata_only,
            duration_s=_WATCH_S,
        ) as stream:
            self.is_refused = False
            with self._lock:
                self._stream = stream
            if stop.is_set():  # it may have been set before there was a stream to close
                return
            if self._steady:
                self._log_once(logging.INFO, "following")
            started, has_events = time.monotonic(), False
            try:
                for event in stream:
                    has_events = True
                    self._went_well()
                    self._take(event)
            finally:
                self._steady = has_events or time.monotonic() - started >= _SHORT_S
        if stop.is_set():
            return
        if not self._steady:
            raise UnavailableError(f"the watch of {self._resource} ended as soon as it began")
        self._went_well()

    def _went_well(self) -> None:
        self._backoff.reset()
        self._log_once(logging.INFO, "following")

    def _take(self, event: WatchEvent) -> None:
        version = _version(event.object)
        if event.type != "BOOKMARK":
            self._change(event)
        # Without one it would be listed anew, again and again.
        self._resource_version = version or self._resource_version

    def _change(self, event: WatchEvent) -> None:
        what = identity(event.object)  # before the transform, which may change it
        kept, made = None, None
        try:
            key = object_key(event.object)
        except Exception as error:  # noqa: BLE001 - the next event must be seen all the same
            self._api.skipped.skip(self._resource, "Unreadable", what, error)
            return
        if event.type != "DELETED":
            try:
                kept, made = self._transformed(event.object)
            except Exception as error:  # noqa: BLE001 - the other objects must not suffer
                self._api.skipped.skip(self._resource, "Failed", what, error)
        with self._lock:
            if kept is None:
                self._objects.pop(key, None)
            else:
                self._objects[key] = kept
        self._report(key, made)

    def _transformed(self, stored: JsonObject) -> tuple[JsonObject, E]:
        """Return what is kept of an object, and its event; raise what the transform raises."""
        kept, event = self._transform(stored)
        object_key(kept)
        return kept, event

    def _report(self, key: str, event: E | None) -> None:
        try:
            self._on_change(key, event)
        except Exception as error:  # noqa: BLE001 - a mistake of ours, for which the other objects must not suffer
            version = _version(self.get(key) or {})
            self._api.skipped.skip(self._resource, "Failed", f"{key}@{version} on_change", error)

    def _close_at(self, stop: threading.Event) -> None:
        stop.wait()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def _log_once(self, level: int, state: str, error: ApiServerError | None = None) -> None:
        """Log a state that differs from the last one, so that an hour without the API server is one line."""
        if state == self._state:
            return
        self._state = state
        if error is None:
            count = len(self._objects)
            _LOG.log(level, "reflector resource=%s state=%s objects=%d", self._resource, state, count)
        else:
            _LOG.log(level, 'reflector resource=%s state="%s" error="%s"', self._resource, state, error)


def _version(stored: JsonObject) -> str:
    metadata = stored.get("metadata")
    return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""
