"""GPUs in parts, on the real node: shares fill a GPU and no more, modes exclude each other, and nothing is left."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.resources import EVENTS, PODS, RESOURCE_CLAIMS
from tests.support.cluster.hardware import FakeHost
from tests.support.cluster.ledger import held_of, oversold
from tests.support.cluster.pods import gpu_claim, gpu_class, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.cluster.strategies import offering

SEQUENCES: Final = 100
STEPS: Final = 4
STRATEGIES: Final = {"timeSlicing": "", "mps": "-mps", "hamiCore": "-hami-core"}
"""Strategy to the ending of its classes."""


@pytest.fixture(scope="module", autouse=True)
def options(running: RunningRootport) -> Iterator[tuple[str, ...]]:
    """Of the plugin, while the first four GPUs of the node are time-sliced and the others have other strategies."""
    with offering(running, mps=running.host.gpus[4:6], hamiCore=running.host.gpus[6:]) as plugin:
        yield plugin


def strategy_of(host: FakeHost, gpu: str) -> str:
    return ("timeSlicing", "timeSlicing", "mps", "hamiCore")[host.gpus.index(gpu) // 2]


def apply(rootport: RunningRootport, *objects: dict[str, Any]) -> None:
    if objects:
        rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))


def start(rootport: RunningRootport, name: str, gpu: str, **claim: Any) -> None:
    """A pod, and a claim of the same name for a part of the GPU."""
    apply(rootport, gpu_claim(name, gpu, **claim), pod(name, claim=name))


def remove(rootport: RunningRootport, *names: str) -> None:
    objects = [f"{kind}/{name}" for name in names for kind in ("pod", "resourceclaim")]
    rootport.cluster.kubectl("delete", *objects)


def states(rootport: RunningRootport) -> dict[str, str]:
    """Pod to Running, Unschedulable, or what it is otherwise."""
    found = {}
    for item in rootport.cluster.list(PODS):
        conditions = {condition["type"]: condition for condition in item["status"].get("conditions", [])}
        unschedulable = conditions.get("PodScheduled", {}).get("reason") == "Unschedulable"
        found[item["metadata"]["name"]] = "Unschedulable" if unschedulable else item["status"]["phase"]
    return found


def settle(rootport: RunningRootport, expected: dict[str, str] | None = None) -> dict[str, str]:
    """Wait until every pod runs or cannot be scheduled, or until the pods are as expected; then check the books."""

    def settled() -> bool:
        found = states(rootport)
        if expected is not None:
            return found == expected
        return all(state in ("Running", "Unschedulable") for state in found.values())

    try:
        wait_until(f"the pods have settled ({expected})", settled, timeout_s=60)
    except TimeoutError as error:
        story = rootport.cluster.kubectl("describe", "pods,resourceclaims", check=False)
        raise TimeoutError(f"{error}\n{states(rootport)}\n{story[-6000:]}") from None
    check_books(rootport)
    return states(rootport)


def check_books(rootport: RunningRootport) -> None:
    claims = rootport.cluster.list(RESOURCE_CLAIMS)
    slices = rootport.slices()
    assert oversold(claims, slices) == []
    assert mixed(claims, slices) == []


def mixed(claims: Sequence[dict[str, Any]], slices: Sequence[dict[str, Any]]) -> list[str]:
    """Each GPU that claims of more than one strategy's classes hold at once, or that offers them another one."""
    devices = {device["name"]: device["attributes"] for part in slices for device in part["spec"].get("devices", ())}
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for item in claims:
        (request,) = item["spec"]["devices"]["requests"]
        class_ = request["exactly"]["deviceClassName"].removesuffix(".rootport.dev")
        for result in (item.get("status", {}).get("allocation") or {"devices": {"results": []}})["devices"]["results"]:
            attributes = devices[result["device"]]
            type_ = attributes["type"]["string"]
            if type_ in ("gpu", "gpu-ratio") and class_.startswith(type_):
                (wanted,) = (name for name, ending in STRATEGIES.items() if class_.removeprefix(type_) == ending)
                # Each GPU has a switch of its own on this node.
                gpu = found[attributes["pcieSwitch"]["string"]]
                gpu[item["metadata"]["name"]] = wanted
                gpu[f"offered to {item['metadata']['name']}"] = attributes["sharingStrategy"]["string"]
    return [f"{gpu}: {strategies}" for gpu, strategies in found.items() if len(set(strategies.values())) > 1]


