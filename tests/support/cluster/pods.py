"""Manifests of claims and pods for the tests, as text for ``kubectl apply``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from tests.support.cluster.hardware import switch_of

__all__ = ["claim", "gpu_claim", "gpu_class", "manifest", "nic_claim", "pod", "template"]


def manifest(*objects: dict[str, Any]) -> str:
    """Objects as one stream of YAML documents."""
    text: str = yaml.safe_dump_all(objects)
    return text


def _spec(requests: dict[str, int]) -> dict[str, Any]:
    names = {"gpu": "gpu.rootport.dev", "nic": "rdma.rootport.dev"}
    return {
        "devices": {
            "requests": [
                {"name": kind, "exactly": {"deviceClassName": names[kind], "count": count}}
                for kind, count in requests.items()
            ]
        }
    }


def claim(name: str, **requests: int) -> dict[str, Any]:
    """A ResourceClaim for so many of each kind, ``gpu`` and ``nic``; one GPU unless told."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": _spec(requests or {"gpu": 1}),
    }


def template(name: str, **requests: int) -> dict[str, Any]:
    """A ResourceClaimTemplate likewise."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": _spec(requests or {"gpu": 1})},
    }


def gpu_claim(
    name: str,
    gpu: str,
    *,
    type_: str = "gpu",
    profile: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    **capacity: str,
) -> dict[str, Any]:
    """A ResourceClaim for a part of one certain GPU, or for all of it.

    Args:
        name: The claim's.
        gpu: The GPU's PCI address.
        type_: ``gpu``, ``gpu-ratio``, these with the ending of a strategy's class, ``mig``, or
            the name of a class of another domain.
        profile: Of a MIG partition.
        parameters: Opaque parameters without apiVersion.
        capacity: The capacity requests, such as ``core="50"``.
    """
    # A partition does not name its GPU: on the test node each GPU has a switch of its own.
    terms = [f'device.attributes["rootport.dev"].pcieSwitch == "{switch_of(gpu)}"']
    if profile is not None:
        terms.append(f'device.attributes["rootport.dev"].profile == "{profile}"')
    request: dict[str, Any] = {
        "deviceClassName": type_ if "." in type_ else f"{type_}.rootport.dev",
        "selectors": [{"cel": {"expression": " && ".join(terms)}}],
    }
    if capacity:
        request["capacity"] = {"requests": capacity}
    devices: dict[str, Any] = {"requests": [{"name": "gpu", "exactly": request}]}
    if parameters is not None:
        opaque = {"driver": "rootport.dev", "parameters": {"apiVersion": "rootport.dev/v1alpha1", **parameters}}
        devices["config"] = [{"requests": ["gpu"], "opaque": opaque}]
    made = claim(name)
    made["spec"] = {"devices": devices}
    return made


def gpu_class(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """An administrator's own DeviceClass of GPUs, with opaque parameters without apiVersion."""
    opaque = {"driver": "rootport.dev", "parameters": {"apiVersion": "rootport.dev/v1alpha1", **parameters}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {
            "selectors": [{"cel": {"expression": 'device.attributes["rootport.dev"].type == "gpu"'}}],
            "config": [{"opaque": opaque}],
        },
    }


def nic_claim(
    name: str,
    *,
    class_: str = "rdma-vf",
    address: str | None = None,
    parent: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    **capacity: str,
) -> dict[str, Any]:
    """A ResourceClaim for one NIC, or for any VF.

    Args:
        name: The claim's.
        class_: ``rdma`` or ``rdma-vf``.
        address: The NIC's PCI address; any without.
        parent: The PCI address of the NIC that the VF is of; any without.
        parameters: Of the RdmaConfig, without its header.
        capacity: The capacity requests, such as ``bandwidth="100G"``.
    """
    terms = []
    if address is not None:
        terms.append(f'device.attributes["resource.kubernetes.io"].pciBusID == "{address}"')
    if parent is not None:
        terms.append(f'device.attributes["rootport.dev"].parent == "{parent}"')
    request: dict[str, Any] = {
        "deviceClassName": f"{class_}.rootport.dev",
        "selectors": [{"cel": {"expression": term}} for term in terms],
    }
    if capacity:
        request["capacity"] = {"requests": capacity}
    devices: dict[str, Any] = {"requests": [{"name": "nic", "exactly": request}]}
    if parameters is not None:
        body = {"apiVersion": "rootport.dev/v1alpha1", "kind": "RdmaConfig", **parameters}
        devices["config"] = [{"requests": ["nic"], "opaque": {"driver": "rootport.dev", "parameters": body}}]
    made = claim(name)
    made["spec"] = {"devices": devices}
    return made


def pod(name: str, *, claim: str | None = None, template: str | None = None, command: str = "") -> dict[str, Any]:
    """A busybox pod whose container has one claim, which it names ``devices``; it ends at once when deleted.

    Without a command it sleeps, and ends by itself when it is asked to. With one it is killed: then the API server
    forgets it at once, so that its claim may be given away while its container is still there.
    """
    source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": "rootport"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0 if command else 10,
            "resourceClaims": [{"name": "devices", **source}],
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1.37",
                    "command": ["sh", "-c", command or "trap 'exit 0' TERM; sleep 100000 & wait"],
                    "resources": {"claims": [{"name": "devices"}]},
                }
            ],
        },
    }
