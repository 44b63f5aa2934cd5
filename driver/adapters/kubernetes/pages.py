"""Lists objects in pages of a bounded size in bytes, however large the objects are.

A page is requested by a number of objects, and an object may have some bytes or some megabytes. So the number follows
from the size of the pages before, and a page that turns out too large is dropped while it is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from driver.adapters.kubernetes.connection import MAX_OBJECT_BYTES, Connection, decoded
from driver.adapters.kubernetes.errors import ApiServerError, ExpiredError, TooLargeError
from driver.adapters.kubernetes.request import JSON, Request
from driver.adapters.kubernetes.resources import JsonObject
from driver.adapters.kubernetes.skipped import SkippedObjects, identity

__all__ = ["METADATA_LIST", "Listing", "list_all"]

METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of a list of the objects' metadata."""

_FIRST: Final = 64  # objects
_MOST: Final = 500  # objects, as kubectl and client-go's pager ask
_AIM: Final = 2 * 1024**2  # bytes
_LARGEST: Final = 4 * 1024**2  # bytes of a page of several objects; as Python's objects they may be twenty times that
_GROWTH: Final = 4
_SHRINK: Final = 8
_ATTEMPTS: Final = 3
_DECODING: Final = threading.Lock()
"""Held while a page is in memory as Python objects: at its start the controller reads nine kinds at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All objects of a list, at one resource version.

    Attributes:
        items: The objects in the server's order: by namespace and name.
        resource_version: The version; a watch from here on misses nothing.
    """

    items: tuple[JsonObject, ...]
    resource_version: str


def list_all(
    connection: Connection,
    request: Request,
    transform: Callable[[JsonObject], JsonObject],
    skipped: SkippedObjects,
) -> Listing:
    """Return all objects that ``request`` asks for.

    Args:
        connection: The connection to the API server.
        request: The list, without ``limit`` and ``continue``.
        transform: Returns what is kept of an object. An object for which it raises is skipped.
        skipped: Gets the objects that are skipped: those, and objects above the size limit.

    Raises:
        ApiServerError: The list was refused, no answer came, or the answer is no list. ExpiredError: the server had
            repeatedly forgotten the first page's version before the last page was read.
    """
    pages = _Pages(connection, request, transform, skipped)
    for _ in range(_ATTEMPTS - 1):
        try:
            return pages.read()
        except ExpiredError:
            if not pages.has_begun:
                raise
    return pages.read()


class _Pages:
    def __init__(
        self,
        connection: Connection,
        request: Request,
        transform: Callable[[JsonObject], JsonObject],
        skipped: SkippedObjects,
    ) -> None:
        self._connection = connection
        self._request = request
        self._transform = transform
        self._skipped = skipped
        self._size = _FIRST
        self.has_begun = False  # whether a page was read, so that another may come too late

    def read(self) -> Listing:
        """Read all pages, from the first one on."""
        kept: list[JsonObject] = []
        self.has_begun, following = False, ""
        while True:
            page = self._page(following, kept)
            self.has_begun = True
            metadata = page.get("metadata")
            metadata = metadata if isinstance(metadata, dict) else {}
            following = str(metadata.get("continue") or "")
            if not following:
                return Listing(items=tuple(kept), resource_version=str(metadata.get("resourceVersion", "")))

    def _page(self, following: str, kept: list[JsonObject]) -> JsonObject:
        """Read a page; append what is kept of its objects to ``kept``, and return the page without them."""
        while True:
            request = self._asking(self._request, following)
            try:
                data = self._connection.read(request, MAX_OBJECT_BYTES if self._size == 1 else _LARGEST)
            except TooLargeError as error:
                if self._size == 1:
                    return self._without(following, error)
                self._size = max(self._size // _SHRINK, 1)
                continue
            length = len(data)
            with _DECODING:
                page = decoded(request, data)
                del data
                items = self._items(page)
                kept += [found for item in items if (found := self._kept(item)) is not None]
                if items:
                    fitting = len(items) * _AIM // length
                    self._size = max(min(fitting, self._size * _GROWTH, _MOST), 1)
                items.clear()
            return page

    def _without(self, following: str, error: TooLargeError) -> JsonObject:
        """Return the page of one object that is too large, without it; its metadata say how to continue."""
        request = self._asking(replace(self._request, accept=METADATA_LIST), following)
        page = decoded(request, self._connection.read(request, MAX_OBJECT_BYTES))
        for item in self._items(page):
            self._skipped.skip(self._request.resource, "TooLarge", identity(item), error)
        return page

    def _asking(self, request: Request, following: str) -> Request:
        query = dict(request.query) | {"limit": str(self._size)}
        return replace(request, query=query | ({"continue": following} if following else {}))

    def _items(self, page: JsonObject) -> list[object]:
        items = page.get("items") or []
        if not isinstance(items, list):
            raise ApiServerError(f"cannot {self._request}: the answer is no list")
        return items

    def _kept(self, item: object) -> JsonObject | None:
        resource = self._request.resource
        if not isinstance(item, dict):
            self._skipped.skip(resource, "Unreadable", identity(item), "it is no object")
            return None
        # Objects in a list lack kind and apiVersion; here they get those that get and watch return.
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
        what = identity(item)  # before the transform changes it
        try:
            return self._transform(item)
        except Exception as error:  # noqa: BLE001 - the other objects must not suffer
            self._skipped.skip(resource, "Failed", what, error)
            return None
