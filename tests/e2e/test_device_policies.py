"""What an administrator knows of devices, on the real node: a NIC that is kept off, one with the default route."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.test_rdma import events_with
from tests.support.cluster.interfaces import add_interfaces, remove_interfaces
from tests.support.cluster.pods import manifest, nic_claim, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport

HEADER: Final = {"apiVersion": "rootport.dev/v1alpha1", "kind": "DevicePolicies"}
QUICK: Final = "tests.support.quick_controller"
ROUTES: Final = (
    "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    "{}\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
)
SLEEP: Final = "exec sleep 100000"


@pytest.fixture
def policies(rootport: RunningRootport, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Puts policies into force, in a controller and a plugin that read them; at the end the usual ones run again."""
    file = tmp_path / "device-policies.yaml"
    file.write_text(yaml.safe_dump(HEADER | {"policies": []}))
    restart(rootport, f"--device-policies={file}", module=QUICK)
    assert rootport.plugin is not None
    rootport.plugin.stop()
    rootport.start_plugin(options=[f"--device-policies={file}", "--discovery-interval=1"])

    def put(*rules: dict[str, Any]) -> None:
        new = tmp_path / "new.yaml"
        new.write_text(yaml.safe_dump(HEADER | {"policies": list(rules)}))
        new.rename(file)

    yield put
    rootport.delete_all()
    rootport.wait_until_clean()
    assert rootport.plugin is not None
    rootport.plugin.stop()
    restart(rootport)
    rootport.start_plugin()


def restart(rootport: RunningRootport, *options: str, **others: str) -> None:
    assert rootport.controller is not None
    rootport.controller.stop()
    rootport.start_controller(*options, **others)
    rootport.wait_until_controller_is_ready()


def devices(rootport: RunningRootport) -> dict[str, dict[str, Any]]:
    return {device["name"]: device for item in rootport.slices() for device in item["spec"].get("devices", ())}


def name_of(address: str) -> str:
    return f"rdma-{address.replace(':', '-').replace('.', '-')}"


def allocated(rootport: RunningRootport, claim: str) -> list[str]:
    status = rootport.cluster.get("resourceclaim", claim).get("status", {})
    results = status.get("allocation", {}).get("devices", {}).get("results", ())
    return [result["device"] for result in results]


def start(rootport: RunningRootport, *objects: dict[str, Any]) -> None:
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))


def test_a_nic_that_is_kept_off_leaves_the_slices_and_its_claim_keeps_it(
    rootport: RunningRootport, policies: Callable[..., None]
) -> None:
    address = rootport.host.nics[1]
    start(rootport, nic_claim("first", class_="rdma", address=address), pod("first", claim="first", command=SLEEP))
    rootport.cluster.wait_for_pod("first", "Running")
    policies({"pciAddresses": [address], "offer": False})
    wait_until("the NIC has left", lambda: name_of(address) not in devices(rootport), timeout_s=30)

    start(rootport, nic_claim("second", class_="rdma", address=address), pod("second", claim="second", command=SLEEP))
    events_with(rootport, "Pod", "second", "cannot allocate all claims")
    assert rootport.cluster.get("pod", "first")["status"]["phase"] == "Running"
    shown = yaml.safe_load(rootport.cluster.kubectl("get", "devices.rootport.dev", "-o", "yaml"))["items"]
    (device,) = (item["spec"] for item in shown if item["spec"]["pciBusID"] == address)
    assert device["leftOut"] == "the DevicePolicies keep it off the offer"

    rootport.cluster.kubectl("delete", "pod/first", "resourceclaim/first", "--wait=false")
    policies()
    rootport.cluster.wait_for_pod("second", "Running")


def test_the_nic_of_the_default_route_is_given_only_where_the_policies_say_so(
    rootport: RunningRootport, policies: Callable[..., None]
) -> None:
    address, interface = rootport.host.nics[2], "ib2"
    table = rootport.host.root / "proc/1/net/route"
    rootport.host.tree.proc("1/net/route", ROUTES.format(interface))
    add_interfaces(rootport.cluster.machine, [interface])
    try:

        def taints() -> list[str]:
            return [taint["key"] for taint in devices(rootport)[name_of(address)].get("taints", ())]

        wait_until("the NIC is tainted", lambda: taints() == ["rootport.dev/default-route"], timeout_s=60)
        moved = {"interface": {"name": "net0"}}
        start(
            rootport,
            nic_claim("route", class_="rdma", address=address, parameters=moved),
            pod("route", claim="route", command=SLEEP),
        )
        events_with(rootport, "Pod", "route", "default route")
        assert allocated(rootport, "route") == []

        policies({"pciAddresses": [address], "defaultRoute": "allow"})
        rootport.cluster.wait_for_pod("route", "Running")
        assert allocated(rootport, "route") == [name_of(address)]
        assert "net0" in rootport.cluster.kubectl("exec", "route", "--", "ip", "link")
    finally:
        table.unlink()
        rootport.delete_all()
        rootport.wait_until_clean()
        remove_interfaces(rootport.cluster.machine, [interface])
