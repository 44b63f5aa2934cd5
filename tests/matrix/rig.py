"""What the rows of the suite have in common: pods that run or do not, what the node says, and what a row has seen."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from driver.adapters.kubernetes.resources import DEVICES, EVENTS, NODE_INVENTORIES, PODS
from tests.matrix.results import Seen
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import manifest
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import PLUGIN_HEALTH_PORT, RunningRootport

__all__ = ["CONTROLLER", "CONTROLLER_OPTIONS", "LOOK", "Rig", "Row"]

CONTROLLER: Final = "tests.support.quick_controller"
CONTROLLER_OPTIONS: Final = ("--resync=20",)  # DeviceClasses are looked at then

LOOK: Final = "ls /dev /dev/infiniband /dev/nvidia-caps 2>/dev/null; env | sort; echo SEEN; exec sleep 100000"
"""What a container runs whose devices are looked at: :meth:`Rig.log`."""

_PATIENCE_S: Final = 40.0
"""How long a pod may be unschedulable: the controller changes a free GPU's mode within some seconds."""


class Rig:
    """Rootport on the real node.

    Args:
        rootport: Its processes.
    """

    def __init__(self, rootport: RunningRootport) -> None:
        self.rootport = rootport
        self.cluster = rootport.cluster
        self.host = rootport.host
        self.kubectl = rootport.cluster.kubectl

    def start(self, *objects: dict[str, Any]) -> None:
        """Apply objects."""
        self.kubectl("apply", "--filename=-", input=manifest(*objects))

    def runs(self, *names: str, patience_s: float = _PATIENCE_S) -> bool:
        """Whether these pods run; they do not once one of them has been unschedulable for so long.

        Raises:
            TimeoutError: One of them neither runs nor is unschedulable.
        """
        end = time.monotonic() + patience_s
        while (states := self.states(*names)) != dict.fromkeys(names, "Running"):
            if time.monotonic() > end:
                if "Unschedulable" in states.values() and set(states.values()) <= {"Running", "Unschedulable"}:
                    return False
                story = self.kubectl("describe", "pods,resourceclaims", check=False)
                raise TimeoutError(f"{states}\n{story[-5000:]}")
            time.sleep(0.3)
        return True

    def waits(self, name: str, *, for_s: float = 8) -> bool:
        """Whether a pod becomes unschedulable, and still is after this time."""
        wait_until(f"{name} has been tried", lambda: self.states(name)[name] != "Pending", timeout_s=30)
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            if self.states(name)[name] == "Running":
                return False
            time.sleep(0.3)
        return self.states(name)[name] == "Unschedulable"

    def states(self, *names: str) -> dict[str, str]:
        """Pod to its phase, or Unschedulable."""
        found = dict.fromkeys(names, "Gone")
        for item in self.cluster.list(PODS):
            if (name := item["metadata"]["name"]) in found:
                conditions = {condition["type"]: condition for condition in item["status"].get("conditions", [])}
                is_stuck = conditions.get("PodScheduled", {}).get("reason") == "Unschedulable"
                found[name] = "Unschedulable" if is_stuck else item["status"]["phase"]
        return found

    def log(self, name: str) -> str:
        """The log of a pod that runs :data:`LOOK`."""
        said = ""

        def is_said() -> bool:
            nonlocal said
            said = self.kubectl("logs", name, check=False)
            return "SEEN" in said

        wait_until(f"pod {name} says what it sees", is_said, timeout_s=60)
        return said

    def gpus_seen(self, name: str) -> set[int]:
        """The indices of the GPUs whose device nodes a container has."""
        return {int(number) for number in re.findall(r"^nvidia(\d+)$", self.log(name), re.MULTILINE)}

    def nics_seen(self, name: str) -> set[int]:
        """The numbers of the verbs nodes that a container has."""
        return {int(number) for number in re.findall(r"^uverbs(\d+)$", self.log(name), re.MULTILINE)}

    def claim(self, name: str) -> dict[str, Any]:
        """A claim as it is stored."""
        return self.cluster.get("resourceclaim", name)

    def events(self, name: str) -> str:
        """What all Events of a pod say."""
        found = self.cluster.list(EVENTS, field_selector=f"involvedObject.name={name}")
        return "\n".join(f"{item['reason']}: {item['message']}" for item in found)

    def explained(self, name: str) -> str:
        """What Rootport's Event of a pending pod says."""
        found = self.cluster.list(EVENTS, field_selector=f"involvedObject.name={name}")
        (message,) = {
            item["message"] for item in found if item.get("reportingComponent", "").startswith("rootport.dev/")
        }
        return str(message)

    def plugin_metrics(self) -> str:
        """The page of the plugin's metrics."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.cluster.machine.address}:{PLUGIN_HEALTH_PORT}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    def device(self, name: str) -> dict[str, Any]:
        """A Device object of the node."""
        (found,) = [item for item in self.cluster.list(DEVICES) if item["metadata"]["name"] == f"{NODE_NAME}.{name}"]
        return found

    def conditions(self) -> dict[str, dict[str, Any]]:
        """The conditions of the node's NodeInventory, by type."""
        (inventory,) = self.cluster.list(NODE_INVENTORIES)
        return {item["type"]: item for item in inventory["status"].get("conditions", [])}

    def told(self, gate: str) -> Seen | None:
        """What the conditions say of a feature gate that is off."""
        for type_, condition in self.conditions().items():
            if gate in condition["message"]:
                return _told(gate, type_, condition["message"])
        return None

    @contextmanager
    def faulty(self, gpu: int, xid: int, **facts: int) -> Iterator[None]:
        """A GPU with an error; at the end it is as before."""
        name = self.gpu_name(gpu)
        try:
            self.host.set_live(gpu, **facts)
            self.host.inject_xid(gpu, xid)
            wait_until("the Device says it", lambda: self._healthy(name) == "False", timeout_s=60)
            yield
        finally:
            self.rootport.delete_all()
            self.host.set_live(gpu, **dict.fromkeys(facts, 0))
            wait_until("the GPU is healthy again", lambda: self._healthy(name) == "True", timeout_s=90)

    def is_tainted(self, name: str) -> bool:
        """Whether a device has a taint in the slices."""
        devices = [device for item in self.rootport.slices() for device in item["spec"].get("devices", ())]
        return any(device["name"] == name and device.get("taints") for device in devices)

    def gpu_name(self, index: int) -> str:
        """How the device of a GPU is named in the slices."""
        return f"gpu-{self.host.gpus[index].replace(':', '-').replace('.', '-')}"

    def _healthy(self, name: str) -> str:
        found = {item["type"]: item["status"] for item in self.device(name)["status"].get("conditions", [])}
        return found.get("Healthy", "")