def refusals(rootport: RunningRootport, prefix: str) -> list[str]:
    """What the node has said against claims of pods that were bound to it, whether or not it prepared them later."""
    found = rootport.cluster.list(EVENTS, field_selector="reason=FailedPrepareDynamicResources")
    return [item["message"] for item in found if item["involvedObject"]["name"].startswith(prefix)]


def status_data(rootport: RunningRootport, claim: str) -> dict[str, Any]:
    """What the claim's status says about its one device; waits until it says something."""

    def devices() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = rootport.cluster.get("resourceclaim", claim).get("status", {}).get("devices", [])
        return found

    wait_until(f"the status of claim {claim} tells its device", lambda: bool(devices()), timeout_s=30)
    (device,) = devices()
    return device


def events(rootport: RunningRootport, name: str) -> str:
    found = rootport.cluster.list(EVENTS, field_selector=f"involvedObject.name={name}")
    return "\n".join(item["message"] for item in found)


@pytest.mark.parametrize(
    ("type_", "sizes"),
    [
        ("gpu", [{"core": "50", "memory": "30Gi"}, {"core": "30", "memory": "20Gi"}, {"core": "20", "memory": "20Gi"}]),
        ("gpu-ratio", [{"core": "25", "memoryRatio": "25"}] * 4),
        ("gpu-ratio", [{"core": "1", "memoryRatio": "60"}, {"core": "1", "memoryRatio": "40"}]),
    ],
    ids=["core-and-bytes", "quarters", "all-memory"],
)
def test_shares_fill_a_gpu_to_exactly_its_capacity_and_no_further(
    rootport: RunningRootport, type_: str, sizes: list[dict[str, str]]
) -> None:
    gpu = rootport.host.gpus[0]
    names = [f"share-{number}" for number in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        start(rootport, name, gpu, type_=type_, **size)
    settle(rootport, dict.fromkeys(names, "Running"))
    least = {"core": "1", "memoryRatio": "1"} if type_ == "gpu-ratio" else {"core": "1", "memory": "1Mi"}

    start(rootport, "one-more", gpu, type_=type_, **least)

    settle(rootport, dict.fromkeys(names, "Running") | {"one-more": "Unschedulable"})
    claims = rootport.cluster.list(RESOURCE_CLAIMS)
    (full,) = {
        sum(amount for (_, name), amount in held_of(claims, rootport.slices()).capacity.items() if name == capacity)
        for capacity in (("memoryRatio",) if sizes[0]["core"] == "1" else ("core",))
    }
    assert full == 100
    remove(rootport, names[0])
    settle(rootport, dict.fromkeys([*names[1:], "one-more"], "Running"))


def test_shares_of_memory_alone_and_one_with_all_of_the_core_have_one_gpu_together(rootport: RunningRootport) -> None:
    gpu = rootport.host.gpus[0]
    start(rootport, "one", gpu, memory="30Gi")
    start(rootport, "two", gpu, memory="30Gi")
    start(rootport, "busy", gpu, core="100", memory="10Gi")
    settle(rootport, dict.fromkeys(("one", "two", "busy"), "Running"))
    data = status_data(rootport, "one")["data"]
    assert (data["mode"], data["core"]) == ("shared", 0)

    start(rootport, "more-core", gpu, core="1", memory="1Gi")
    start(rootport, "everything", gpu)
    start(rootport, "three", gpu, memory="1Gi")

    running = dict.fromkeys(("one", "two", "busy", "three"), "Running")
    settle(rootport, running | dict.fromkeys(("more-core", "everything"), "Unschedulable"))


MODES: Final[dict[str, dict[str, Any]]] = {
    "whole": {},
    "share": {"core": "10", "memory": "1Gi"},
    "ratio": {"type_": "gpu-ratio", "core": "10", "memoryRatio": "10"},
    "mig": {"type_": "mig", "profile": "1g.10gb"},
}


@pytest.mark.parametrize("first", MODES)
def test_a_gpu_in_one_mode_is_given_in_no_other(rootport: RunningRootport, first: str) -> None:
    gpu = rootport.host.gpus[1]
    others = [mode for mode in MODES if mode != first and {first, mode} != {"whole", "share"}]
    start(rootport, first, gpu, **MODES[first])
    settle(rootport, {first: "Running"})

    for other in others:
        start(rootport, other, gpu, **MODES[other])
    settle(rootport, {first: "Running"} | dict.fromkeys(others, "Unschedulable"))
    remove(rootport, *others[1:], first)

    settle(rootport, {others[0]: "Running"})


def test_a_whole_gpu_has_no_room_for_a_share(rootport: RunningRootport) -> None:
    gpu = rootport.host.gpus[1]
    start(rootport, "whole", gpu)
    settle(rootport, {"whole": "Running"})
    start(rootport, "share", gpu, core="1", memory="1Mi")
    settle(rootport, {"whole": "Running", "share": "Unschedulable"})


def test_partitions_fill_a_gpu_and_the_container_sees_its_own_alone(rootport: RunningRootport) -> None:
    gpu = rootport.host.gpus[2]
    for name, profile in (("half", "3g.40gb"), ("other-half", "3g.40gb"), ("eighth", "1g.10gb")):
        start(rootport, name, gpu, type_="mig", profile=profile)
    found = settle(rootport)

    assert sorted(found.values()) == ["Running", "Running", "Unschedulable"]
    running = [name for name, state in found.items() if state == "Running"]
    nodes = {
        name: rootport.cluster.kubectl("exec", name, "--", "sh", "-c", "ls /dev/nvidia-caps /dev/nvidia[0-9]*")
        for name in running
    }
    assert len(set(nodes.values())) == len(running), "each has capability nodes of its own"
    assert all("/dev/nvidia2" in text for text in nodes.values())
    device = status_data(rootport, running[0])
    assert device["data"]["isolation"] == {
        "state": "enforced",
        "by": "MIG",
        "version": device["data"]["isolation"]["version"],
    }


def test_the_claim_s_status_says_whether_the_limit_is_enforced(rootport: RunningRootport) -> None:
    gpu = rootport.host.gpus[3]
    start(rootport, "advisory", gpu, core="50", memory="10Gi")
    start(rootport, "whole", rootport.host.gpus[1])
    settle(rootport, {"advisory": "Running", "whole": "Running"})

    share, whole = status_data(rootport, "advisory"), status_data(rootport, "whole")

    assert share["data"]["isolation"]["state"] == "advisory"
    assert whole["data"]["isolation"]["state"] == "enforced"
    assert share["shareID"] in json.dumps(rootport.cluster.get("resourceclaim", "advisory")["status"]["allocation"])
    (condition,) = [item for item in share["conditions"] if item["type"] == "Isolated"]
    assert condition["status"] == "False"


def test_mps_runs_from_the_first_share_to_the_last(rootport: RunningRootport) -> None:
    gpu = rootport.host.gpus[5]
    for name in ("first", "second"):
        start(rootport, name, gpu, type_="gpu-mps", core="50", memory="30Gi")
    settle(rootport, {"first": "Running", "second": "Running"})
    assert len(rootport.mps_daemons()) == 1
    pipes = {
        rootport.cluster.kubectl("exec", name, "--", "sh", "-c", "ls $CUDA_MPS_PIPE_DIRECTORY")
        for name in ("first", "second")
    }
    assert len(pipes) == 1
    assert "control" in pipes.pop()
    assert status_data(rootport, "second")["data"]["isolation"]["by"] == "MPS"

    (daemon,) = rootport.mps_daemons()
    os.kill(daemon, signal.SIGKILL)
    wait_until("another daemon runs", lambda: set(rootport.mps_daemons()) - {daemon}, timeout_s=60)

    remove(rootport, "first")
    assert len(rootport.mps_daemons()) == 1
    remove(rootport, "second")
    wait_until("the MPS daemon has ended", lambda: not rootport.mps_daemons())


@pytest.mark.parametrize("number", [0, 4, 6], ids=list(STRATEGIES))
def test_shares_of_another_strategy_are_not_placed_on_a_gpu(rootport: RunningRootport, number: int) -> None:
    gpu = rootport.host.gpus[number]
    expected = {}
    for strategy, ending in STRATEGIES.items():
        own = strategy == strategy_of(rootport.host, gpu)
        for type_, size in (("gpu", {"memory": "1Gi"}), ("gpu-ratio", {"core": "10", "memoryRatio": "10"})):
            name = f"{type_}{ending}"
            start(rootport, name, gpu, type_=name, **size)
            # Bytes and percent of one GPU exclude each other, so one of them waits.
            expected[name] = {"Running", "Unschedulable"} if own else {"Unschedulable"}
    found = settle(rootport)

    assert all(state in expected[name] for name, state in found.items()), found
    assert sorted(found.values()) == ["Running", *["Unschedulable"] * 5]


def test_a_strategy_of_another_class_is_refused_at_admission(rootport: RunningRootport) -> None:
    mps = {"kind": "GpuConfig", "sharing": {"strategy": "mps"}}
    wanted = gpu_claim("wants-mps", rootport.host.gpus[5], core="10", memory="1Gi", parameters=mps)
    said = rootport.cluster.kubectl("apply", "--filename=-", input=manifest(wanted), check=False)
    assert "gpu-mps.rootport.dev" in said
    assert "NotFound" in rootport.cluster.kubectl("get", "resourceclaim", "wants-mps", check=False)


@pytest.fixture
def own_class(rootport: RunningRootport) -> Iterator[str]:
    """The name of an administrator's own DeviceClass, which a test makes."""
    name = "wrong.example.com"
    yield name
    rootport.cluster.kubectl("delete", "deviceclass", name)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"kind": "MigConfig"}, "MigConfig"),
        ({"kind": "GpuConfig", "sharing": {"strategy": "exclusive"}}, "exclusive"),
        ({"kind": "GpuConfig", "sharing": {"strategy": "mps"}}, "timeSlicing"),
    ],
    ids=["mig-config-on-a-gpu", "exclusive-share", "another-strategy"],
)
def test_wrong_parameters_of_a_class_are_refused_at_prepare_and_leave_nothing(
    rootport: RunningRootport, own_class: str, parameters: dict[str, Any], says: str
) -> None:
    """Admission judges claims; a DeviceClass is an administrator's."""
    apply(rootport, gpu_class(own_class, parameters))
    start(rootport, "wrong", rootport.host.gpus[0], type_=own_class, core="10", memory="1Gi")

    wait_until("the pod's event says why", lambda: says in events(rootport, "wrong"), timeout_s=30)

    assert "default/wrong" in events(rootport, "wrong")
    assert rootport.leftovers() == []


