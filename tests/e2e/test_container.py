"""What a container of the real node sees of its devices, and what the node says of itself."""

from __future__ import annotations

import json

from tests.support.cluster.hardware import DRIVER_VERSION
from tests.support.cluster.pods import manifest, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport

LOOK = """
for node in /dev/nvidia0 /dev/nvidia1 /dev/infiniband/uverbs0; do dd if=$node count=1 2>&1; done
ls /usr/lib/x86_64-linux-gnu
/usr/bin/nvidia-smi
echo METADATA
cat /var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/devices/gpu/rootport.dev-metadata.json
exec sleep 100000
"""


def test_a_container_can_open_its_devices_only_and_has_the_driver_and_the_metadata(rootport: RunningRootport) -> None:
    cluster = rootport.cluster
    cluster.kubectl("apply", "--filename=-", input=manifest(template("pair", gpu=1, nic=1)))
    cluster.kubectl("apply", "--filename=-", input=manifest(pod("looks", template="pair", command=LOOK)))
    cluster.wait_for_pod("looks", "Running")
    wait_until("it has said all", lambda: "attributes" in cluster.kubectl("logs", "looks"), timeout_s=20)
    said, _, metadata = cluster.kubectl("logs", "looks").partition("METADATA\n")

    # No such driver is loaded here: ENXIO is what the kernel says to who may open the node, EPERM to who may not.
    assert "can't open '/dev/nvidia0': No such device or address" in said
    assert "can't open '/dev/infiniband/uverbs0': No such device or address" in said
    assert "can't open '/dev/nvidia1': No such file or directory" in said
    assert {"libcuda.so.1", f"libcuda.so.{DRIVER_VERSION}", "libnvidia-ml.so.1"} <= set(said.split())
    assert "NVIDIA-SMI" in said
    (request,) = json.loads(metadata)["requests"]
    (device,) = request["devices"]
    assert device["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": rootport.host.gpus[0]}


def test_the_pod_s_status_tells_the_health_of_its_devices(rootport: RunningRootport) -> None:
    cluster = rootport.cluster
    cluster.kubectl("apply", "--filename=-", input=manifest(template("gpu"), pod("healthy", template="gpu")))
    cluster.wait_for_pod("healthy", "Running")

    def healths() -> list[str]:
        (container,) = cluster.get("pod", "healthy")["status"]["containerStatuses"]
        claims = container.get("allocatedResourcesStatus", [])
        return [device.get("health") for claim in claims for device in claim.get("resources", [])]

    wait_until("the kubelet says that the GPU is healthy", lambda: healths() == ["Healthy"], timeout_s=45)


def test_the_node_says_that_all_is_well(rootport: RunningRootport) -> None:
    def conditions() -> dict[str, str]:
        found = rootport.cluster.get("nodeinventory", "node-1")["status"]["conditions"]
        return {item["type"]: item["status"] for item in found}

    wait_until("it is Ready", lambda: conditions().get("Ready") == "True", timeout_s=30)
    assert set(conditions().values()) == {"True"}
    assert {"RuntimeReadsCdi", "CdiDirectoryWritable", "NoRivalPlugin", "Registered", "Published"} <= set(conditions())
