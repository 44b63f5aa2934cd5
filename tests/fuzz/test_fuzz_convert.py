"""The converter, on objects that ask for devices in every dialect and are wrong in places."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from driver.api.resource_v1 import ResourceClaimTemplate
from driver.api.validation.claims import validate_claim_template
from driver.bounded_json import JsonError, parse_json
from driver.convert import Outcome, convert
from driver.convert.dialect import Where
from driver.convert.dialects import DIALECTS
from driver.convert.other_drivers.names import NAMES
from driver.convert.other_drivers.requests import CLASSES, REFUSED_CLASSES
from driver.ratios import SizeCounter, Sizes, restored, rewritten
from tests.fuzz.fuzzing import Target
from tests.fuzz.mutation import hostile_value, json_mutated, mutated

pytestmark = pytest.mark.fuzz

_NAMES = [line.name.replace("*", "1g.10gb") for dialect in DIALECTS for line in dialect.resources]
_NOTES = [note for dialect in DIALECTS for note in dialect.notes]
_SCHEDULERS = [name for dialect in DIALECTS for name in dialect.schedulers]
_AMOUNTS = (1, "1", "50", 100, "200", "4096", "16Gi", "1e2")
_READ = [(domain, name) for (domain, _), parts in sorted(NAMES.items()) for name in sorted(parts["attributes"])] + [
    ("resource.kubernetes.io", "pciBusID"),
    ("gce.dra.net", "block"),
    ("rootport.dev", "model"),
]
_TEXTS = (
    '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}',
    '{"rdma": {"vfSelector": {}, "allocateStrategy": "RequestsAsCount"}, "gpu": {"requiredTopologyScope": "PCIe"}}',
    '{"allocatePolicy": "Restricted"}',
    "A100,V100",
    "true",
)
_CLASSES = (*CLASSES, *REFUSED_CLASSES, "my-class", "gpu.rootport.dev")
_TERMS = (
    *(f'device.attributes["{domain}"].{name}' for domain, name in _READ),
    *(f'has(device.attributes["{domain}"].{name})' for domain, name in _READ),
    *(f'"{name}" in device.attributes["{domain}"]' for domain, name in _READ),
    *(f'device.attributes[?"{domain}"].?{name}.orValue("x") == "x"' for domain, name in _READ),
    'device.driver == "gpu.nvidia.com"',
    'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("1Gi")) > 0',
    "true",
)
_PARAMETERS = (
    ("gpu.nvidia.com", {"kind": "GpuConfig", "sharing": {"strategy": "MPS", "mpsConfig": {}}}),
    ("gpu.nvidia.com", {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}),
    ("gpu.nvidia.com", {"kind": "MigDeviceConfig"}),
    ("dra.net", {"interface": {"name": "rdma0", "mtu": 9000}}),
)


def _container(random: Random, name: str) -> dict[str, Any]:
    limits = {random.choice(_NAMES): random.choice(_AMOUNTS) for _ in range(random.randrange(4))}
    return {"name": name, "resources": {"limits": limits, "requests": dict(limits)}}


def _object(random: Random) -> Any:
    spec = {
        "schedulerName": random.choice((*_SCHEDULERS, "default-scheduler")),
        "containers": [_container(random, f"c{number}") for number in range(random.randrange(1, 4))],
        "initContainers": [_container(random, "init")],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}],
    }
    metadata: dict[str, Any] = {"namespace": "ml", "annotations": {}, "labels": {}}
    for note in random.sample(_NOTES, min(3, len(_NOTES))):
        where = "annotations" if note.where is Where.ANNOTATION else "labels"
        metadata[where][note.name.replace("*", "x")] = random.choice(_TEXTS)
    if random.randrange(2):
        return {"kind": "Pod", "metadata": metadata, "spec": spec}
    template = {"metadata": metadata, "spec": spec}
    return {"kind": "List", "items": [{"kind": "Deployment", "spec": {"template": template}}, hostile_value(random)]}


def _make(random: Random) -> bytes:
    text = json.dumps(json_mutated(random, _object(random))).encode(errors="surrogatepass")
    return text if random.randrange(4) else mutated(random, text, most=2)


def _check(data: bytes) -> None:
    try:
        value = parse_json(data, max_bytes=len(data))
    except JsonError:
        return
    if not isinstance(value, dict):
        return
    before = repr(value)
    conversion = convert(value)
    assert repr(value) == before
    assert len(json.dumps([str(finding) for finding in conversion.findings])) < 100_000 + 10 * len(data)
    if conversion.outcome in (Outcome.UNCHANGED, Outcome.REFUSED):
        assert conversion.object is value
        return
    json.dumps(conversion.object)
    assert convert(conversion.object).outcome is Outcome.UNCHANGED
    for wire in conversion.templates:
        wire = {key: wire[key] for key in ("metadata", "spec")}  # noqa: PLW2901
        wire["metadata"] = {**wire["metadata"], "namespace": "ml"}
        assert validate_claim_template(ResourceClaimTemplate.model_validate(wire)) == ()


def _expression(random: Random) -> str:
    terms = [random.choice(_TERMS) for _ in range(random.randrange(1, 4))]
    terms = [
        f"{term} == {random.choice(('true', '1', 'device.driver'))}" if "==" not in term else term for term in terms
    ]
    return random.choice((" && ", " || ", " && !", "\n&& // x\n")).join(terms)


def _claim(random: Random) -> Any:
    requests: list[Any] = []
    for number in range(random.randrange(1, 4)):
        selectors = [{"cel": {"expression": _expression(random)}} for _ in range(random.randrange(3))]
        exactly = {"deviceClassName": random.choice(_CLASSES), "selectors": selectors, "count": random.randrange(3)}
        requests.append(
            random.choice(
                (
                    {"name": f"r{number}", "exactly": exactly},
                    {"name": f"r{number}", "firstAvailable": [{"name": "a", **exactly}]},
                    {"name": f"r{number}", **exactly},
                )
            )
        )
    driver, parameters = random.choice(_PARAMETERS)
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", **parameters}
    domain, name = random.choice(_READ)
    devices = {
        "requests": requests,
        "constraints": [{random.choice(("matchAttribute", "distinctAttribute")): f"{domain}/{name}"}],
        "config": [{"requests": ["r0"], "opaque": {"driver": driver, "parameters": parameters}}],
    }
    version = random.choice(("v1", "v1beta1", "v1beta2"))
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaim", "spec": {"devices": devices}}


def _make_claim(random: Random) -> bytes:
    return json.dumps(json_mutated(random, _claim(random)) if random.randrange(2) else _claim(random)).encode(
        errors="surrogatepass"
    )


def test_a_claim_of_another_driver_is_converted_refused_or_left_alone() -> None:
    Target(name="convert-claims", make=_make_claim, check=_check, examples=300).run()


def _make_percentages(random: Random) -> bytes:
    requests: list[Any] = []
    for number in range(random.randrange(1, 5)):
        name, of = random.choice(
            (("gpu-ratio", "memoryRatio"), ("gpu-ratio-mps", "memoryRatio"), ("rdma", "bandwidthRatio"))
        )
        asked = {"deviceClassName": f"{name}.rootport.dev", "capacity": {"requests": {of: random.choice(_AMOUNTS)}}}
        listed = {"name": f"r{number}", "firstAvailable": [{"name": "a", **asked}]}
        requests.append(random.choice(({"name": f"r{number}", "exactly": asked}, listed)))
    devices = {"requests": requests, "constraints": [{"requests": ["r0", "r1/a"], "matchAttribute": "rootport.dev/a"}]}
    return json.dumps(json_mutated(random, devices)).encode(errors="surrogatepass")


def _sizes() -> Sizes:
    counter = SizeCounter()
    for kind, capacity, value in (("gpu", "memory", "80Gi"), ("gpu", "memory", "15Gi"), ("rdma", "bandwidth", "400G")):
        attributes = {"type": {"string": kind}}
        counter.add(
            {"attributes": attributes, "capacity": {capacity: {"value": value}}, "allowMultipleAllocations": True}
        )
    return counter.sizes()


def _check_percentages(data: bytes) -> None:
    try:
        devices = parse_json(data, max_bytes=len(data))
    except JsonError:
        return
    if not isinstance(devices, dict):
        return
    before = repr(devices)
    found = rewritten(devices, _sizes())
    assert repr(devices) == before
    assert rewritten(found.devices, _sizes()).devices is found.devices
    restored(devices)
    if found.is_rewritten:
        json.dumps(found.devices)
        assert restored(found.devices).keys() == devices.keys()
        assert all(
            len(item.get("firstAvailable") or ()) <= 8
            for item in found.devices["requests"]
            if isinstance(item, dict) and item not in devices["requests"]
        )


def test_percentages_of_a_claim_become_lists_once_or_stay() -> None:
    Target(name="ratios", make=_make_percentages, check=_check_percentages, examples=300).run()


def test_an_object_is_converted_refused_or_left_alone() -> None:
    Target(name="convert", make=_make, check=_check, examples=300).run()