def test_wrong_parameters_of_a_class_are_refused_at_prepare_with_all_mistakes(
    rootport: RunningRootport, own_class: str
) -> None:
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": "mps", "wrong": 1}, "other": 2}
    apply(rootport, gpu_class(own_class, parameters))
    start(rootport, "wrong", rootport.host.gpus[0], type_=own_class, core="10", memory="1Gi")

    wait_until("the pod's event says why", lambda: "sharing.wrong" in events(rootport, "wrong"), timeout_s=30)

    assert "config[0].opaque.parameters.other" in events(rootport, "wrong")
    assert rootport.leftovers() == []


@pytest.mark.parametrize(
    "sharing", [{"strategy": "mps", "wrong": 1}, {"strategy": "no-such"}], ids=["unknown-field", "unknown-strategy"]
)
def test_wrong_parameters_are_refused_at_admission_as_far_as_it_can_see(
    rootport: RunningRootport, sharing: dict[str, Any]
) -> None:
    parameters = {"kind": "GpuConfig", "sharing": sharing}
    wanted = gpu_claim("wrong", rootport.host.gpus[0], core="10", memory="1Gi", parameters=parameters)
    said = rootport.cluster.kubectl("apply", "--filename=-", input=manifest(wanted), check=False)
    assert "spec.devices.config[0].opaque.parameters.sharing" in said
    assert "NotFound" in rootport.cluster.kubectl("get", "resourceclaim", "wrong", check=False)


