"""RDMA and SR-IOV device plugins: resources whose names an administrator chose, and Multus' networks.

Sources: Mellanox/k8s-rdma-shared-dev-plugin, README.md (``rdma/<name>``: every container with one unit has all RDMA
devices of the configuration's entry); k8snetworkplumbingwg/sriov-network-device-plugin, README.md (``resourcePrefix``,
``intel.com`` by default) and sriov-network-operator (``openshift.io``); NVIDIA's Network Operator
(``nvidia.com/hostdev``); k8snetworkplumbingwg/multus-cni, docs/how-to-use.md (the annotation's two
forms, ``net1``, ``net2``, …).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from driver.bounded_json import JsonError, parse_json
from driver.config.rdma import interface_name_error
from driver.convert.dialect import (
    Amount,
    Asked,
    Dialect,
    Meaning,
    PodFacts,
    PodNote,
    PodReading,
    Reading,
    Resource,
    Where,
)
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest, NicRequest
from driver.convert.settings import Settings
from driver.spelling import close_matches

__all__ = ["networks"]

_NAME: Final = "RDMA and SR-IOV device plugins"
_NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
_MAX_NETWORKS: Final = 32
_NEAR: Final = 0.9
"""How alike a misspelled name is (difflib's ratio): names of one domain have much in common anyway."""
_SHORT: Final = ("namespace", "name", "interface")
"""What the short form of a network can say."""
_MAX_ANNOTATION: Final = 16 * 1024
_SHARED: Final = "rdma/*"
_UNMAPPED: Final = (
    "nvidia.com/hostdev",
    "openshift.io/*",
    "mellanox.com/*",
    "intel.com/intel_sriov*",
    "intel.com/sriov*",
)
"""Names that these plugins' documentation uses for NICs and VFs; other names of their domains are other devices."""

_ELEMENT: Final = re.compile(
    r"(?:(?P<namespace>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/)?(?P<name>[a-z0-9][-a-z0-9.]{0,252})(?:@(?P<interface>[!-~]{1,15}))?",
    re.ASCII,
)
_WHOLE_NIC: Final = (
    "one NIC to itself, where the shared device plugin gave all NICs of this name to any number of containers. To share"
    " NICs, or where they have VFs, name it in the resource map"
)
_STAYS: Final = (
    "stays: Multus attaches the networks as before. A claim's RdmaConfig with `interface` takes the place of a network "
    "that moves the NIC itself"
)


@dataclass(frozen=True, slots=True)
class _Network:
    """A network of the pod.

    Attributes:
        name: As the pod names it, with its namespace if that is written.
        interface: The name of its interface in the pod.
        resource: The mapped resource whose devices it attaches; empty if nothing says which.
    """

    name: str
    interface: str
    resource: str


def networks(settings: Settings) -> Dialect:
    """Return the dialect, with the resources of the mapping file before those that need none."""
    mapped = [Resource(name=name, meaning=Meaning.NICS) for name in settings.resources]
    known = [Resource(name=name, meaning=Meaning.OTHER) for name in _UNMAPPED if name not in settings.resources]
    shared = [] if _SHARED in settings.resources else [Resource(name=_SHARED, meaning=Meaning.NICS)]
    return Dialect(
        name=_NAME,
        source="Mellanox/k8s-rdma-shared-dev-plugin, k8snetworkplumbingwg/sriov-network-device-plugin: README.md",
        resources=(*mapped, *shared, *known),
        read=_read,
        read_pod=_read_pod,
        notes=(PodNote(name=_NETWORKS),),
    )


def _read(asked: Asked) -> Reading:
    attached = asked.hints if isinstance(asked.hints, tuple) else ()
    nics: list[NicRequest] = []
    findings: list[Finding] = []
    for amount in asked.amounts:
        mapped = asked.pod.settings.resources.get(amount.resource.name)
        if amount.resource.meaning is Meaning.OTHER:
            text = (
                f"nothing says which NICs {amount.name} is: name it in the resource map, under resources, or under "
                "leftAlone if its device plugin stays" + _meant(amount.name, asked.pod.settings)
            )
            findings.append(asked.refused(amount, text))
        elif mapped is None:
            findings.append(asked.noted(amount, _WHOLE_NIC))
            nics.append(NicRequest(count=amount.value))
        else:
            found, finding = _with_interfaces(asked, amount, mapped, attached)
            nics += found
            findings += [] if finding is None else [finding]
    return Reading(request=DeviceRequest(nics=tuple(nics)), findings=tuple(findings))


def _meant(name: str, settings: Settings) -> str:
    near = close_matches(name, [*settings.resources, *settings.left_alone], cutoff=_NEAR)
    return f"; did you mean {near[0]}, which the map has?" if near else ""


def _with_interfaces(
    asked: Asked, amount: Amount, nic: NicRequest, attached: tuple[_Network, ...]
) -> tuple[list[NicRequest], Finding | None]:
    """Return the NICs of an amount, one request for each network that attaches one of them."""
    count = nic.count * amount.value
    own = [network for network in attached if network.resource == amount.resource.name]
    if not own:
        is_attached = amount.resource.name in asked.pod.settings.networks.values()
        unknown = [network.name for network in attached if not network.resource]
        if is_attached and unknown:
            return [], asked.refused(amount, _unknown(asked.pod, unknown[0]))
        return [replace(nic, count=count)], None
    if len(own) != count:
        text = f"{count} of them, and {len(own)} networks attach one: write as many, in pods of one such container"
        return [], asked.refused(amount, text)
    text = (
        f"the interface {', '.join(network.interface for network in own)} comes by RdmaConfig, with the addresses that"
        " it has on the host: addresses, VLAN and MAC of the network are not taken over. The node needs Rootport's CNI"
        " plugin"
    )
    return [replace(nic, count=1, interface=network.interface) for network in own], asked.noted(amount, text)


def _unknown(pod: PodFacts, network: str) -> str:
    """Return why it is not known which device a network attaches, and what to write."""
    listed = sorted(name for name in pod.settings.networks if name.endswith(f"/{network}"))
    if listed and not pod.namespace:
        return (
            f"the network {network} is of the pod's namespace, which the manifest does not name, and the resource map"
            f" has {listed[0]}: write metadata.namespace, or the namespace into the annotation"
        )
    return (
        f"nothing says whether the network {network} attaches one of these: list it in the resource map, under the"
        " networks of its resource, or take it out of the pod's annotation"
    )


def _read_pod(facts: PodFacts) -> PodReading:
    written = facts.annotations.get(_NETWORKS)
    if written is None:
        return PodReading()
    try:
        found = tuple(_parsed(written, facts.settings, facts.namespace))
    except ValueError as error:
        return PodReading(findings=(_finding(facts, Outcome.REFUSED, str(error)),))
    mapped = [network for network in found if network.resource]
    for network in mapped:
        if not any(_is_of(name, network.resource) for name in facts.resources):
            text = (
                f"no container asks for {network.resource}, which the network {network.name} attaches: write it in a "
                "container's limits, as network-resources-injector does when the pod is created"
            )
            return PodReading(hints=found, findings=(_finding(facts, Outcome.REFUSED, text),))
    if not mapped:
        return PodReading(hints=found, findings=(_finding(facts, Outcome.NOTED, _STAYS),))
    if len(mapped) < len(found):
        others = ", ".join(network.name for network in found if not network.resource)
        text = (
            f"a claim takes the place of some of them, and {others} has to stay: write the annotation with that alone"
        )
        return PodReading(hints=found, findings=(_finding(facts, Outcome.REFUSED, text),))
    text = "the claim's RdmaConfig moves the interfaces into the pod"
    return PodReading(hints=found, findings=(_finding(facts, Outcome.CONVERTED, text),), leaves=frozenset({_NETWORKS}))


def _is_of(name: str, pattern: str) -> bool:
    return name == pattern or (pattern.endswith("*") and len(name) >= len(pattern) and name.startswith(pattern[:-1]))


def _finding(facts: PodFacts, outcome: Outcome, text: str) -> Finding:
    return facts.finding(_NAME, Where.ANNOTATION, _NETWORKS, outcome, text)


def _parsed(written: str, settings: Settings, own_namespace: str) -> Iterator[_Network]:
    """Yield the networks of the annotation, which is a JSON list of objects or names with commas.

    A name without a namespace is of the pod's own (Multus, docs/how-to-use.md).

    Raises:
        ValueError: It is neither, or asks for something that a claim cannot say; the message says all.
    """
    if len(written) > _MAX_ANNOTATION:
        raise ValueError(f"more than {_MAX_ANNOTATION} characters")
    names: set[str] = set()
    elements = _json_elements(written) if written.lstrip().startswith("[") else _short_elements(written)
    for number, (namespace, name, interface, extra) in enumerate(elements, start=1):
        if number > _MAX_NETWORKS:
            raise ValueError(f"more than {_MAX_NETWORKS} networks")
        full = f"{namespace}/{name}" if namespace else name
        resource = settings.networks.get(f"{namespace or own_namespace}/{name}", "")
        if not resource and namespace in ("", own_namespace):
            resource = settings.networks.get(name, "")
        named = interface or f"net{number}"
        if resource and extra:
            raise ValueError(
                f"{full} sets {extra[0][:32]!r}, which no claim can set: take it out, or keep the device plugin"
            )
        if resource and (problem := interface_name_error(named)):
            raise ValueError(problem)
        if resource and named in names:
            raise ValueError(f"two networks have the interface {named}: give each a name of its own after @")
        names.add(named)
        yield _Network(full, named, resource)


def _short_elements(written: str) -> Iterator[tuple[str, str, str, list[str]]]:
    for part in written.split(",", _MAX_NETWORKS + 1):
        element = _ELEMENT.fullmatch(part.strip())
        if element is None:
            raise ValueError("expected names of networks with commas between them, or a JSON list of objects")
        yield element["namespace"] or "", element["name"], element["interface"] or "", []


def _json_elements(written: str) -> Iterator[tuple[str, str, str, list[str]]]:
    try:
        listed: Any = parse_json(written, max_bytes=_MAX_ANNOTATION)
    except JsonError as error:
        raise ValueError(f"cannot be read as JSON: {error}") from None
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, Mapping):
            raise ValueError("expected a JSON list of objects")  # noqa: TRY004 - about a text
        texts = [item.get(key, "") for key in _SHORT]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("expected a network's name, namespace and interface to be texts")
        namespace, name, interface = texts
        short = f"{namespace}/{name}" if namespace else name
        if _ELEMENT.fullmatch(f"{short}@{interface}" if interface else short) is None:
            raise ValueError("expected objects with a network's name, and its namespace and interface if at all")
        yield namespace, name, interface, sorted(str(key) for key in item if key not in _SHORT)
