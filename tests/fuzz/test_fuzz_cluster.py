"""What stands in the API server: claims through explain, nodes' inventories through the layout, bodies of reviews."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest

from controller.admission.envelope import BadReviewError, read_review
from controller.admission.review import review
from controller.conversion.decision import decide
from driver.api.resource_v1 import ResourceClaim
from driver.api.validation.errors import FieldError
from driver.bounded_json import JsonError, parse_json
from driver.cli.migrate_report import print_migration
from driver.config import parse_config
from driver.convert import DEFAULT, Outcome
from driver.errors import InputError, RootportError
from driver.explain.explainer import Explainer
from driver.explain.explanation import ObjectRef
from driver.explain.judge.pending import pending_subjects
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.tell.report import report
from driver.explain.tell.wire import to_wire
from driver.layout.slices import resource_slices
from driver.lint import lint_claim
from driver.migration.facts import ClusterObjects, node_facts
from driver.migration.steps import migration
from driver.migration.wire import migration_to_wire
from driver.objects.inventories import inventory_of, parse_node_inventory
from driver.objects.written_inventory import node_inventory
from tests.fuzz.fuzzing import Target, check_message
from tests.fuzz.mutation import hostile_value, json_mutated, spoilt
from tests.fuzz.samples import DUMP, MANIFESTS, objects
from tests.support.inventories import machine
from tests.support.json_patch import patched
from tests.support.machines import node
from tests.support.mig_machines import A100, H100, mig_gpu
from tests.support.slice_validation import validate_slices

pytestmark = pytest.mark.fuzz

_OF_CLASS: Final = "deviceclass.resource.kubernetes.io/gpu.rootport.dev"
_EXTENDED: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "ml", "name": "extended", "uid": "e"},
    "spec": {
        "initContainers": [{"resources": {"requests": {_OF_CLASS: "3"}}, "restartPolicy": "Always"}],
        "containers": [{"resources": {"requests": {"cpu": "1", _OF_CLASS: "1", "nvidia.com/gpu": 2}}}],
    },
    "status": {"phase": "Pending", "extendedResourceClaimStatus": {"resourceClaimName": "train"}},
}
_RESOURCES: Final = (
    {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}, "requests": {"nvidia.com/gpu": "2"}},
    {"limits": {"nvidia.com/mig-1g.10gb": 1}},
    {"requests": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "10Gi"}},
    {"limits": {"koordinator.sh/gpu": "200", "koordinator.sh/rdma": "100"}},
    {"limits": {"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-memory-ratio": "100"}},
)
_ASKING: Final = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "a-",
            "labels": {"koordinator.sh/gpu-isolation-provider": "HAMi-core"},
            "annotations": {"scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes": ["gpu", "rdma"]}'},
        },
        "spec": {
            "initContainers": [{"name": "init", "resources": first}],
            "containers": [{"name": "a", "resources": first}, {"name": "b", "resources": second}],
            "schedulerName": "koord-scheduler",
        },
    }
    for first in _RESOURCES
    for second in _RESOURCES
]
_OBJECTS: Final = [item for path in DUMP for item in objects(path)]
_CLAIMS: Final = [
    *(item for item in _OBJECTS if item["kind"] == "ResourceClaim"),
    *(item for path in MANIFESTS for item in objects(path) if item["kind"] == "ResourceClaim"),
]
_SELECTORS: Final = [
    'device.driver == "rootport.dev"',
    'device.attributes["rootport.dev"].type == "gpu"',
    'device.attributes["rootport.dev"].model.contains("H100")',
    'device.attributes["rootport.dev"].modle == "H100"',
    'device.capacity["rootport.dev"].memory.isGreaterThan(quantity("80Gi"))',
    'device.attributes["rootport.dev"].index > 100',
    'device.attributes["rootport.dev"].model == 5',
    "true ||",
    "[1, 2, 3].all(x, x > 0)",
]
_PARAMETERS: Final = [
    {"apiVersion": "rootport.dev/v1alpha1"} | fields
    for fields in (
        {"kind": "GpuConfig", "sharing": {"strategy": "mps", "mps": {}}},
        {"kind": "GpuConfig", "sharing": {"strategy": "timeSlicing", "timeSlicing": {"interval": "Long"}}},
        {"kind": "GpuConfig", "sharing": {"strategy": "hamiCore", "hamiCore": {}}},
        {"kind": "MigConfig"},
        {"kind": "FpgaConfig"},
        {
            "kind": "RdmaConfig",
            "interface": {"name": "rdma0", "mtu": 4200},
            "vf": {"mtu": 4200, "vlan": 5, "spoofCheck": True},
        },
    )
]


def _legal_spec(random: Random) -> Any:
    """A claim's spec as the API server takes it; what it asks for may be silly."""

    def wanted() -> dict[str, Any]:
        found: dict[str, Any] = {
            "deviceClassName": random.choice((*["gpu.rootport.dev"] * 6, *["rdma.rootport.dev"] * 3, "none"))
        }
        if random.randrange(2):
            expressions = random.sample(_SELECTORS, random.randint(1, 3))
            found["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
        if random.randrange(3) == 0:
            found["capacity"] = {
                "requests": {random.choice(("memory", "core", "x")): random.choice(("1", "40Gi", "1e18"))}
            }
        if random.randrange(3) == 0:
            found["tolerations"] = [{"operator": "Exists"}] * random.randint(1, 16)
        mode = random.choice(
            ({"allocationMode": "All"}, {"allocationMode": "ExactCount", "count": random.choice((1, 2, 32))})
        )
        return found | mode

    requests = [
        {"name": f"r{number}", "exactly": wanted()}
        if random.randrange(3)
        else {
            "name": f"r{number}",
            "firstAvailable": [{"name": f"s{n}"} | wanted() for n in range(random.randint(1, 8))],
        }
        for number in range(random.choice((1, 2, 3, 8)))
    ]
    names = [request["name"] for request in requests]
    constraints = [
        {"requests": random.sample(names, random.randint(1, len(names))), "matchAttribute": f"rootport.dev/{attribute}"}
        for attribute in random.sample(("model", "pcieSwitch", "type", "index", "missing"), random.randint(0, 3))
    ]
    return {"devices": {"requests": requests, "constraints": constraints}}


def _as_stored(data: bytes) -> Any:
    """What the API server may have passed on; None where that is no JSON."""
    try:
        return parse_json(data, max_bytes=2**21)
    except JsonError:
        return None


def test_a_claim_is_explained_or_refused() -> None:
    def make(random: Random) -> bytes:
        sample = random.choice(_CLAIMS)
        legal = random.randrange(2)
        claim = sample | {"spec": _legal_spec(random) if legal else json_mutated(random, sample["spec"], most=2)}
        if legal:
            claim.pop("status", None)
        others = [json_mutated(random, item, most=1) if random.randrange(8) == 0 else item for item in _OBJECTS]
        return json.dumps([claim, *others]).encode()

    def check(data: bytes) -> None:
        wires = _as_stored(data)
        if not isinstance(wires, list):
            return
        state = ClusterState()
        for wire in reversed(wires):
            kind, metadata = (wire.get(key) if isinstance(wire, dict) else None for key in ("kind", "metadata"))
            if (
                kind in [known.value for known in Kind]
                and isinstance(metadata, dict)
                and isinstance(metadata.get("name"), str)
            ):
                state.put(Kind(kind), wire)
        metadata = wires[0].get("metadata") if isinstance(wires[0], dict) else None
        namespace, name = (metadata.get(key) if isinstance(metadata, dict) else 0 for key in ("namespace", "name"))
        if not (isinstance(namespace, str) and isinstance(name, str) and len(namespace) < 64 and len(name) < 254):
            return  # nobody can ask for it
        subject = ObjectRef(kind="ResourceClaim", namespace=namespace, name=name)
        try:
            explanation = Explainer(state).explain(subject)
        except RootportError as error:
            check_message(error)
            return
        json.dumps(to_wire(explanation))
        report(explanation)

    Target(name="explain", make=make, check=check, examples=60, seconds=5).run()


def test_a_pod_with_extended_resources_is_explained_or_refused() -> None:
    def make(random: Random) -> bytes:
        pod = {**_EXTENDED, "status": {}} if random.randrange(2) else _EXTENDED
        return json.dumps(json_mutated(random, pod, most=2)).encode()

    def check(data: bytes) -> None:
        wire = _as_stored(data)
        if not isinstance(wire, dict):
            return
        state = ClusterState()
        for item in _OBJECTS:
            state.put(Kind(item["kind"]), item)
        state.put(Kind.POD, wire)
        for subject in pending_subjects(state, kind="Pod"):
            report(Explainer(state, proposals=False).explain(subject))

    Target(name="extended", make=make, check=check, examples=30, seconds=5).run()


def test_a_claim_is_linted() -> None:
    def check(data: bytes) -> None:
        with suppress(ValueError):
            lint_claim(ResourceClaim.model_validate(_as_stored(data)))

    Target(name="lint", make=lambda random: spoilt(random, random.choice(_CLAIMS)), check=check).run()


def test_an_inventory_gives_valid_slices_or_is_refused() -> None:
    machines = [machine("azure-nd-h100-v5"), machine("large"), node(mig_gpu("01", H100)), node(mig_gpu("01", A100))]
    wires = [json.loads(json.dumps(node_inventory(inventory))) for inventory in machines]

    def make(random: Random) -> bytes:
        return json.dumps(json_mutated(random, random.choice(wires))).encode()

    def check(data: bytes) -> None:
        try:
            slices = resource_slices(inventory_of(parse_node_inventory(_as_stored(data))))
        except InputError as error:
            check_message(error)
        else:
            assert validate_slices(slices) == ()

    Target(name="inventories", make=make, check=check, examples=50, seconds=5).run()


def test_a_review_is_answered_or_refused() -> None:
    def make(random: Random) -> bytes:
        claim = random.choice(_CLAIMS)
        kind = random.choice(("ResourceClaim", "ResourceClaimTemplate", "DeviceClass"))
        stored = claim | {
            "kind": kind,
            "spec": {"spec": claim["spec"]} if kind == "ResourceClaimTemplate" else claim["spec"],
        }
        request = {
            "uid": "1",
            "operation": "CREATE",
            "name": "a",
            "namespace": "b",
            "object": json_mutated(random, stored),
        }
        return spoilt(random, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})

    def check(data: bytes) -> None:
        with suppress(BadReviewError):
            answer = review(data)
            assert isinstance(answer["response"]["allowed"], bool)
            json.dumps(answer).encode()

    Target(name="reviews", make=make, check=check, examples=400).run()


