"""Objects of every kind that Rootport reads, as far from the usual as the API server lets anybody write them.

Objects are bytes, since no JSON library of Python writes them, and some are no JSON to it. What the API server passes
on unchecked: the opaque parameters of claims, templates and classes (up to 10 KiB, byte by byte), ``managedFields`` of
everything (up to the size of a request), and texts without a limit of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver.adapters.kubernetes.resources import (
    DEVICE_CLASSES,
    DEVICES,
    EVENTS,
    LEASES,
    NODE_INVENTORIES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from tests.support.cluster.control_plane import TAINT_RULES

__all__ = ["DRIVER", "Poison", "corpus", "parameters"]

DRIVER: Final = "poison.example.com"
_NODE_NAMESPACE: Final = "rootport-system"
_DEEP_PARAMETERS: Final = 4000
_DEEP_FIELDS: Final = 3000
_LARGE: Final = 1_200_000  # bytes; etcd takes requests of 1.5 MiB
_PARAMETERS: Final = 10_000  # bytes; the API server takes 10 KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """One object.

    Attributes:
        what: What is unusual about it, in words joined by hyphens.
        resource: Its kind.
        name: Its name.
        namespace: None for a kind without namespaces.
        body: To create it, as JSON or nearly so.
        status: What then replaces it by its subresource ``status``; empty for nothing.
        may_be_refused: Whether the API server need not take it: in all versions, or as it is configured.
    """

    what: str
    resource: Resource
    name: str
    namespace: str | None
    body: bytes
    status: bytes = b""
    may_be_refused: bool = False

    def __str__(self) -> str:
        """For a test's id."""
        return f"{self.resource.kind}-{self.what}"


def corpus(namespace: str, *, prefix: str = "poison") -> tuple[Poison, ...]:
    """All objects, of all kinds.

    Args:
        namespace: Where those of namespaces are made, Leases apart: the namespace of these is Rootport's own.
        prefix: Begins the name of each.
    """
    makers = (_of_any_kind, _claims, _templates, _classes, _pods, _nodes, _slices, _events)
    return tuple(poison for make in makers for poison in make(_Maker(namespace, prefix)))


def parameters() -> Mapping[str, bytes]:
    """Opaque parameters by what is unusual about them; each is a JSON object to the API server, and below 10 KiB."""
    return {
        "deep-parameters": b'{"a":%s%s}' % (b"[" * _DEEP_PARAMETERS, b"]" * _DEEP_PARAMETERS),
        "deep-objects": b'{"a":' * 1500 + b"{}" + b"}" * 1500,
        "readable-depth": b'{"a":%s%s}' % (b"[" * 180, b"]" * 180),
        "long-integer": b'{"a":1%s}' % (b"0" * (_PARAMETERS - 100)),
        "long-fraction": b'{"a":0.%s}' % (b"1" * (_PARAMETERS - 100)),
        "huge-exponent": b'{"a":1e999,"b":-1e999}',
        "invalid-utf8": b'{"a":"\xff\xfe\xc3("}',
        "lone-surrogate": rb'{"a":"\ud800","\udfff":"\ud83d\u0041"}',
        "control-characters": rb'{"a":"\u0000\u0001\u001b[2J\u202e"}',
        "same-key-again": b'{"apiVersion":"v1","kind":"A"%s}' % (b',"kind":"B"' * 800),
        "many-lists": b'{"a":[%s]}' % _joined(b"[]", _PARAMETERS - 100),
        "many-objects": b'{"parameters":[%s]}' % _joined(b"{}", _PARAMETERS - 100),
        "wrong-types": b'{"apiVersion":7,"kind":["GpuConfig"],"metadata":null,"sharing":[{}]}',
        "gpu-config-wrong-types": (
            b'{"apiVersion":"gpu.rootport.dev/v1alpha1","kind":"GpuConfig","sharing":[[[]]],"mig":1e308}'
        ),
    }


