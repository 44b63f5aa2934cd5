"""One request to the API server: its URL path, and how messages call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from driver.adapters.kubernetes.errors import ApiServerError, InvalidError
from driver.adapters.kubernetes.resources import JsonObject, Resource

__all__ = ["JSON", "OnWrite", "Request", "Verb"]

JSON: Final = "application/json"

Verb: TypeAlias = Literal["get", "list", "watch", "create", "update", "patch", "delete"]
_NAMED: Final = frozenset[Verb]({"get", "update", "patch", "delete"})
_METHODS: Final[Mapping[Verb, str]] = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the API server.

    Attributes:
        verb: The verb, as RBAC names it.
        resource: The kind of object.
        namespace: The namespace; None for a cluster-scoped kind, and to list or watch all namespaces.
        name: The object's name; empty to list, watch and create.
        shown_name: The name for messages of an object to create, which the URL does not have.
        subresource: The subresource, such as ``status``; empty for the object itself.
        query: The URL's query parameters.
        body: The body to send.
        content_type: The media type of the body.
        accept: The media type to ask for.

    Raises:
        InvalidError: A name is not valid: it would reach another object, or all of them.
        ValueError: The namespace is missing, or the kind has none.
    """

    verb: Verb
    resource: Resource
    namespace: str | None = None
    name: str = ""
    shown_name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: JsonObject | None = None
    content_type: str = JSON
    accept: str = JSON

    def __post_init__(self) -> None:
        if self.verb in _NAMED and self.resource.version:
            self._check("name", self.name)
        if self.namespace is not None:
            self._check("namespace", self.namespace)
            if not self.resource.namespaced:
                raise ValueError(f"{self.resource} are not namespaced")
        elif self.resource.namespaced and self.verb not in ("list", "watch"):
            raise ValueError(f"{self.verb} {self.resource}: the namespace is missing")

    @property
    def method(self) -> str:
        """The HTTP method."""
        return _METHODS.get(self.verb, "GET")

    @property
    def is_write(self) -> bool:
        """Whether it changes what is stored: a dry run does not."""
        return self.verb in _METHODS and "dryRun" not in self.query

    @property
    def path(self) -> str:
        """The URL's path, with ``{namespace}`` and ``{name}`` for the two parts that must be quoted."""
        resource = self.resource
        if not resource.version:
            return f"/{resource.plural}"
        parts = ["", "apis" if resource.group else "api", resource.api_version]
        if self.namespace is not None:
            parts += ["namespaces", "{namespace}"]
        parts.append(resource.plural)
        if self.name:
            parts.append("{name}")
        if self.subresource:
            parts.append(self.subresource)
        return "/".join(parts)

    @property
    def target(self) -> str:
        """The URL's path and query, quoted."""
        path = self.path.format(namespace=quote(self.namespace or "", safe=""), name=quote(self.name, safe=""))
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in self.query.items())
        return f"{path}?{query}" if query else path

    def __str__(self) -> str:
        """Return verb, kind and object: ``patch nodeinventories.rootport.dev/status node-1``."""
        kind = f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)
        name = self.name or self.shown_name
        if self.namespace is not None:
            name = f"{self.namespace}/{name}" if name else f"in namespace {self.namespace}"
        text = f"{self.verb} {kind} {name}".rstrip()
        return text if text.isprintable() else repr(text)

    def _check(self, what: str, value: object) -> None:
        # k8s.io/apimachinery/pkg/api/validation/path: IsValidPathSegmentName. Quoting does not help: an HTTP client or
        # proxy folds "..", and without a name a delete means the whole collection.
        if not isinstance(value, str) or value in ("", ".", "..") or "/" in value or "%" in value:
            raise InvalidError(f"cannot {self.verb} {self.resource}: {value!r} is no {what} of an object")


OnWrite: TypeAlias = Callable[[Request, ApiServerError | None], None]
"""Called after a write, with the error if it failed."""
