"""One look at one pod: whether its GPUs and NICs could have been nearer, and the Event that says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from controller.cluster.alignment_view import PodDevices
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import AlreadyExistsError, InvalidError, NotFoundError
from driver.adapters.kubernetes.resources import EVENTS_K8S_IO, JsonObject
from driver.errors import InputError
from driver.model.alignment import Misalignment, misalignments
from driver.model.devices import DeviceType
from driver.model.parts import named_devices
from driver.objects.alignment_events import alignment_event
from driver.objects.inventories import inventory_of, parse_node_inventory

__all__ = ["AlignmentPass"]

_LOG: Final = logging.getLogger(__name__)
_NICS: Final = f"{DeviceType.RDMA}-"  # so begins the name of all that is given of a NIC: it, its VFs, their pool


class AlignmentPass:
    """Does looks. For one thread.

    Args:
        api: Where to write.
        pod: What the pod with this UID has; None where it has nothing, or is gone.
        inventory: A node's NodeInventory; None where there is none.
        instance: Who reports, in the Event.
        pause: Called before each write: waits until it is this pass's turn. True: write no more, the end is near.
        clock: The time of day.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        pod: Callable[[str], PodDevices | None],
        inventory: Callable[[str], JsonObject | None],
        instance: str,
        pause: Callable[[], bool],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._pod = pod
        self._inventory = inventory
        self._instance = instance
        self._pause = pause
        self._clock = clock
        self._told: set[str] = set()

    def run(self, uid: str) -> None:
        """Write the Event where the pod needs one and has none.

        An Event of its name that is there already is left as it is: a controller before this one wrote it.

        Raises:
            ApiServerError: It could not be written; a later look tries again.
        """
        pod = self._pod(uid)
        if pod is None:
            self._told.discard(uid)
            return
        if uid in self._told:
            return
        found = self._misalignments(pod)
        if not found or self._pause():
            return
        self._write(pod, found)
        self._told.add(uid)

    def _write(self, pod: PodDevices, found: tuple[Misalignment, ...]) -> None:
        event = alignment_event(
            pod.pod, allocations=pod.allocations, found=found, instance=self._instance, now=self._clock()
        )
        told = {"namespace": pod.allocations[0].namespace, "pod": pod.pod.name, "uid": pod.pod.uid}
        try:
            self._api.create(EVENTS_K8S_IO, event)
        except AlreadyExistsError:
            return
        except NotFoundError:
            return  # the namespace is gone or going, and the pod with it
        except InvalidError as error:
            # Another try is refused as well.
            _LOG.error("event refused", extra=told | {"error": str(error)})
            return
        _LOG.info("devices are not aligned", extra=told | {"gpus": len(found)})

    def _misalignments(self, pod: PodDevices) -> tuple[Misalignment, ...]:
        names = {item.device for item in pod.allocations}
        nodes = {item.pool for item in pod.allocations}
        if len(nodes) > 1:
            return ()  # a pod is on one node; whoever wrote something else meant no pod that runs
        nics = {name for name in names if name.startswith(_NICS)}
        if not nics or nics == names:
            return ()  # to read an inventory takes 5 ms
        wire = self._inventory(nodes.pop())
        if wire is None:
            return ()
        try:
            inventory = inventory_of(parse_node_inventory(wire))
        except InputError:
            return ()  # the node's condition says so
        devices = named_devices(inventory, names)
        if len(devices) < len(names):
            return ()  # what is gone may have been the near one
        return misalignments(inventory, [devices[item.device] for item in pod.allocations])
