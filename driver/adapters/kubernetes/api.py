"""The calls to the Kubernetes API that Rootport makes, on JSON objects.

Semantics: https://kubernetes.io/docs/reference/using-api/api-concepts/ (lists in pages, watches with bookmarks,
server-side apply, preconditions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from driver.adapters.kubernetes.connection import Connection, in_cluster, of_kubeconfig
from driver.adapters.kubernetes.errors import ExpiredError
from driver.adapters.kubernetes.request import JSON, OnWrite, Request
from driver.adapters.kubernetes.resources import PODS, JsonObject, Resource
from driver.adapters.kubernetes.watch import WatchStream

__all__ = ["KubernetesApi", "Listing"]

_PAGE: Final = 500  # as kubectl and client-go's pager ask
_METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_MERGE_PATCH: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"  # YAML includes JSON, and every server since 1.22 takes this name
_SILENCE_GRACE_S: Final = 30.0
_LARGEST_TEXT: Final = 64 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All objects that a list asked for, as of one moment.

    Attributes:
        items: In the server's order: by namespace and name.
        resource_version: That moment; a watch from here on misses nothing.
    """

    items: tuple[JsonObject, ...]
    resource_version: str


class KubernetesApi:
    """The API server. One for a process: safe for threads, connections are kept alive.

    Every call raises an :class:`~driver.adapters.kubernetes.errors.ApiServerError`: UnavailableError where a retry
    helps, and otherwise what the server refused. Objects go in and come out as the server's JSON.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @staticmethod
    def connect(
        *,
        kubeconfig: Path | None = None,
        timeout_s: float = 10.0,
        on_write: OnWrite | None = None,
    ) -> KubernetesApi:
        """The API server of a kubeconfig's current context, or of the pod that this process runs in.

        Nothing is sent yet. The environment's proxies are not used, only the kubeconfig's own ``proxy-url``.

        Args:
            kubeconfig: None for the pod's service account.
            timeout_s: The limit for connecting, and for each wait for an answer.
            on_write: Called after each write, from the thread that made it.

        Raises:
            InputError: The kubeconfig cannot be used, or there is no service account.
        """
        configuration = of_kubeconfig(kubeconfig) if kubeconfig else in_cluster()
        return KubernetesApi(Connection(configuration, timeout_s, on_write=on_write))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections; a later call opens new ones."""
        self._connection.close()

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JsonObject:
        """One object.

        Raises:
            NotFoundError: There is none.
        """
        return self._connection.call(Request(verb="get", resource=resource, namespace=namespace, name=name))

    def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        transform: Callable[[JsonObject], JsonObject] | None = None,
    ) -> Listing:
        """All objects that match, read in pages and consistent with each other.

        Args:
            resource: Their kind.
            namespace: None for all namespaces.
            label_selector: As kubectl's ``--selector``.
            field_selector: As kubectl's ``--field-selector``.
            metadata_only: Whether the objects come with their metadata alone (kind PartialObjectMetadata).
            transform: What is kept of each object, done page by page so that the rest is never all in memory.
        """
        query = _selection(label_selector, field_selector)
        accept = _METADATA_LIST if metadata_only else JSON
        request = Request(verb="list", resource=resource, namespace=namespace, query=query, accept=accept)
        try:
            return self._pages(request, _PAGE, transform)
        except ExpiredError:
            # The server forgot the first page's moment before the last page was read: all at once cannot expire.
            return self._pages(request, None, transform)

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        duration_s: int = 300,
    ) -> WatchStream:
        """What changes after a moment: one event for each change, and a bookmark now and then.

        Args:
            resource: The kind of object.
            resource_version: The moment: of a listing, or of the last event seen.
            namespace: As for :meth:`list`.
            label_selector: As for :meth:`list`.
            field_selector: As for :meth:`list`.
            metadata_only: As for :meth:`list`.
            duration_s: After how long the server ends the watch.

        Raises:
            ExpiredError: The server no longer knows that moment; it may also come from the stream. List anew.
        """
        query = _selection(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(duration_s),
        }
        accept = _METADATA if metadata_only else JSON
        request = Request(verb="watch", resource=resource, namespace=namespace, query=query, accept=accept)
        return WatchStream(request, self._connection.open_stream(request, duration_s + _SILENCE_GRACE_S))

    def create(
        self, resource: Resource, body: JsonObject, *, namespace: str | None = None, dry_run: bool = False
    ) -> JsonObject:
        """Create an object; ``namespace`` is the body's own if not given.

        With ``dry_run`` nothing is stored: the answer says what would be.

        Raises:
            AlreadyExistsError: One of that name is there.
        """
        request = Request(
            verb="create",
            resource=resource,
            namespace=_namespace_of(body, namespace),
            shown_name=_name_of(body),
            query={"dryRun": "All"} if dry_run else {},
            body=body,
        )
        return self._connection.call(request)

    def replace(self, resource: Resource, body: JsonObject, *, namespace: str | None = None) -> JsonObject:
        """Write a whole object over the stored one; with ``metadata.resourceVersion``, only over that version.

        Raises:
            ConflictError: The stored one has another version.
            NotFoundError: There is none.
        """
        request = Request(
            verb="update",
            resource=resource,
            namespace=_namespace_of(body, namespace),
            name=_name_of(body),
            body=body,
        )
        return self._connection.call(request)

    def apply(
        self,
        resource: Resource,
        body: JsonObject,
        *,
        field_manager: str,
        namespace: str | None = None,
        subresource: str | None = None,
        force: bool = True,
    ) -> JsonObject:
        """Server-side apply: create or change an object so that this manager's fields are exactly those of ``body``.

        Args:
            resource: The kind of object.
            body: With metadata.name; ``apiVersion`` and ``kind`` are added.
            field_manager: Who owns the fields; the same for every version of a program.
            namespace: The body's own if not given.
            subresource: Such as ``status``.
            force: Whether to take fields over from other managers.

        Raises:
            ConflictError: Another manager owns a field, and ``force`` is False.
        """
        request = Request(
            verb="patch",
            resource=resource,
            namespace=_namespace_of(body, namespace),
            name=_name_of(body),
            subresource=subresource or "",
            query={"fieldManager": field_manager, "force": "true" if force else "false"},
            body={"apiVersion": resource.api_version, "kind": resource.kind} | body,
            content_type=_APPLY,
        )
        return self._connection.call(request)

    def merge_patch(
        self,
        resource: Resource,
        name: str,
        body: JsonObject,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> JsonObject:
        """JSON merge patch (RFC 7386): null removes a field, a list replaces a list.

        Raises:
            ConflictError: ``body`` has a ``metadata.resourceVersion``, and the stored object another.
        """
        request = Request(
            verb="patch",
            resource=resource,
            namespace=namespace,
            name=name,
            subresource=subresource or "",
            body=body,
            content_type=_MERGE_PATCH,
        )
        return self._connection.call(request)

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> JsonObject:
        """Delete an object, only if it is still the one that is meant.

        Args:
            resource: The kind of object.
            name: Its name.
            namespace: Of a namespaced kind.
            uid: It must have this UID: another object of the same name stays.
            resource_version: It must be this version.

        Returns:
            What the server answers: the object where finalizers keep it for now, or a Status.

        Raises:
            ConflictError: UID or version differ.
            NotFoundError: There is none.
        """
        wanted = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in wanted.items() if value is not None}
        body: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            body["preconditions"] = preconditions
        return self._connection.call(
            Request(verb="delete", resource=resource, namespace=namespace, name=name, body=body)
        )

    def read_through_pod(self, pod: str, path: str, *, namespace: str, port: int, accept: str = "text/plain") -> str:
        """What a pod serves by HTTP, fetched by the API server: its ``pods/proxy``.

        Args:
            pod: The pod's name.
            path: On its server, without the leading ``/``.
            namespace: The pod's.
            port: Where it listens.
            accept: The wanted form of the answer.

        Raises:
            NotFoundError: There is no such pod, or no such page.
            UnavailableError: The API server cannot reach it, or it does not answer.
        """
        request = Request(
            verb="get",
            resource=PODS,
            namespace=namespace,
            name=f"{pod}:{port}",
            subresource=f"proxy/{path}",
            accept=accept,
        )
        return self._connection.text(request, _LARGEST_TEXT)

    def _pages(
        self, request: Request, limit: int | None, transform: Callable[[JsonObject], JsonObject] | None
    ) -> Listing:
        query = dict(request.query) | ({"limit": str(limit)} if limit else {})
        items: list[JsonObject] = []
        while True:
            page = self._connection.call(replace(request, query=query))
            for item in page.get("items") or ():
                # Objects in a list say nothing of their kind; here they look like those of get and watch.
                item.setdefault("apiVersion", request.resource.api_version)
                item.setdefault("kind", request.resource.kind)
                items.append(transform(item) if transform else item)
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return Listing(items=tuple(items), resource_version=str(metadata.get("resourceVersion", "")))
            query["continue"] = metadata["continue"]


def _selection(label_selector: str, field_selector: str) -> dict[str, str]:
    wanted = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in wanted.items() if value}


def _name_of(body: JsonObject) -> str:
    return str(body.get("metadata", {}).get("name", ""))


def _namespace_of(body: JsonObject, namespace: str | None) -> str | None:
    own: str | None = body.get("metadata", {}).get("namespace")
    return own if namespace is None else namespace
