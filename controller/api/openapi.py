"""``GET /api/v1/openapi.json``: the API for programs (OpenAPI 3.1, whose schemas are JSON Schema 2020-12).

Written by hand, and compared with the answers by tests: fields are added, and never renamed.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from controller.api.koordinator import PREFIX
from driver import __version__
from driver.adapters.http.exchange import Request, Response, Route

__all__ = ["document", "openapi_route"]

_Json = dict[str, Any]

_STRING: Final[_Json] = {"type": "string"}
_COUNT: Final[_Json] = {"type": "integer", "minimum": 0}
_TOO_MANY: Final[_Json] = {"description": "Too many streams of this user."}
_QUANTITIES: Final[_Json] = {"type": "object", "additionalProperties": _STRING}
_BY_MINOR: Final[_Json] = {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Quantities"}}
_BY_TYPE: Final[_Json] = {"type": "object", "additionalProperties": _BY_MINOR}
_STATE: Final[_Json] = {"enum": ["Ready", "NotReady", "Silent"]}
_NODE_EXTRAS: Final[_Json] = {"reason": _STRING, "cannotPrepare": {"type": "boolean"}, "managed": {"type": "boolean"}}


def openapi_route() -> Route:
    """Return the route. It needs no authorization, since the document says nothing about this cluster."""

    def route(request: Request) -> Response:
        if request.method != "GET":
            return Response(
                status=HTTPStatus.METHOD_NOT_ALLOWED, body=b"only GET is answered here\n", headers={"Allow": "GET"}
            )
        return Response.of_json(document())

    return route


def document() -> _Json:
    """Return the document."""
    explain = {
        "get": _operation(
            "Why the claim or pod is pending, or where it fits.",
            "Explanation",
            (_in_path("namespace"), _in_path("name"), _in_query("format", {"enum": ["json", "text"]})),
            needs="get resourceclaims.resource.k8s.io in the namespace, and pods for a pod",
            not_found=True,
        )
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Rootport",
            "version": __version__,
            "description": "Every device of the cluster, as the leading controller knows it. Read-only.",
        },
        "security": [{"token": []}],
        "paths": {
            "/api/v1/nodes": {
                "get": _operation(
                    "All nodes, with their devices in a few words each. A stream for who takes no gzip.",
                    "NodeList",
                    not_modified=True,
                    streamed=True,
                )
            },
            "/api/v1/nodes/{name}": {
                "get": _operation("One node, with its devices in full.", "Node", (_in_path("name"),), not_found=True)
            },
            "/api/v1/events": {"get": _events()},
            "/api/v1/claims/pending": {
                "get": _operation(
                    "The claims that are pending, and why.",
                    "PendingClaims",
                    needs="list resourceclaims.resource.k8s.io in all namespaces, and pods to be told their names",
                )
            },
            "/api/v1/claims/{namespace}/{name}/explain": explain,
            "/api/v1/pods/{namespace}/{name}/explain": explain,
            "/api/v1/openapi.json": {
                "get": {"summary": "This.", "security": [], "responses": {"200": {"description": "This document."}}}
            },
            PREFIX: {
                "get": _operation(
                    "Koordinator's summary of each node.", "NodeDeviceSummaries", (_domain(),), streamed=True
                )
            },
            f"{PREFIX}/{{name}}": {
                "get": _operation(
                    "Koordinator's summary of one node.",
                    "NodeDeviceSummary",
                    (_in_path("name"), _domain()),
                    not_found=True,
                )
            },
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _operation(
    summary: str,
    schema: str,
    parameters: tuple[_Json, ...] = (),
    *,
    needs: str = "list devices.rootport.dev",
    not_found: bool = False,
    not_modified: bool = False,
    streamed: bool = False,
) -> _Json:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    responses: _Json = {"200": {"description": "Here it is.", "content": content}}
    if not_modified:
        responses["304"] = {"description": "If-None-Match has the ETag of now."}
    if not_found:
        responses["404"] = {"description": "There is none."}
    if streamed:
        responses["429"] = _TOO_MANY
    return {
        "summary": summary,
        "description": f"Needs the right to {needs}.",
        "parameters": list(parameters),
        "responses": responses | _refusals(),
    }


def _events() -> _Json:
    since = _in_query("since", {"type": "integer"})
    text = (
        "Server-sent events: `node` (data: NodeOverview), `gone` (data: {name}), `claims` (data: {}; ask for the "
        "pending claims again), `reset` (data: {}; ask for everything again). `id` is the version that the events lead "
        "to: give it as `since`, or as Last-Event-ID, to go on from there. Ends after ten minutes. At most 8 streams "
        "of one user at once. Needs the right to list devices.rootport.dev."
    )
    responses: _Json = {
        "200": {"description": "The stream.", "content": {"text/event-stream": {"schema": _STRING}}},
        "400": {"description": "since is no version."},
        "429": _TOO_MANY,
    }
    return {
        "summary": "What changes.",
        "description": text,
        "parameters": [since],
        "responses": responses | _refusals(),
    }


def _refusals() -> _Json:
    return {
        "401": {"description": "No token, or one that the API server does not accept."},
        "403": {"description": "You may not read this."},
        "405": {"description": "Another method than GET."},
        "503": {
            "description": "Try again: another controller leads, or it is busy.",
            "headers": {"Retry-After": {"schema": _COUNT}},
        },
    }


def _in_path(name: str) -> _Json:
    return {"name": name, "in": "path", "required": True, "schema": _STRING}


def _in_query(name: str, schema: _Json) -> _Json:
    return {"name": name, "in": "query", "schema": schema}


def _domain() -> _Json:
    return _in_query("domain", {"enum": ["koordinator.sh", "kubernetes.io"], "default": "koordinator.sh"})


def _object(required: _Json, optional: _Json | None = None) -> _Json:
    return {"type": "object", "required": list(required), "properties": required | (optional or {})}


def _list_of(schema: str) -> _Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{schema}"}}


def _schemas() -> _Json:
    amount = {"$ref": "#/components/schemas/Amount"}
    device = _object(
        {
            "name": _STRING,
            "type": {"enum": ["gpu", "rdma", "rdma-vf", "fpga"]},
            "index": _COUNT,
            "state": {"enum": ["Healthy", "Unhealthy", "Unknown"]},
        },
        {
            "model": _STRING,
            "parent": _STRING,
            "reason": _STRING,
            "mode": {"enum": ["whole", "shared", "ratio", "mig"]},
            "offered": {"type": "boolean"},
            "hasRival": {"type": "boolean"},
            "core": amount,
            "memory": amount,
            "bandwidth": amount,
            "bandwidthRatio": amount,
            "vfs": amount,
            "freeCore": _COUNT,
            "freeMemory": _COUNT,
            "freeProfile": _STRING,
            "holders": _COUNT,
        },
    )
    details = ("deviceTotalDetail", "deviceFreeDetail", "deviceUsedDetail")
    quantities = {"$ref": "#/components/schemas/Quantities"}
    return {
        "Amount": {
            "description": "[used, total]: percent, bytes, bits per second or a number.",
            "type": "array",
            "items": _COUNT,
            "minItems": 2,
            "maxItems": 2,
        },
        "DeviceOverview": device,
        "NodeOverview": _object(
            {"name": _STRING, "state": _STATE, "devices": _list_of("DeviceOverview")},
            _NODE_EXTRAS,
        ),
        "NodeList": _object({"version": {"type": "integer"}, "nodes": _list_of("NodeOverview")}),
        "Device": {"description": "As kubectl get devices.rootport.dev --output=json has it."}
        | _object(
            {
                "metadata": _object({"name": _STRING}),
                "spec": _object(
                    dict.fromkeys(("nodeName", "deviceName", "type", "pciBusID"), _STRING) | {"index": _COUNT}
                ),
            },
            {"status": _object({"state": {"enum": ["Healthy", "Unhealthy", "Unknown"]}})},
        ),
        "Node": _object({"name": _STRING, "state": _STATE, "devices": _list_of("Device")}, _NODE_EXTRAS),
        "PendingClaim": _object(
            {"namespace": _STRING, "name": _STRING, "pods": {"type": "array", "items": _STRING}},
            {"reason": _STRING, "message": _STRING},
        ),
        "PendingClaims": _object({"claims": _list_of("PendingClaim")}),
        "Explanation": {"description": "docs/user/explain.md tells its fields."}
        | _object(
            {
                "apiVersion": {"const": "rootport.dev/v1alpha1"},
                "kind": {"const": "Explanation"},
                "subject": _object({"kind": _STRING, "name": _STRING}),
                "fits": {"type": "boolean"},
                "reason": _STRING,
            }
        ),
        "Quantities": {"description": "Quantities by the name of the resource."} | _QUANTITIES,
        "NodeDeviceSummary": _object(
            dict.fromkeys(("deviceTotal", "deviceFree", "deviceUsed"), quantities)
            | dict.fromkeys(details, _BY_TYPE)
            | {"allocateSet": {"type": "object", "additionalProperties": _BY_TYPE}}
        ),
        "NodeDeviceSummaries": {
            "type": "object",
            "additionalProperties": {"$ref": "#/components/schemas/NodeDeviceSummary"},
        },
    }
