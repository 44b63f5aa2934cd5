"""What a claim's status says of its prepared devices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import UnavailableError
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.claim_reference import ClaimReference
from driver.errors import InputError, NodeError, RootportError
from driver.model.devices import DeviceName, DeviceType
from driver.plan import GpuUse, Isolation, PreparedDevice
from driver.plan.uses import NicUse
from kubeletplugin.claims.device_status import device_statuses, is_published
from kubeletplugin.claims.status import ClaimStatusPublisher, NotifyingClaims
from kubeletplugin.network.netdev.records import InPod
from kubeletplugin.service import ClaimPrepared
from kubeletplugin.state.entry import Entry

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
MOMENT = "2026-03-04T05:06:07Z"
NODE = "status-n1"
GPU = "gpu-0000-13-00-0"
MPS = Isolation(enforced=True, by="MPS", version="580.95.05", message="40Gi and 50 % are limited by MPS")
TURNS = Isolation(enforced=False, by="time-slicing", version=None, message="nothing limits memory")
SHARE = "7c0d2f5e-8a55-4b5e-9d5e-0d2f3c4b5a69"
PF = "rdma-0000-41-00-0"
POOL = "rdma-vfs-0000-41-00-0"
VF = "rdma-vf-0000-41-00-2"
VF_USE = NicUse(nic=DeviceName(PF), vf=DeviceName(VF))
THEIRS = {"driver": "example.com", "pool": NODE, "device": "nic-0"}
UP = {
    "type": "Ready",
    "status": "True",
    "reason": "Up",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


def prepared(
    device: str = GPU,
    *,
    isolation: Isolation | None = MPS,
    mode: DeviceType = DeviceType.GPU,
    whole: bool = False,
    core: int | None = 50,
    share: str | None = SHARE,
    mig_uuid: str | None = None,
) -> PreparedDevice:
    use = GpuUse(
        gpu=DeviceName(GPU), mode=mode, whole=whole, sharing="mps", core=core, memory_bytes=40 << 30, placement=None
    )
    return PreparedDevice(
        request_names=("gpu",),
        pool=NODE,
        device=DeviceName(device),
        cdi_device_ids=(f"rootport.dev/claim={device}",),
        share_id=share,
        admin_access=False,
        use=use if isolation else None,
        isolation=isolation,
        mig_uuid=mig_uuid,
    )


def allocated(*devices: PreparedDevice, entries: Sequence[JsonObject] = (), pool: str = NODE) -> JsonObject:
    results = [
        {"request": "gpu", "driver": "rootport.dev", "pool": pool, "device": device.device}
        | ({"shareID": device.share_id} if device.share_id else {})
        for device in devices
    ]
    return {"status": {"allocation": {"devices": {"results": results}}, "devices": list(entries)}}


def entries_of(*devices: PreparedDevice, now: datetime = NOW, **claim: Any) -> list[JsonObject]:
    return device_statuses(devices, allocated(*devices, **claim), now=now)


def test_an_enforced_share_says_by_what() -> None:
    (entry,) = entries_of(prepared())
    assert entry == {
        "driver": "rootport.dev",
        "pool": NODE,
        "device": GPU,
        "shareID": SHARE,
        "conditions": [
            {
                "type": "Isolated",
                "status": "True",
                "reason": "MPS",
                "message": "40Gi and 50 % are limited by MPS",
                "lastTransitionTime": MOMENT,
            }
        ],
        "data": {
            "apiVersion": "rootport.dev/v1alpha1",
            "kind": "PreparedDevice",
            "gpu": GPU,
            "mode": "shared",
            "core": 50,
            "memory": "40Gi",
            "isolation": {"state": "enforced", "by": "MPS", "version": "580.95.05"},
        },
    }


@pytest.mark.parametrize(
    ("isolation", "status", "reason"),
    [
        (TURNS, "False", "Advisory"),
        (Isolation(enforced=True, by="device", version=None, message="m"), "True", "Exclusive"),
        (Isolation(enforced=True, by="MIG", version=None, message="m"), "True", "MIG"),
        (Isolation(enforced=True, by="HAMi-core", version="1", message="m"), "True", "HAMiCore"),
        (Isolation(enforced=False, by="HAMi-core", version="1", message="m"), "False", "Advisory"),
        (Isolation(enforced=True, by="another way", version=None, message="m"), "True", "Enforced"),
    ],
    ids=lambda value: str(getattr(value, "by", value)),
)
def test_the_condition_says_whether_limits_hold(isolation: Isolation, status: str, reason: str) -> None:
    (entry,) = entries_of(prepared(isolation=isolation))
    (condition,) = entry["conditions"]
    assert (condition["status"], condition["reason"]) == (status, reason)
    assert entry["data"]["isolation"]["state"] == ("enforced" if isolation.enforced else "advisory")


@pytest.mark.parametrize(
    ("device", "mode"),
    [
        (prepared(whole=True, core=100), "whole"),
        (prepared(), "shared"),
        (prepared("gpu-ratio-0000-13-00-0", mode=DeviceType.GPU_RATIO), "ratio"),
        (prepared("mig-0000-13-00-0-1g-10gb-0", mode=DeviceType.MIG, core=None, share=None, mig_uuid="MIG-1"), "mig"),
    ],
    ids=["whole", "shared", "ratio", "mig"],
)
def test_the_data_says_how_the_gpu_is_given(device: PreparedDevice, mode: str) -> None:
    (entry,) = entries_of(device)
    assert (entry["data"]["mode"], entry["data"]["gpu"]) == (mode, GPU)
    assert entry["data"].get("migUUID") == device.mig_uuid
    assert ("shareID" in entry) is (device.share_id is not None)


def test_a_device_without_limits_has_no_entry() -> None:
    assert entries_of(prepared("fpga-0000-14-00-0", isolation=None)) == []


def nic(use: NicUse, device: str = POOL, *, distances: tuple[tuple[str, str], ...] = ()) -> PreparedDevice:
    base = prepared(device, isolation=None, share=SHARE if device == POOL else None)
    return replace(base, nic_use=use, distances=distances)


def test_an_entry_of_a_nic_says_which_virtual_function_it_is_and_how_far_the_gpus_are() -> None:
    (entry,) = entries_of(nic(VF_USE, distances=((GPU, "PIX"),)))
    assert entry == {
        "driver": "rootport.dev",
        "pool": NODE,
        "device": POOL,
        "shareID": SHARE,
        "data": {
            "apiVersion": "rootport.dev/v1alpha1",
            "kind": "PreparedDevice",
            "nic": PF,
            "vf": VF,
            "distances": {GPU: "PIX"},
        },
    }


def test_a_share_of_a_nic_says_its_bandwidth_and_a_gpu_how_far_the_nics_are() -> None:
    share = NicUse(nic=DeviceName(PF), bandwidth=25 * 10**9, nic_bandwidth=10**11)
    gpu = replace(prepared(), distances=((PF, "SYS"),))
    of_gpu, of_nic = entries_of(gpu, nic(share, PF))
    assert of_gpu["data"]["distances"] == {PF: "SYS"}
    assert (of_nic["data"]["nic"], of_nic["data"]["bandwidth"]) == (PF, "25G")
    assert "vf" not in of_nic["data"]


def test_the_nic_of_a_virtual_function_that_an_older_version_prepared_is_not_told() -> None:
    (entry,) = entries_of(nic(NicUse(nic=DeviceName(""), vf=DeviceName(VF)), VF))
    assert entry["data"].keys() == {"apiVersion", "kind", "vf"}


def test_how_the_pod_sees_its_interface_is_published_while_it_has_it() -> None:
    devices = [nic(VF_USE)]
    claim = allocated(*devices)
    inside = InPod(name="net1", mac="02:00:00:00:00:01", addresses=("10.0.0.7/24",))
    with_it = device_statuses(devices, claim, now=NOW, network={VF: inside})
    assert with_it[0]["networkData"] == {
        "interfaceName": "net1",
        "hardwareAddress": "02:00:00:00:00:01",
        "ips": ["10.0.0.7/24"],
    }
    without = device_statuses(devices, claim, now=NOW)
    assert "networkData" not in without[0]
    for said, stored in ((with_it, without), (without, with_it)):
        assert is_published(said, {"status": {"devices": said}})
        assert not is_published(said, {"status": {"devices": stored}})


def test_no_more_addresses_are_told_than_the_api_takes() -> None:
    many = InPod(name="net1", mac="", addresses=tuple(f"10.0.0.{n}/24" for n in range(1, 20)))
    (entry,) = device_statuses([nic(VF_USE)], allocated(nic(VF_USE)), now=NOW, network={VF: many})
    assert len(entry["networkData"]["ips"]) == 16
    assert "hardwareAddress" not in entry["networkData"]


def test_what_the_claim_is_no_longer_allocated_is_not_told() -> None:
    assert device_statuses([prepared()], allocated(), now=NOW) == []
    assert device_statuses([prepared()], {"metadata": {}}, now=NOW) == []
    assert device_statuses([prepared()], allocated(prepared(share=None)), now=NOW) == []
    assert entries_of(prepared(), pool="another-node") == []


def test_a_devices_entry_is_one_whichever_requests_watch_over_it() -> None:
    assert len(entries_of(prepared(share=None), prepared(share=None))) == 1


def test_a_conditions_time_moves_with_its_status_alone() -> None:
    later = NOW + timedelta(hours=1)
    former = entries_of(prepared())
    (same,) = entries_of(prepared(), now=later, entries=former)
    assert same["conditions"][0]["lastTransitionTime"] == MOMENT
    (other,) = entries_of(prepared(isolation=TURNS), now=later, entries=former)
    assert other["conditions"][0]["lastTransitionTime"] == "2026-03-04T06:06:07Z"


def test_what_stands_there_is_published_whatever_others_say() -> None:
    entries = entries_of(prepared())
    mine = entries[0] | {"conditions": [*entries[0]["conditions"], UP], "networkData": {"interfaceName": "x"}}
    by_hand = {"driver": "rootport.dev", "pool": NODE, "device": "rdma-0", "conditions": [UP]}
    assert is_published(entries, {"status": {"devices": [THEIRS, mine, by_hand]}})
    assert not is_published(entries, {"status": {"devices": [THEIRS]}})
    assert not is_published(entries, {"status": {"devices": [mine, mine | {"device": "gpu-1"}]}})
    assert not is_published(entries, {"status": {"devices": [mine | {"data": {}}]}})


def test_an_entry_is_far_below_the_api_servers_limit() -> None:
    (entry,) = entries_of(
        prepared(isolation=Isolation(enforced=True, by="MPS", version="v" * 128, message="m" * 40000))
    )
    assert len(json.dumps(entry["data"])) < 1024
    assert len(entry["conditions"][0]["message"]) == 32768


def test_an_api_server_that_is_away_ends_the_attempt_at_once() -> None:
    class Away(KubernetesApi):
        calls = 0

        def __init__(self) -> None:
            """No connection."""

        def get(self, *_: Any, **__: Any) -> JsonObject:
            self.calls += 1
            raise UnavailableError("away")

    devices = (prepared(),)
    entries = [
        Entry(
            uid=f"u{at}",
            namespace="n",
            name="c",
            state="prepared",
            boot_id="b",
            devices=devices,
            effects=(),
            cdi_spec="",
            files=(),
        )
        for at in range(9)
    ]
    api = Away()
    with pytest.raises(UnavailableError):
        ClaimStatusPublisher(api, entries=lambda: entries).publish()
    assert api.calls == 1


def test_an_api_server_that_drops_what_was_written_is_told_once_with_its_gate() -> None:
    """As in Kubernetes 1.34 to 1.36 with the gate off; in 1.37 it is locked: tests/cluster/plugin has the real one."""

    class Dropping(KubernetesApi):
        keeps = False

        def __init__(self) -> None:
            """No connection."""

        def get(self, _resource: object, name: str, **_: Any) -> JsonObject:
            return {"metadata": {"name": name, "uid": name}, **allocated(prepared())}

        def apply(self, _resource: object, body: JsonObject, **_: Any) -> JsonObject:
            return body if self.keeps else body | {"status": {}}

    api, told, names = Dropping(), [], ["a", "b"]
    kept = {name: entry(name) for name in ("a", "b", "c")}
    publisher = ClaimStatusPublisher(api, entries=lambda: [kept[name] for name in names], report=told.append)
    publisher.publish()
    (report,) = told
    assert (report.type, report.status) == ("DeviceStatusKept", "False")
    assert "DRAResourceClaimDeviceStatus is off" in report.message
    api.keeps = True
    names.append("c")
    publisher.publish()
    assert [item.status for item in told] == ["False", "True"]


def entry(name: str) -> Entry:
    """A claim that is prepared, with one device."""
    return Entry(
        uid=name,
        namespace="n",
        name=name,
        state="prepared",
        boot_id="b",
        devices=(prepared(),),
        effects=(),
        cdi_spec="",
        files=(),
    )


class Service:
    """A claim service with a given answer."""

    def __init__(self, answer: ClaimPrepared | RootportError) -> None:
        self._answer = answer

    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        return {claim.uid: self._answer for claim in claims}

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        return {claim.uid: None for claim in claims}


@pytest.mark.parametrize(
    ("answer", "calls"),
    [(ClaimPrepared(devices=()), ["prepared"]), (NodeError("in use"), ["refused"]), (InputError("wrong"), [])],
    ids=["prepared", "in the way", "for good"],
)
def test_who_waits_for_it_is_woken_by_a_claim_that_was_prepared_or_refused_for_now(
    answer: ClaimPrepared | RootportError, calls: list[str]
) -> None:
    woken: list[str] = []
    claims = NotifyingClaims(Service(answer), lambda: woken.append("prepared"), lambda: woken.append("refused"))
    reference = ClaimReference(namespace="n", name="c", uid="u")
    assert claims.prepare([reference]) == {"u": answer}
    assert claims.unprepare([reference]) == {"u": None}
    assert woken == calls


NIC_USE = NicUse(nic=DeviceName(PF), vf=None)


@pytest.mark.parametrize(
    ("request_of", "distance", "status"),
    [
        pytest.param("{}-0/node", "SYS", "False", id="far-apart"),
        pytest.param("{}-0/node-no-numa", "NODE", "Unknown", id="no-numa-nodes-are-known"),
        pytest.param("{}-0/numa", "NODE", None, id="on-a-nearer-rung"),
        pytest.param("{}-0", "SYS", None, id="no-ladder"),
    ],
)
def test_what_a_ladders_last_rung_gave_is_not_aligned(request_of: str, distance: str, status: str | None) -> None:
    devices = [
        replace(prepared(share=None), distances=(("rdma-0000-99-00-0", "PIX"), (PF, distance))),
        nic(NIC_USE, PF, distances=((GPU, distance),)),
    ]
    results = [
        {"request": request_of.format(kind), "driver": "rootport.dev", "pool": NODE, "device": device.device}
        for kind, device in zip(("gpu", "nic"), devices, strict=True)
    ]
    claim = {"status": {"allocation": {"devices": {"results": results}}}}
    gpu_entry, nic_entry = device_statuses(devices, claim, now=NOW)
    found = {item["type"]: item for item in gpu_entry["conditions"]}
    assert "conditions" not in nic_entry
    assert ("Aligned" in found) is (status is not None)
    if status is None:
        return
    assert found["Aligned"]["status"] == status
    assert found["Aligned"]["reason"] == "LastRung"
    assert found["Aligned"]["lastTransitionTime"] == MOMENT
    assert f"NIC {PF} is at {distance} (" in found["Aligned"]["message"], "not the other group's NIC"
    again = claim | {"status": claim["status"] | {"devices": [gpu_entry, nic_entry]}}
    assert is_published([gpu_entry, nic_entry], again)
    later = device_statuses(devices, again, now=NOW + timedelta(days=1))
    assert later == [gpu_entry, nic_entry], "the condition keeps its time"
    without = [entry | {"conditions": entry["conditions"][:1]} for entry in (gpu_entry,)]
    assert not is_published(without, again)
