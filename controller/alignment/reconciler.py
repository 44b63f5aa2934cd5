"""Reports a pod whose GPUs and NICs are far apart, or could have been nearer to each other, by an Event."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from controller.cluster.inventories import StoredInventory, Unreadable
from controller.cluster.pod_index import PodDevices
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import AlreadyExistsError, InvalidError, NotFoundError
from driver.adapters.kubernetes.resources import EVENTS_K8S_IO
from driver.model.alignment import Misalignment, PairDistance, misalignments
from driver.model.devices import DeviceType
from driver.model.parts import named_devices
from driver.objects.alignment_events import alignment_event, far_pairs

__all__ = ["AlignmentReconciler"]

_LOG: Final = logging.getLogger(__name__)
_NICS: Final = f"{DeviceType.RDMA}-"  # the names of a NIC, of its VFs and of their pool begin so


class AlignmentReconciler:
    """Writes an Event for each pod whose GPUs and NICs could be nearer to each other. Not thread-safe.

    Args:
        api: The API server.
        pod: Returns the devices of the pod with this UID; None if it has none, or is gone.
        inventory: Returns a node's NodeInventory; None if there is none.
        instance: The Event's reporting instance.
        pause: Called before each write: waits as long as the pace demands. Returns True if the controller stops.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        pod: Callable[[str], PodDevices | None],
        inventory: Callable[[str], StoredInventory | None],
        instance: str,
        pause: Callable[[], bool],
    ) -> None:
        self._api = api
        self._pod = pod
        self._inventory = inventory
        self._instance = instance
        self._pause = pause
        self._reported: set[str] = set()

    def reconcile(self, uid: str) -> None:
        """Write the pod's Event if it needs one and has none.

        An existing Event of its name is left as it is: a controller before this one wrote it.

        Args:
            uid: The pod's UID.

        Raises:
            ApiServerError: It could not be written.
        """
        pod = self._pod(uid)
        if pod is None:
            self._reported.discard(uid)
            return
        if uid in self._reported:
            return
        found, far = self._found(pod)
        if not (found or far) or self._pause():
            return
        self._write(pod, found, far)
        self._reported.add(uid)

    def _write(self, pod: PodDevices, found: tuple[Misalignment, ...], far: tuple[PairDistance, ...]) -> None:
        event = alignment_event(
            pod.pod, allocations=pod.allocations, found=found, far=far, instance=self._instance, now=datetime.now(UTC)
        )
        fields = {"namespace": pod.allocations[0].namespace, "pod": pod.pod.name, "uid": pod.pod.uid}
        try:
            self._api.create(EVENTS_K8S_IO, event)
        except AlreadyExistsError:
            return
        except NotFoundError:
            return  # the namespace is gone or going, and the pod with it
        except InvalidError as error:
            # Another try is refused as well.
            _LOG.error("event refused", extra=fields | {"error": str(error)})
            return
        _LOG.info("devices are not aligned", extra=fields | {"gpus": len(far or found)})

    def _found(self, pod: PodDevices) -> tuple[tuple[Misalignment, ...], tuple[PairDistance, ...]]:
        """Return what could have been nearer, and what a ladder's last rung gave."""
        names = {item.device for item in pod.allocations}
        nodes = {item.pool for item in pod.allocations}
        if len(nodes) > 1:
            return (), ()  # a pod is on one node: these allocations are not those of a running pod
        nics = {name for name in names if name.startswith(_NICS)}
        if not nics or nics == names:
            return (), ()  # to read an inventory may take 5 ms
        stored = self._inventory(nodes.pop())
        inventory = None if stored is None else stored.inventory()
        if inventory is None or isinstance(inventory, Unreadable):
            return (), ()  # the node's condition says why
        devices = named_devices(inventory, names)
        if len(devices) < len(names):
            return (), ()  # what is gone may have been the near one
        found = misalignments(inventory, [devices[item.device] for item in pod.allocations])
        return found, far_pairs(inventory, pod.allocations)