def test_a_pod_is_converted_once_or_refused_or_stays_as_it_is() -> None:
    def make(random: Random) -> bytes:
        stored = json_mutated(random, random.choice(_ASKING), most=6)
        request = {"uid": "1", "operation": "CREATE", "namespace": "b", "object": stored}
        return spoilt(random, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})

    def check(data: bytes) -> None:
        with suppress(BadReviewError):
            request = read_review(data)
            decision = decide(request, DEFAULT)
            assert bool(decision.errors) == (decision.outcome is Outcome.REFUSED)
            assert all(item["metadata"]["namespace"] == request.namespace for item in decision.templates)
            made = patched(request.object, json.loads(json.dumps(decision.patch)))
            again = decide(replace(request, object=made), DEFAULT)
            assert not again.patch

    Target(name="pods", make=make, check=check, examples=400).run()


def test_opaque_parameters_are_a_config_or_mistakes() -> None:
    def make(random: Random) -> bytes:
        value = json_mutated(random, random.choice(_PARAMETERS)) if random.randrange(5) else hostile_value(random)
        return json.dumps(value).encode()

    def check(data: bytes) -> None:
        found = parse_config(_as_stored(data), "spec")
        if isinstance(found, tuple):
            assert found
            assert all(isinstance(error, FieldError) and len(str(error)) < 20_000 for error in found)

    Target(name="parameters", make=make, check=check, examples=1000).run()