@pytest.mark.parametrize("core", ["0", "101", "33.3"])
def test_a_wrong_core_is_refused_at_admission(rootport: RunningRootport, core: str) -> None:
    said = rootport.cluster.kubectl(
        "apply",
        "--filename=-",
        input=manifest(gpu_claim("wrong", rootport.host.gpus[0], core=core, memory="1Gi")),
        check=False,
    )
    assert "core" in said
    assert "100" in said
    assert "NotFound" in rootport.cluster.kubectl("get", "resourceclaim", "wrong", check=False)


def test_random_creations_and_deletions_across_modes_never_oversell_and_leave_nothing(
    rootport: RunningRootport,
) -> None:
    """SEQUENCES sequences, one a GPU at a time, all GPUs at once; the API is looked at after each step.

    The node's GPUs have different strategies, and some claims ask a GPU for another one than its own: they wait,
    and whatever was bound to the node is never refused there.
    """
    chance = random.Random(5)
    gpus = rootport.host.gpus
    foreign: set[str] = set()
    done = ran = 0
    while done < SEQUENCES:
        live: dict[str, list[str]] = {gpu: [] for gpu in gpus[: SEQUENCES - done]}
        for step in range(STEPS):
            created, deleted = [], []
            for number, (gpu, names) in enumerate(live.items()):
                if names and chance.random() < 0.4:
                    deleted.append(names.pop(chance.randrange(len(names))))
                else:
                    name = f"sequence{done + number}-{step}"
                    names.append(name)
                    own = strategy_of(rootport.host, gpu)
                    strategy = chance.choice(list(STRATEGIES)) if chance.random() < 0.15 else own
                    part = any_part(chance)
                    if part.get("type_") != "mig":
                        part["type_"] = part.get("type_", "gpu") + STRATEGIES[strategy]
                        if strategy != own:
                            foreign.add(name)
                    created += [gpu_claim(name, gpu, **part), pod(name, claim=name)]
            apply(rootport, *created)
            if deleted:
                remove(rootport, *deleted)
            found = settle(rootport)
            running = {name for name, state in found.items() if state == "Running"}
            assert not running & foreign
            assert refusals(rootport, "sequence") == []
            ran += len(running)
        done += len(live)
        remove(rootport, *(name for names in live.values() for name in names))
        rootport.wait_until_clean()
    assert ran > SEQUENCES, "most claims found room"
    assert len(foreign) > SEQUENCES // 10


def any_part(chance: random.Random) -> dict[str, Any]:
    sizes = {} if chance.random() < 0.4 else {"core": str(chance.choice([10, 25, 40, 60, 100]))}
    match chance.randrange(4):
        case 0:
            return {}
        case 1:
            return sizes | {"memory": f"{chance.choice([1, 10, 30, 60])}Gi"}
        case 2:
            return sizes | {"type_": "gpu-ratio", "memoryRatio": str(chance.choice([5, 20, 50, 75]))}
        case _:
            profile = chance.choice(["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"])
            return {"type_": "mig", "profile": profile}


def test_a_plugin_that_is_away_during_deletion_cleans_up_when_it_is_back(
    rootport: RunningRootport, options: tuple[str, ...]
) -> None:
    start(rootport, "partition", rootport.host.gpus[7], type_="mig", profile="2g.20gb")
    settle(rootport, {"partition": "Running"})
    assert rootport.plugin is not None
    rootport.plugin.kill()
    rootport.cluster.kubectl("delete", "pod/partition", "--wait=false")

    rootport.start_plugin(options=options)

    rootport.cluster.wait_for_no_pod("partition")
    rootport.wait_until_clean()
