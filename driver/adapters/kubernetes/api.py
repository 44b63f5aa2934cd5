"""The calls to the Kubernetes API that Rootport makes, on JSON objects.

Semantics: https://kubernetes.io/docs/reference/using-api/api-concepts/ (lists in pages, watches with bookmarks,
server-side apply, preconditions).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from driver.adapters.kubernetes.connection import Connection
from driver.adapters.kubernetes.credentials import kubeconfig_credentials, service_account
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.http_transport import HttpTransport
from driver.adapters.kubernetes.pages import METADATA_LIST, Listing, list_all
from driver.adapters.kubernetes.request import JSON, OnWrite, Request
from driver.adapters.kubernetes.resources import PODS, SERVER_VERSION, JsonObject, Resource
from driver.adapters.kubernetes.skipped import SkippedObjects
from driver.adapters.kubernetes.transport import Transport
from driver.adapters.kubernetes.watch import WatchStream

__all__ = ["KubernetesApi", "Listing"]

_METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_MERGE_PATCH: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"  # YAML includes JSON, and every server since 1.22 takes this name
_SILENCE_GRACE_S: Final = 30.0
_LARGEST_TEXT: Final = 64 * 1024**2


class KubernetesApi:
    """Calls the API server. One for a process: thread-safe, and connections are kept alive.

    Every call raises an :class:`~driver.adapters.kubernetes.errors.ApiServerError`: UnavailableError if a retry helps,
    and otherwise what the server refused. Objects go in and come out as the server's JSON, without what is nested too
    deeply or is no Unicode.

    Args:
        connection: The connection to the API server.
        skipped: As for :meth:`connect`.

    Attributes:
        skipped: Counts the objects that lists and watches leave out.
    """

    def __init__(self, connection: Connection, skipped: SkippedObjects | None = None) -> None:
        self._connection = connection
        self.skipped = skipped or SkippedObjects()

    @staticmethod
    def connect(
        *,
        kubeconfig: Path | None = None,
        timeout_s: float = 10.0,
        on_write: OnWrite | None = None,
        skipped: SkippedObjects | None = None,
        small: bool = False,
    ) -> KubernetesApi:
        """Connect to the API server of a kubeconfig's current context, or of the pod that this process runs in.

        Nothing is sent yet. The environment's proxies are not used, only the kubeconfig's own ``proxy-url``.

        Args:
            kubeconfig: The kubeconfig file; None for the pod's service account.
            timeout_s: The limit for connecting, and for each wait for an answer.
            on_write: Called after each write, from the thread that made it.
            skipped: Counts the objects that lists and watches leave out; None for one of its own.
            small: Whether to keep the process small: the official client is not loaded, unless the kubeconfig has a
                credential plugin or a proxy.

        Raises:
            InputError: The kubeconfig cannot be used, or there is no service account.
        """
        transport = (_small_transport(kubeconfig) if small else None) or _client_transport(kubeconfig)
        return KubernetesApi(Connection(transport, timeout_s, on_write=on_write), skipped)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections; a later call opens new ones."""
        self._connection.close()

    def server_minor(self) -> int:
        """Return the API server's minor version: 37 of Kubernetes 1.37.2.

        Raises:
            ApiServerError: Its answer has none.
        """
        request = Request(verb="get", resource=SERVER_VERSION)
        # k8s.io/apimachinery v0.37.2, pkg/version, Info: some vendors append a "+".
        minor = str(self._connection.call(request).get("minor", "")).removesuffix("+")
        if not minor.isdecimal():
            raise ApiServerError(f"cannot {request}: the answer has no minor version")
        return int(minor)

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JsonObject:
        """Return one object.

        Raises:
            NotFoundError: There is no such object.
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
        """Return all objects that match, read in pages and consistent with each other.

        Args:
            resource: The kind of object.
            namespace: The namespace; None for all.
            label_selector: As kubectl's ``--selector``.
            field_selector: As kubectl's ``--field-selector``.
            metadata_only: Whether the objects come with their metadata alone (kind PartialObjectMetadata).
            transform: Returns what is kept of an object. It is called page by page, so that the whole objects are never
                all in memory. If it raises, the object is skipped: logged, counted and left out of the list.

        An object above the size limit is skipped too.
        """
        query = _selection(field_selector, label_selector)
        accept = METADATA_LIST if metadata_only else JSON
        request = Request(verb="list", resource=resource, namespace=namespace, query=query, accept=accept)
        return list_all(self._connection, request, transform or _unchanged, self.skipped)

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        field_selector: str = "",
        metadata_only: bool = False,
        duration_s: int = 300,
    ) -> WatchStream:
        """Watch the changes after a resource version: one event for each change, and bookmarks.

        A change above the size limit, or a malformed event, is skipped: logged, counted and left out.

        Args:
            resource: The kind of object.
            resource_version: The resource version of a list, or of the last event.
            namespace: As for :meth:`list`.
            field_selector: As for :meth:`list`.
            metadata_only: As for :meth:`list`.
            duration_s: The time after which the server ends the watch.

        Raises:
            ExpiredError: The server no longer knows that version; may also come from the stream. List again.
        """
        query = _selection(field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(duration_s),
        }
        accept = _METADATA if metadata_only else JSON
        request = Request(verb="watch", resource=resource, namespace=namespace, query=query, accept=accept)
        return WatchStream(request, self._connection.open_stream(request, duration_s + _SILENCE_GRACE_S), self.skipped)

    def create(
        self, resource: Resource, body: JsonObject, *, namespace: str | None = None, dry_run: bool = False
    ) -> JsonObject:
        """Create an object; ``namespace`` is the body's own if not given.

        With ``dry_run`` nothing is stored, and the answer is what would be.

        Raises:
            AlreadyExistsError: An object of that name exists.
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
        """Replace a stored object; with ``metadata.resourceVersion``, only that version.

        Raises:
            ConflictError: The stored object has another version.
            NotFoundError: There is no such object.
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
        """Server-side apply an object, so that this manager's fields are exactly those of ``body``.

        Args:
            resource: The kind of object.
            body: The object with metadata.name; ``apiVersion`` and ``kind`` are added.
            field_manager: The owner of the fields; the same for every version of a program.
            namespace: The namespace; by default the body's own.
            subresource: The subresource, such as ``status``.
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
        """Apply a JSON merge patch (RFC 7386): null removes a field, a list replaces a list.

        Raises:
            ConflictError: ``body`` has a ``metadata.resourceVersion``, and the stored object has another.
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
        """Delete an object, with preconditions on its identity.

        Args:
            resource: The kind of object.
            name: The object's name.
            namespace: The namespace of a namespaced kind.
            uid: The UID that it must have: another object of the same name stays.
            resource_version: The version that it must have.

        Returns:
            The server's answer: the object if finalizers keep it for now, or a Status.

        Raises:
            ConflictError: UID or version differ.
            NotFoundError: There is no such object.
        """
        wanted = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in wanted.items() if value is not None}
        body: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            body["preconditions"] = preconditions
        return self._connection.call(
            Request(verb="delete", resource=resource, namespace=namespace, name=name, body=body)
        )

    def read_through_pod(self, pod: str, path: str, *, namespace: str, port: int) -> str:
        """Return a page that a pod serves by HTTP, fetched by the API server through ``pods/proxy``.

        Args:
            pod: The pod's name.
            path: The path on its server, without the leading ``/``.
            namespace: The pod's namespace.
            port: The port that it listens on.

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
            accept="text/plain",
        )
        return self._connection.read(request, _LARGEST_TEXT).decode(errors="replace")


def _small_transport(kubeconfig: Path | None) -> Transport | None:
    credentials = service_account() if kubeconfig is None else kubeconfig_credentials(kubeconfig)
    return None if credentials is None else HttpTransport(credentials)


def _client_transport(kubeconfig: Path | None) -> Transport:
    # The plugin does without it.
    from driver.adapters.kubernetes import client_transport  # noqa: PLC0415

    configuration = client_transport.in_cluster() if kubeconfig is None else client_transport.of_kubeconfig(kubeconfig)
    return client_transport.ClientTransport(configuration)


def _unchanged(stored: JsonObject) -> JsonObject:
    return stored


def _selection(field_selector: str, label_selector: str = "") -> dict[str, str]:
    wanted = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in wanted.items() if value}


def _name_of(body: JsonObject) -> str:
    return str(body.get("metadata", {}).get("name", ""))


def _namespace_of(body: JsonObject, namespace: str | None) -> str | None:
    own: str | None = body.get("metadata", {}).get("namespace")
    return own if namespace is None else namespace
