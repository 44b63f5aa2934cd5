"""What can never be served is refused when the claim is made, with every mistake: on a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.config import parse_config
from tests.support.cluster.control_plane import ControlPlane
from tests.support.installation import FOLDER, claim
from tests.support.needed_tools import require_kubernetes

pytestmark = pytest.mark.needs_go
AMOUNTS = pytest.mark.since_kubernetes(36, "the API server drops a claim's amounts (DRAConsumableCapacity is off)")

_API = "rootport.dev/v1alpha1"
_SHARE = "spec.devices.requests[0].exactly.capacity.requests"
_CONFIG = "spec.devices.config[0].opaque.parameters"
_KINDS = ("GpuConfig", "MigConfig", "RdmaConfig", "FpgaConfig")
_STRATEGIES = ("exclusive", "timeSlicing", "mps", "hamiCore")


def made(plane: ControlPlane, body: dict[str, Any]) -> str:
    """What kubectl says to the creation of an object that is not kept."""
    return plane.kubectl("create", "--dry-run=server", "--filename=-", input=json.dumps(body), check=False)


def part(device_class: str = "gpu.rootport.dev", **amounts: object) -> dict[str, Any]:
    return {"deviceClassName": device_class, "capacity": {"requests": _keys(amounts)}}


def _keys(amounts: dict[str, object]) -> dict[str, object]:
    return {key.replace("__", "/").replace("rootport_dev", "rootport.dev"): value for key, value in amounts.items()}


def share(device_class: str = "gpu.rootport.dev", **amounts: object) -> dict[str, Any]:
    return {"name": "gpu", "exactly": part(device_class, **amounts)}


@pytest.mark.parametrize(
    "amounts",
    [
        pytest.param({"core": 1, "memory": "1"}, id="least"),
        pytest.param({"core": "100", "memory": "80Gi"}, id="most"),
        pytest.param({"core": "50", "memoryRatio": "50"}, id="ratio"),
        pytest.param({"core": "5e1", "rootport_dev__memory": "1e10"}, id="exponents"),
        pytest.param({"rootport_dev__core": "30"}, id="with-domain"),
        pytest.param({"core": "30000m"}, id="thousandths-that-are-whole"),
    ],
)
def test_a_share_that_can_be_is_taken(installed: ControlPlane, amounts: dict[str, object]) -> None:
    assert made(installed, claim("install-share", share(**amounts))).startswith("resourceclaim.resource.k8s.io/")


@pytest.mark.parametrize("amount", ["0", "101", "33.3", "-1", "500m", "1e30", 0])
@pytest.mark.parametrize("key", ["core", "memoryRatio", "rootport.dev/core", "rootport.dev/memoryRatio"])
@AMOUNTS
def test_a_percentage_is_whole_and_from_1_to_100(installed: ControlPlane, key: str, amount: object) -> None:
    said = made(installed, claim("install-share", share(**{key: amount})))
    assert f"{_SHARE}[{key}] must be a whole number from 1 to 100 (percent), not " in said
    assert "rootport-claim-parameters" in said


@pytest.mark.parametrize("amount", ["0", "-1Gi", "0.5", "1500m"])
@pytest.mark.parametrize("key", ["memory", "rootport.dev/memory"])
@AMOUNTS
def test_memory_is_in_whole_bytes_above_0(installed: ControlPlane, key: str, amount: str) -> None:
    said = made(installed, claim("install-share", share(core=10, **{key: amount})))
    assert f"{_SHARE}[{key}] must be a whole number of bytes above 0, such as 40Gi, not " in said


@pytest.mark.parametrize("amount", ["0", "101", "0.5"])
@pytest.mark.parametrize("key", ["bandwidthRatio", "rootport.dev/bandwidthRatio"])
@AMOUNTS
def test_a_percentage_of_bandwidth_is_from_1_to_100(installed: ControlPlane, key: str, amount: str) -> None:
    said = made(installed, claim("install-nic-percent", share("rdma.rootport.dev", **{key: amount})))
    assert f"{_SHARE}[{key}]" in said
    assert "from 1 to 100" in said


@AMOUNTS
def test_bandwidth_is_asked_for_in_one_unit(installed: ControlPlane) -> None:
    said = made(installed, claim("install-nic-both", share("rdma.rootport.dev", bandwidth="1G", bandwidthRatio="5")))
    assert "bandwidth or bandwidthRatio, not both" in said


@pytest.mark.parametrize("amount", ["0", "-1G", "0.5"])
@pytest.mark.parametrize("key", ["bandwidth", "rootport.dev/bandwidth"])
@AMOUNTS
def test_bandwidth_is_in_whole_bits_per_second_above_0(installed: ControlPlane, key: str, amount: str) -> None:
    said = made(installed, claim("install-nic", share("rdma.rootport.dev", **{key: amount})))
    assert f"{_SHARE}[{key}] must be a whole number of bits per second above 0, such as 100G, not " in said
    assert "created" in made(installed, claim("install-nic", share("rdma.rootport.dev", **{key: "100G"})))


_LEADS: list[tuple[str, dict[str, object], str, dict[str, object], int | None]] = [
    # The class, what is asked, what is said, and the amounts and the count that it leads to.
    ("gpu", {"core": "200"}, 'ask for count: 2 with core: "100"', {"core": "100"}, 2),
    ("gpu", {"core": "150"}, 'ask for count: 2 with core: "75", or ask for core: "100"', {"core": "75"}, 2),
    ("gpu", {"core": "150"}, 'ask for count: 2 with core: "75", or ask for core: "100"', {"core": "100"}, None),
    ("gpu", {"core": "101"}, 'ask for count: 2 with core: "51"', {"core": "51"}, 2),
    ("gpu", {"core": "3200"}, 'ask for count: 32 with core: "100"', {"core": "100"}, 32),
    ("gpu", {"core": "1e30"}, 'ask for core: "100"', {"core": "100"}, None),
    ("gpu", {"core": "33.3"}, 'ask for core: "34"', {"core": "34"}, None),
    ("gpu", {"core": "0.5"}, 'ask for core: "50"', {"core": "50"}, None),
    ("gpu", {"core": "1n"}, 'ask for core: "1"', {"core": "1"}, None),
    ("gpu", {"core": "0", "memory": "8Gi"}, 'leave out core, or ask for core: "1"', {"memory": "8Gi"}, None),
    ("gpu-ratio", {"memoryRatio": "0"}, 'or ask for memoryRatio: "1"', {"memoryRatio": "1"}, None),
    ("gpu", {"core": "10", "memory": "0"}, "leave out memory: then it is all of the GPU's", {"core": "10"}, None),
    ("gpu", {"memory": "1.5"}, "ask for memory: 1536Mi", {"memory": "1536Mi"}, None),
    ("gpu", {"memory": "5000.5"}, 'ask for memory: "5001"', {"memory": "5001"}, None),
    ("gpu", {"memory": "1Gi", "memoryRatio": "9"}, "leave out memoryRatio, which devices", {"memory": "1Gi"}, None),
    ("gpu-ratio", {"memory": "1Gi", "memoryRatio": "9"}, "leave out memory, which", {"memoryRatio": "9"}, None),
    ("rdma", {"bandwidth": "0"}, "leave out bandwidth: then it is all of the NIC's", {}, None),
    ("rdma", {"bandwidth": "0.5"}, "ask for bandwidth: 500M", {"bandwidth": "500M"}, None),
    ("rdma", {"bandwidth": "5000.5"}, 'ask for bandwidth: "5001"', {"bandwidth": "5001"}, None),
    ("rdma-vf", {"vfs": "3"}, 'ask for count: 3 with vfs: "1"', {"vfs": "1"}, 3),
    ("rdma-vf", {"vfs": "0"}, 'ask for vfs: "1"', {"vfs": "1"}, None),
]


@pytest.mark.parametrize(("name", "asked", "lead", "instead", "count"), _LEADS)
@AMOUNTS
def test_a_mistake_leads_to_a_request_that_is_taken(
    installed: ControlPlane,
    name: str,
    asked: dict[str, object],
    lead: str,
    instead: dict[str, object],
    count: int | None,
) -> None:
    said = made(installed, claim("install-lead", share(f"{name}.rootport.dev", **asked)))
    assert lead in said
    nearest = share(f"{name}.rootport.dev", **instead)
    if count is not None:
        nearest["exactly"]["count"] = count
    assert "created" in made(installed, claim("install-lead", nearest))


@AMOUNTS
def test_virtual_functions_are_asked_for_by_count(installed: ControlPlane) -> None:
    said = made(installed, claim("install-nic", share("rdma-vf.rootport.dev", vfs=2)))
    assert f"{_SHARE}[vfs] must be 1: ask for more virtual functions by count" in said
    assert "created" in made(installed, claim("install-nic", share("rdma-vf.rootport.dev", vfs=1)))


@AMOUNTS
def test_memory_is_asked_for_in_one_way(installed: ControlPlane) -> None:
    both = {"memory": "1Gi", "rootport_dev__memoryRatio": 50}
    said = made(installed, claim("install-share", share(core=10, **both)))
    assert f"{_SHARE} must have memory or memoryRatio, not both" in said


@AMOUNTS
def test_all_mistakes_are_told_at_once_with_their_places(installed: ControlPlane) -> None:
    alternatives = {
        "name": "either",
        "firstAvailable": [{"name": "a"} | part(core=50, memory="1Gi"), {"name": "b"} | part(core=0, memory="0")],
    }
    wrong = {"apiVersion": "v1", "kind": "Gpu"}
    said = made(installed, claim("install-all", share(memoryRatio=101), alternatives, config=(wrong,)))
    assert f"{_SHARE}[memoryRatio]" in said
    other = "spec.devices.requests[1].firstAvailable[1].capacity.requests"
    assert f"{other}[core]" in said
    assert f"{other}[memory]" in said
    assert "firstAvailable[0]" not in said
    assert f"{_CONFIG}.apiVersion must be {_API}; {_CONFIG}.kind must be one of {', '.join(_KINDS)}" in said


@AMOUNTS
def test_a_template_is_checked_like_its_claims(installed: ControlPlane) -> None:
    body = claim("install-template", share(core=0), config=({"kind": "X"},), kind="ResourceClaimTemplate")
    said = made(installed, body)
    assert "spec.spec.devices.requests[0].exactly.capacity.requests[core]" in said
    assert "spec.spec.devices.config[0].opaque.parameters.kind" in said


@pytest.mark.parametrize(
    ("parameters", "mistake"),
    [
        pytest.param({"kind": "GpuConfig"}, f"{_CONFIG}.apiVersion must be {_API}", id="no-version"),
        pytest.param({"apiVersion": _API}, f"{_CONFIG}.kind must be one of", id="no-kind"),
        pytest.param({"apiVersion": _API, "kind": "gpuconfig"}, "; did you mean GpuConfig?", id="kind-in-lower-case"),
        pytest.param({"apiVersion": _API, "kind": 7}, f"{_CONFIG}.kind must be one of", id="kind-is-a-number"),
        pytest.param({"apiVersion": _API, "kind": ["x"]}, f"{_CONFIG}.kind must be one of", id="kind-is-a-list"),
        pytest.param({"apiVersion": 1, "kind": "GpuConfig"}, f"{_CONFIG}.apiVersion", id="version-is-a-number"),
        pytest.param({}, f"{_CONFIG}.kind must be one of", id="empty"),
        pytest.param(
            {"apiVersion": _API, "kind": "GpuConfig", "sharring": {}},
            f'{_CONFIG} has the unknown field "sharring"; known are apiVersion, kind, sharing',
            id="unknown-field",
        ),
        pytest.param(
            {"apiVersion": _API, "kind": "MigConfig", "sharing": {}},
            f'{_CONFIG} has the unknown field "sharing"; known are apiVersion, kind',
            id="another-kinds-field",
        ),
        pytest.param(
            {"apiVersion": _API, "kind": "FpgaConfig", "a\nb": 1}, 'unknown field "a\\nb"', id="field-of-two-lines"
        ),
        pytest.param(
            {"apiVersion": _API, "kind": "GpuConfig", "sharing": "mps"},
            f"{_CONFIG}.sharing must be an object",
            id="sharing-is-text",
        ),
        pytest.param(
            {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": "MPS"}},
            f"{_CONFIG}.sharing.strategy must be one of {', '.join(_STRATEGIES)}; did you mean mps?",
            id="unknown-strategy",
        ),
        pytest.param(
            {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": {"a": 1}}},
            f"{_CONFIG}.sharing.strategy must be one of",
            id="strategy-is-an-object",
        ),
        pytest.param(
            {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"timeslicing": {}}},
            f'{_CONFIG}.sharing has the unknown field "timeslicing"; known are strategy, timeSlicing, mps, hamiCore',
            id="unknown-field-of-sharing",
        ),
        pytest.param(
            {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": "timeSlicing", "mps": {}}},
            f"{_CONFIG}.sharing.mps is only for strategy mps: set strategy: mps, or leave out mps",
            id="settings-of-another-strategy",
        ),
        pytest.param(
            {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"hamiCore": {}, "mps": {}}},
            f"{_CONFIG}.sharing.hamiCore is only for strategy hamiCore",
            id="settings-without-a-strategy",
        ),
    ],
)
def test_parameters_that_no_version_knows_are_refused(
    installed: ControlPlane, parameters: dict[str, Any], mistake: str
) -> None:
    assert mistake in made(installed, claim("install-config", config=(parameters,)))


@pytest.mark.parametrize(
    "parameters",
    [
        *({"apiVersion": _API, "kind": kind} for kind in _KINDS),
        {"apiVersion": _API, "kind": "RdmaConfig", "rdmaCM": False, "environment": False},
        {"apiVersion": _API, "kind": "RdmaConfig", "rdmaCM": None, "interface": None, "vf": None},
        {"apiVersion": _API, "kind": "RdmaConfig", "interface": {}, "vf": None},
        {"apiVersion": _API, "kind": "RdmaConfig", "interface": {"name": "rdma_0.x-123456", "mtu": 68}},
        *({"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": name}} for name in _STRATEGIES),
        {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": "mps", "mps": {}}},
        {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"mps": {}}},
        {"apiVersion": _API, "kind": "GpuConfig", "sharing": {}},
        {"apiVersion": _API, "kind": "GpuConfig", "sharing": None},
        {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": None, "mps": None}},
    ],
    ids=json.dumps,
)
def test_parameters_that_can_be_are_taken(installed: ControlPlane, parameters: dict[str, Any]) -> None:
    assert "created" in made(installed, claim("install-config", config=(parameters,)))


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"rdmaCM": "no"}, ".rdmaCM must be true or false"),
        ({"environment": 1}, ".environment must be true or false"),
        ({"interface": True}, ".interface must be an object"),
        ({"interface": {"ifName": "x"}}, '.interface has the unknown field "ifName"; known are name, mtu'),
        *(
            ({"interface": {"name": name}}, ".interface.name must have 1 to 15 letters")
            for name in ("", "a/b", "../x", "-a", "a b", "a%d", "x" * 16, "eth0", "lo", "all", 7, "a\n")
        ),
        *(
            ({"interface": {"mtu": mtu}}, ".interface.mtu must be a whole number from 68 to 65535")
            for mtu in (67, 65536, "9000", 1500.5, True)
        ),
    ],
    ids=json.dumps,
)
def test_what_no_nic_can_be_told_is_refused(installed: ControlPlane, fields: dict[str, Any], mistake: str) -> None:
    """And the plugin refuses it as well."""
    parameters = {"apiVersion": _API, "kind": "RdmaConfig", **fields}
    assert f"{_CONFIG}{mistake}" in made(installed, claim("install-rdma", config=(parameters,)))
    assert isinstance(parse_config(parameters, _CONFIG), tuple)


@pytest.mark.parametrize("vf", [{"vlan": 5}, {"trust": True}, {}, [], 7], ids=json.dumps)
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_a_claim_cannot_give_itself_settings_of_a_vf(installed: ControlPlane, kind: str, vf: object) -> None:
    """And the plugin refuses it as well (tests/unit/driver/config/test_entries.py)."""
    parameters = {"apiVersion": _API, "kind": "RdmaConfig", "vf": vf}
    path = _CONFIG if kind == "ResourceClaim" else _CONFIG.replace("spec.", "spec.spec.", 1)
    said = made(installed, claim("install-rdma", config=(parameters,), kind=kind))
    assert f"{path}.vf is for administrators: expected in a DeviceClass alone" in said
    assert "rootport-claim-parameters" in said


def test_a_device_class_gives_settings_of_a_vf(installed: ControlPlane) -> None:
    parameters = {"apiVersion": _API, "kind": "RdmaConfig", "vf": {"vlan": 5, "trust": True}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "vlan-5.example.com"},
        "spec": {"config": [{"opaque": {"driver": "rootport.dev", "parameters": parameters}}]},
    }
    assert "created" in made(installed, body)


def test_all_mistakes_of_a_nics_parameters_are_told_at_once(installed: ControlPlane) -> None:
    wrong = {"interface": {"name": "eth0", "mtu": 1}, "vf": {"vlan": 9999}, "rdmaCM": 1}
    said = made(installed, claim("install-rdma", config=({"apiVersion": _API, "kind": "RdmaConfig", **wrong},)))
    for path in (".interface.name must have", ".interface.mtu must be", ".vf is for", ".rdmaCM must be"):
        assert f"{_CONFIG}{path}" in said


def test_other_drivers_claims_are_no_concern_of_the_policies(installed: ControlPlane) -> None:
    other = share("gpu.example.com", core=0, memory="0", memoryRatio="7.5")
    said = made(installed, claim("install-other", other, config=({"kind": "X"},), driver="example.com"))
    assert "created" in said
    assert "Warning" not in said
    # Nor in a claim that asks for one of ours as well.
    ours = {"name": "ours", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
    assert "created" in made(
        installed, claim("install-both", other, ours, config=({"kind": "X"},), driver="example.com")
    )


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
@pytest.mark.parametrize("key", ["core", "rootport.dev/core"])
@AMOUNTS
def test_core_without_memory_is_taken_with_a_warning(installed: ControlPlane, kind: str, key: str) -> None:
    body = claim("install-greedy", share(memory=1), share(**{key: 50}) | {"name": "other"}, kind=kind)
    said = made(installed, body)
    assert "created" in said
    assert "Warning: " in said
    assert "requests[1].exactly.capacity.requests has core and no memory" in said
    assert "requests[0]" not in said


def test_a_partition_or_a_nic_is_not_warned_of(installed: ControlPlane) -> None:
    for device_class in ("mig.rootport.dev", "rdma.rootport.dev", "gpu.example.com"):
        said = made(installed, claim("install-mig", share(device_class, memory="10Gi")))
        assert "created" in said
        assert "Warning" not in said


@AMOUNTS
@pytest.mark.parametrize(("kind", "settings"), [("GpuConfig", "sharing"), ("RdmaConfig", "interface")])
def test_the_largest_claims_are_still_checked(installed: ControlPlane, kind: str, settings: str) -> None:
    """32 requests with 8 alternatives each, and 32 entries of parameters: within the limits on what CEL may cost."""
    of_mps = part("gpu-ratio-mps.rootport.dev", core=50, memoryRatio=50)
    alternatives = [{"name": f"a{number}"} | of_mps for number in range(8)]
    requests = [{"name": f"r{number}", "firstAvailable": list(alternatives)} for number in range(32)]
    fields = {f"field-number-{number}": "x" for number in range(100)}
    known = {"sharing": {"strategy": "mps", "mps": fields}, "interface": {"name": "rdma0", "mtu": 9000}}
    parameters = {"apiVersion": _API, "kind": kind, settings: known[settings]}
    config = (parameters,) * 32
    assert "created" in made(installed, claim("install-large", *requests, config=config))
    requests[31] = {"name": "r31", "firstAvailable": [*alternatives[:7], {"name": "last"} | part(core=0)]}
    said = made(installed, claim("install-large", *requests, config=config))
    assert "spec.devices.requests[31].firstAvailable[7].capacity.requests[core] must be" in said


@AMOUNTS
def test_the_largest_claims_are_refused_with_a_mistake_in_every_alternative(installed: ControlPlane) -> None:
    """What each mistake leads to must not cost so much that such a claim is let through."""
    wrong = part(core="150", memory="1.5", memoryRatio="33.3")
    alternatives = [{"name": f"a{number}"} | wrong for number in range(8)]
    requests = [{"name": f"r{number}", "firstAvailable": alternatives} for number in range(32)]
    assert "rootport-claim-parameters" in made(installed, claim("install-large", *requests))


def test_too_many_mistakes_for_a_message_are_refused_all_the_same(installed: ControlPlane) -> None:
    fields = {f"field-number-{number}": "x" for number in range(250)}
    parameters = {"apiVersion": _API, "kind": "GpuConfig"} | fields
    said = made(installed, claim("install-large", config=(parameters,) * 32))
    assert "many mistakes in what is asked of Rootport" in said


@AMOUNTS
def test_a_claim_from_before_the_policy_can_lose_its_finalizers(installed: ControlPlane) -> None:
    """Its spec cannot change any more, so nothing of an update is the policy's concern."""
    body = claim("install-old", share(core=0))
    body["metadata"]["finalizers"] = ["example.com/kept"]
    binding = "validatingadmissionpolicybinding/rootport-claim-parameters"
    former = installed.kubectl("get", binding, "--output=json")
    patch = {"spec": {"matchResources": {"namespaceSelector": {"matchLabels": {"none": "has-it"}}}}}
    installed.kubectl("patch", binding, "--type=merge", f"--patch={json.dumps(patch)}")
    try:
        while "denied" in made(installed, body):
            pass
        installed.kubectl("create", "--filename=-", input=json.dumps(body))
    finally:
        installed.kubectl("replace", "--force", "--filename=-", input=former)
    while "denied" not in made(installed, body | {"metadata": {"name": "install-new", "namespace": "default"}}):
        pass
    installed.kubectl("delete", "resourceclaim", "install-old", "--wait=false")
    patch = {"metadata": {"finalizers": None}}
    assert "patched" in installed.kubectl(
        "patch", "resourceclaim", "install-old", "--type=merge", f"--patch={json.dumps(patch)}"
    )