class _Maker:
    def __init__(self, namespace: str, prefix: str) -> None:
        self.namespace = namespace
        self.prefix = prefix
        self.bases = _bases(namespace)

    def make(
        self,
        resource: Resource,
        what: str,
        change: Callable[[dict[str, Any]], None] = lambda _body: None,
        *,
        raw: Mapping[str, bytes] | None = None,
        status: dict[str, Any] | None = None,
        may_be_refused: bool = False,
    ) -> Poison:
        """The kind's plainest object with a change.

        Args:
            resource: Its kind.
            what: What the change is.
            change: Does it.
            raw: JSON that ``json`` does not write, by the text that stands for it.
            status: Its status.
            may_be_refused: See :class:`Poison`.
        """
        body = json.loads(json.dumps(self.bases[resource]))
        name = f"{self.prefix}-{what}"
        body["apiVersion"], body["kind"], body["metadata"]["name"] = resource.api_version, resource.kind, name
        if resource is DEVICES:
            name = f"{self.prefix}.{what}"
            body["metadata"]["name"] = name
            body["spec"] |= {"nodeName": self.prefix, "deviceName": what}
        change(body)
        return Poison(
            what=what,
            resource=resource,
            name=name,
            namespace=body["metadata"].get("namespace"),
            body=_written(body, raw or {}),
            status=b"" if status is None else _written(body | {"status": status}, raw or {}),
            may_be_refused=may_be_refused or resource is TAINT_RULES,
        )


def _written(body: dict[str, Any], raw: Mapping[str, bytes]) -> bytes:
    text = json.dumps(body).encode()
    for word, value in raw.items():
        text = text.replace(b'"%s"' % word.encode(), value)
    return text


def _bases(namespace: str) -> dict[Resource, dict[str, Any]]:
    """The plainest object of each kind."""
    local: dict[str, Any] = {"metadata": {"namespace": namespace}}
    pool = {"name": "poison", "generation": 1, "resourceSliceCount": 1}
    regarding = {"kind": "Pod", "namespace": namespace, "name": "nobody", "uid": "nobody"}
    return {
        RESOURCE_CLAIMS: local | {"spec": {"devices": {"requests": [_request("r")]}}},
        RESOURCE_CLAIM_TEMPLATES: local | {"spec": {"spec": {"devices": {"requests": [_request("r")]}}}},
        PODS: local | {"spec": {"containers": [{"name": "c", "image": "example.com/none"}]}},
        NODES: {"metadata": {}},
        LEASES: {"metadata": {"namespace": _NODE_NAMESPACE}, "spec": {}},
        NODE_INVENTORIES: {
            "metadata": {},
            "spec": {"source": "live", "counts": {"gpus": 0, "nics": 0, "vfs": 0, "fpgas": 0}},
        },
        DEVICES: {
            "metadata": {},
            "spec": {"type": "gpu", "index": 0, "pciBusID": "0000:01:00.0"},
        },
        RESOURCE_SLICES: {
            "metadata": {},
            "spec": {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": [{"name": "d"}]},
        },
        DEVICE_CLASSES: {"metadata": {}, "spec": {}},
        EVENTS: local | {"involvedObject": regarding, "reason": "Poison", "type": "Warning"},
        TAINT_RULES: {
            "metadata": {},
            "spec": {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "a", "effect": "NoSchedule"}},
        },
    }


def _request(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "exactly": {"deviceClassName": "poison.example.com", "allocationMode": "ExactCount", "count": 1},
    }