class Row:
    """What one row of the table has to say. Each test says it once, at its end.

    Args:
        rig: The node.

    Attributes:
        seen: What it has said.
    """

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.seen: Seen | None = None

    def works(self, remark: str = "") -> None:
        """All of it works."""
        self._say(Seen(result="works", message=remark))

    def degraded(self, gate: str) -> None:
        """It does not work, for a feature gate is off: then a condition of the node has to say so."""
        deadline = time.monotonic() + 30
        while (told := self._rig.told(gate)) is None:
            said = {type_: item["message"] for type_, item in self._rig.conditions().items()}
            assert time.monotonic() < deadline, f"it does not work, and no condition names {gate}: {said}"
            time.sleep(0.5)
        self._say(told)

    def absent(self, said: str, *, by: str, gate: str = "") -> None:
        """It does not work, since Kubernetes refuses what it takes, in words that the user sees."""
        assert said.strip(), "it does not work, and nobody says why"
        self._say(Seen(result="absent", gate=gate, where=by, message=said.strip().splitlines()[0]))

    def _say(self, seen: Seen) -> None:
        assert self.seen is None, "a row says one thing"
        self.seen = seen


def _told(gate: str, type_: str, message: str) -> Seen:
    """The part of a condition's message about a gate: what comes before and after it is about something else."""
    parts = message.split("; ")
    at = next(number for number, part in enumerate(parts) if gate in part)
    is_second_half = parts[at].startswith(("its feature gate ", "1.35 does"))
    text = "; ".join(parts[at - 1 : at + 1]) if is_second_half else parts[at]
    return Seen(result="degraded", gate=gate, where=f"condition {type_} of the NodeInventory", message=text)