@pytest.mark.parametrize("path", sorted((FOLDER.parent / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_taken_without_a_warning(installed: ControlPlane, path: Path) -> None:
    if "distinctAttribute:" in path.read_text():
        require_kubernetes(36, "the API server drops distinctAttribute (DRAConsumableCapacity is off by default)")
    ours = [item for item in yaml.safe_load_all(path.read_text()) if item and item["kind"].startswith("ResourceClaim")]
    assert ours
    for body in ours:
        body["metadata"]["namespace"] = "default"
        said = made(installed, body)
        assert "created" in said
        assert "Warning" not in said


_HALF = {"core": "50", "memory": "39Gi"}
_MPS = {"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": "mps"}}


@pytest.mark.parametrize(
    ("requests", "config", "mistake"),
    [
        pytest.param(
            [share(**_HALF)],
            (_MPS,),
            "spec.devices.requests[0].exactly.deviceClassName: sharing.strategy mps does not fit gpu.rootport.dev, "
            "whose GPUs are shared by timeSlicing; set deviceClassName to gpu-mps.rootport.dev, or leave out sharing."
            "strategy",
            id="strategy",
        ),
        pytest.param(
            [share("gpu-ratio-mps.rootport.dev", core="50", memoryRatio="50")],
            ({"apiVersion": _API, "kind": "GpuConfig", "sharing": {"hamiCore": {}}},),
            "set deviceClassName to gpu-ratio-hami-core.rootport.dev",
            id="settings",
        ),
        pytest.param(
            [{"name": "gpu", "firstAvailable": [{"name": "a", **part(**_HALF)}]}],
            (_MPS,),
            "firstAvailable[0].deviceClassName: sharing.strategy mps does not fit",
            id="alternative",
        ),
        pytest.param(
            [share(**_HALF)],
            ({"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": "exclusive"}},),
            "sharing.strategy exclusive is for whole GPUs, and this is a share; leave out sharing.strategy",
            id="exclusive",
        ),
        pytest.param(
            [{"name": "gpu", "exactly": part("gpu-mps.rootport.dev", **_HALF) | {"count": 2}}],
            (),
            "a claim can have one GPU with strategy mps",
            id="two by mps",
        ),
        pytest.param(
            [{"name": name, "exactly": part("gpu-mps.rootport.dev", **_HALF)} for name in ("a", "b")],
            (),
            "a claim can have one GPU with strategy mps",
            id="two requests by mps",
        ),
        pytest.param(
            [
                {"name": name, "exactly": part("gpu-hami-core.rootport.dev", core="50", memory=memory)}
                for name, memory in (("a", "10Gi"), ("b", "20Gi"))
            ],
            (),
            "shares with strategy hamiCore differ",
            id="unequal shares",
        ),
    ],
)
@AMOUNTS
def test_a_share_that_no_node_would_prepare_is_refused_with_what_to_write(
    installed: ControlPlane, requests: list[dict[str, Any]], config: tuple[dict[str, Any], ...], mistake: str
) -> None:
    assert mistake in made(installed, claim("install-share", *requests, config=config))


@pytest.mark.parametrize(
    ("requests", "config"),
    [
        pytest.param([share("gpu-mps.rootport.dev", **_HALF)], (_MPS,), id="its own class"),
        pytest.param([{"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}], (_MPS,), id="a whole GPU"),
        pytest.param(
            [{"name": name, "exactly": part("gpu-hami-core.rootport.dev", **_HALF)} for name in ("a", "b")],
            (),
            id="equal shares",
        ),
        pytest.param([share("gpu.example.com", **_HALF)], (_MPS,), id="a class of one's own"),
        pytest.param(
            [
                {
                    "name": "gpu",
                    "firstAvailable": [
                        {"name": "share", **part(memory="8Gi")},
                        {"name": "whole", "deviceClassName": "gpu.rootport.dev"},
                    ],
                }
            ],
            ({"apiVersion": _API, "kind": "GpuConfig", "sharing": {"strategy": "exclusive"}},),
            id="exclusive for the alternative that is a whole GPU",
        ),
    ],
)
def test_a_share_whose_strategy_fits_is_taken(
    installed: ControlPlane, requests: list[dict[str, Any]], config: tuple[dict[str, Any], ...]
) -> None:
    assert "created" in made(installed, claim("install-share", *requests, config=config))