def _of_any_kind(maker: _Maker) -> Iterator[Poison]:
    """What metadata may hold."""
    deep = b'{"f:metadata":{"f:annotations":%s{}%s}}' % (b'{"f:a":' * _DEEP_FIELDS, b"}" * _DEEP_FIELDS)
    each = b",".join(b'"f:%06d":{}' % number for number in range(_LARGE // 16))
    wide = b'{"f:metadata":{"f:annotations":{%s}}}' % each
    for resource in maker.bases:
        for what, fields in (("deep-managed-fields", deep), ("wide-managed-fields", wide)):
            yield maker.make(resource, what, _managed(resource), raw={"FIELDS": fields})
        yield maker.make(resource, "many-owners", _own)
        yield maker.make(resource, "large-annotations", _annotate)
        yield maker.make(resource, "strange-metadata", _strange)


def _managed(resource: Resource) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        body["metadata"]["managedFields"] = [
            {
                "manager": "poison",
                "operation": "Update",
                "apiVersion": resource.api_version,
                "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": "FIELDS",
            }
        ]

    return change


def _own(body: dict[str, Any]) -> None:
    """As many owners as a request holds; each is a dictionary of its own to whoever reads it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    each = len(json.dumps(owner | {"uid": "00000"}))
    body["metadata"]["ownerReferences"] = [owner | {"uid": f"{number:05}"} for number in range(_LARGE // each)]


def _annotate(body: dict[str, Any]) -> None:
    body["metadata"]["annotations"] = {
        "rootport.dev/pending-reason": "A" * 100_000,
        "rootport.dev/pending-message": "\x1b[2J\u202e\n" * 10_000,
        "rootport.dev/applied-digest": "B" * 50_000,
    }


def _strange(body: dict[str, Any]) -> None:
    metadata = body["metadata"]
    metadata["labels"] = {"rootport.dev/node": "", "a.b.c/d": "", **{f"label-{n}": "x" * 63 for n in range(5000)}}
    metadata["finalizers"] = []
    metadata["generateName"] = "x"
    metadata["deletionGracePeriodSeconds"] = None


def _claims(maker: _Maker) -> Iterator[Poison]:
    for what, value in parameters().items():
        raw = {"PARAMETERS": value}
        yield maker.make(RESOURCE_CLAIMS, what, _configure, raw=raw, may_be_refused=True)
        # What a claim asks of Rootport is checked by a policy when the claim is made; what it was given is not.
        yield maker.make(RESOURCE_CLAIMS, f"given-{what}", raw=raw, status=_GIVEN, may_be_refused=True)
    full = parameters()["many-objects"]
    yield maker.make(RESOURCE_CLAIMS, "32-configs", lambda body: _configure(body, 32), raw={"PARAMETERS": full})
    yield maker.make(RESOURCE_CLAIMS, "32-requests", lambda body: _ask(body["spec"]))
    yield maker.make(RESOURCE_CLAIMS, "escaped-selectors", lambda body: _select(body["spec"]))


def _templates(maker: _Maker) -> Iterator[Poison]:
    for what, value in parameters().items():
        yield maker.make(
            RESOURCE_CLAIM_TEMPLATES,
            what,
            lambda body: _configure(body["spec"]),
            raw={"PARAMETERS": value},
            may_be_refused=True,
        )
    yield maker.make(RESOURCE_CLAIM_TEMPLATES, "32-requests", lambda body: _ask(body["spec"]["spec"]))


def _classes(maker: _Maker) -> Iterator[Poison]:
    def configure(body: dict[str, Any]) -> None:
        body["spec"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": "PARAMETERS"}}]

    for what, value in parameters().items():
        yield maker.make(DEVICE_CLASSES, what, configure, raw={"PARAMETERS": value}, may_be_refused=True)


def _configure(body: dict[str, Any], count: int = 1) -> None:
    body["spec"]["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": "PARAMETERS"}}] * count


def _ask(spec: dict[str, Any]) -> None:
    """As many requests and alternatives as there may be; the API server takes long to check more selectors."""
    one = {
        "deviceClassName": "poison.example.com",
        "selectors": [{"cel": {"expression": f'device.driver == "{"x" * 60}"'}} for _ in range(2)],
        "allocationMode": "ExactCount",
        "count": 1,
    }
    alternatives = [one | {"name": f"s{number}"} for number in range(8)]
    spec["devices"]["requests"] = [{"name": f"r{number}", "firstAvailable": alternatives} for number in range(32)]


def _select(spec: dict[str, Any]) -> None:
    """Texts that are six times as long in the API server's JSON as they were written: ``<`` becomes ``\\u003c``."""
    text = f'device.driver != "{"<" * 9000}"'
    requests = [_request(f"r{number}") for number in range(32)]
    for request in requests:
        request["exactly"]["selectors"] = [{"cel": {"expression": text}}] * 4
    spec["devices"]["requests"] = requests


_DEVICE: Final = {"driver": "rootport.dev", "pool": "nobody", "device": "gpu-0"}
_GIVEN: Final = {
    "allocation": {
        "devices": {
            "results": [{"request": "r"} | _DEVICE],
            "config": [{"source": "FromClaim", "opaque": {"driver": "rootport.dev", "parameters": "PARAMETERS"}}],
        }
    },
    "devices": [_DEVICE | {"data": "PARAMETERS"}],
}
"""A device of this driver, so that its own readers see the parameters too."""


def _pods(maker: _Maker) -> Iterator[Poison]:
    def escaped(body: dict[str, Any]) -> None:
        body["spec"]["containers"][0]["args"] = ["<" * _LARGE]

    def many_texts(body: dict[str, Any]) -> None:
        body["spec"]["containers"][0]["args"] = [""] * (_LARGE // 4)

    def tolerant(body: dict[str, Any]) -> None:
        body["spec"]["tolerations"] = [{"operator": "Exists"}] * (_LARGE // 60)

    def choosy(body: dict[str, Any]) -> None:
        term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
        required = {"nodeSelectorTerms": [term] * (_LARGE // 60)}
        body["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    def claiming(body: dict[str, Any]) -> None:
        entry = {"resourceClaimName": f"{maker.prefix}-deep-parameters"}
        body["spec"]["resourceClaims"] = [entry | {"name": f"c{number}"} for number in range(10_000)]

    def selective(body: dict[str, Any]) -> None:
        body["spec"]["nodeSelector"] = {f"key-{number}": "x" * 63 for number in range(10_000)}

    for what, change in (
        ("escaped-argument", escaped),
        ("many-texts", many_texts),
        ("many-tolerations", tolerant),
        ("many-terms", choosy),
        ("many-claims", claiming),
        ("large-node-selector", selective),
    ):
        yield maker.make(PODS, what, lambda body, change=change: _claiming(body, change), may_be_refused=True)


def _claiming(body: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    """Of pods without claims nothing is kept."""
    body["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "none"}]
    change(body)


def _nodes(maker: _Maker) -> Iterator[Poison]:
    def tainted(body: dict[str, Any]) -> None:
        body["spec"] = {"taints": [{"key": f"k{number}", "effect": "NoSchedule"} for number in range(10_000)]}

    yield maker.make(NODES, "many-taints", tainted)
    condition = {"type": "Ready", "status": "False", "reason": "A" * 1000, "message": "<" * (_LARGE // 2)}
    yield maker.make(NODES, "long-condition", status={"conditions": [condition]})


def _slices(maker: _Maker) -> Iterator[Poison]:
    def full(body: dict[str, Any]) -> None:
        attributes = {f"attribute{number}": {"string": "<" * 64} for number in range(32)}
        body["spec"]["devices"] = [{"name": f"d{number}", "attributes": attributes} for number in range(128)]

    yield maker.make(RESOURCE_SLICES, "full", full)


def _events(maker: _Maker) -> Iterator[Poison]:
    def spoil(body: dict[str, Any]) -> None:
        body |= {"reason": "FailedPrepareDynamicResources", "message": "<" * _LARGE}

    yield maker.make(EVENTS, "long-message", spoil)


def _joined(item: bytes, length: int) -> bytes:
    return b",".join([item] * (length // (len(item) + 1)))