def test_a_node_on_its_way_has_steps_whatever_its_objects_are() -> None:
    node_object = {
        "metadata": {"name": "n", "labels": {"nvidia.com/mig.config": "all"}},
        "spec": {"unschedulable": True},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}},
    }
    owner = [{"kind": "DaemonSet", "name": "plugin", "controller": True}]
    pod = {
        "metadata": {"namespace": "ml", "name": "p", "ownerReferences": owner},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running", "extendedResourceClaimStatus": {"requestMappings": [{"resourceName": "x"}]}},
    }
    volumes = [{"hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    template = {"spec": {"nodeSelector": {"gpu": "on"}, "affinity": {"nodeAffinity": {}}, "volumes": volumes}}
    daemon_set = {"metadata": {"namespace": "ml", "name": "plugin"}, "spec": {"template": template}}
    results = [{"driver": "rootport.dev", "pool": "n", "device": "d"}]
    claim = {
        "metadata": {"namespace": "ml", "name": "c"},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "p"}],
        },
    }
    published = {"spec": {"driver": "rootport.dev", "devices": [{"name": "d", "taints": [{"key": "x"}]}]}}
    rivals = [{"name": "nvidia.com/gpu", "kind": "DevicePlugin", "message": "there"}]
    inventory = {"status": {"conditions": [{"type": "Ready", "status": "False"}], "rivals": rivals}}
    whole = [node_object, pod, claim, published, daemon_set, inventory]

    def make(random: Random) -> bytes:
        return json.dumps([json_mutated(random, item, most=3) for item in whole]).encode()

    def check(data: bytes) -> None:
        wires = _as_stored(data)
        if not isinstance(wires, list) or len(wires) != len(whole) or not all(isinstance(item, dict) for item in wires):
            return
        stored, pod, claim, published, daemon_set, inventory = wires
        objects = ClusterObjects(
            node=stored,
            pods=[pod],
            claims=[claim],
            slices=[published],
            daemon_sets=[daemon_set],
            inventory=inventory,
        )
        for is_back in (False, True):
            found = migration(node_facts(objects), is_back=is_back)
            json.dumps(migration_to_wire(found))
            for step in found.steps:
                shlex.split(step.command)
            print_migration(found)

    Target(name="migrate", make=make, check=check, examples=200, seconds=5).run()
