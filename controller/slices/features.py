"""Finds out by a dry run whether the API server keeps the fields that a node's slices need; nothing is stored.

The API server silently drops fields whose feature gate is off. Without counters (DRAPartitionableDevices, off by
default before Kubernetes 1.36) the scheduler would allocate one GPU whole, by percent and in partitions at the same
time, so that has to be known before anything is published. Without taints (DRADeviceTaints) it would allocate broken
devices, and the controller can only report that.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ForbiddenError, InvalidError
from driver.adapters.kubernetes.resources import RESOURCE_SLICES, JsonObject
from driver.api.resource_v1 import API_VERSION
from driver.layout.names import slice_name

__all__ = ["SliceFeatures"]

_LOG: Final = logging.getLogger(__name__)
_NODE: Final = "dry-run"
_COUNTERS: Final = "consumesCounters"
_SHARES: Final = "allowMultipleAllocations"
_TAINTS: Final = "taints"
_GATES: Final = {
    _COUNTERS: "DRAPartitionableDevices",
    _SHARES: "DRAConsumableCapacity",
    _TAINTS: "DRADeviceTaints",
}
_PROBES: Final[dict[str, object]] = {
    _COUNTERS: [{"counterSet": "g0", "counters": {"gpu": {"value": "1"}}}],
    _SHARES: True,
    _TAINTS: [{"key": f"{DRIVER_NAME}/dry-run", "effect": "NoSchedule"}],
}
_REFUSED_S: Final = 10.0  # every node asks, and a policy that refuses goes on refusing
_OF_CONSUMPTION: Final = re.compile(r"spec\.devices\[0\]\.consumesCounters\b[^:]*: ")
_NO_TAINTS: Final = (
    "unhealthy devices and NICs without a link are given as well, and no GPU changes its mode for a claim: the API "
    "server drops the taints of devices; its feature gate DRADeviceTaints is off"
)
_NO_SHARES: Final = (
    "GPUs and RDMA NICs are given whole only, and VFs are published by name: the API server drops what says that a "
    "device can be shared; its feature gate DRAConsumableCapacity is off"
)


class SliceFeatures:
    """Asks the API server once, and again after :meth:`forget`. Thread-safe.

    Where it refuses the question, nothing is known: that is an error, since what it keeps decides about safety.

    Args:
        api: The API server.
        clock: Monotonic seconds.
    """

    def __init__(self, api: KubernetesApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._refused: tuple[float, ApiServerError] | None = None
        self._lock = threading.Lock()
        self._kept: frozenset[str] | None = None

    @property
    def has_counters(self) -> bool:
        """Whether it keeps counters as Rootport uses them: consumed in one slice, shared in another (Kubernetes 1.35).

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        return _COUNTERS in self._kept_fields()

    @property
    def has_shares(self) -> bool:
        """Whether it keeps the field that makes a device shareable.

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        return _SHARES in self._kept_fields()

    @property
    def has_taints(self) -> bool:
        """Whether it keeps the taints of devices.

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        return _TAINTS in self._kept_fields()

    @property
    def notes(self) -> tuple[str, ...]:
        """What users lose, apart from the devices that the layout leaves out without counters; for a person.

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        kept = self._kept_fields()
        return tuple(note for name, note in ((_SHARES, _NO_SHARES), (_TAINTS, _NO_TAINTS)) if name not in kept)

    def forget(self) -> None:
        """Forget the answer: the API server may have been upgraded since."""
        with self._lock:
            self._kept = self._refused = None

    def _kept_fields(self) -> frozenset[str]:
        with self._lock:
            if self._kept is None:
                if self._refused is not None and self._clock() < self._refused[0] + _REFUSED_S:
                    raise self._refused[1].with_traceback(None)
                try:
                    self._kept = frozenset(name for name in _PROBES if self._is_kept(name))
                except (ForbiddenError, InvalidError) as error:
                    self._refused = self._clock(), error
                    raise
                if lost := _PROBES.keys() - self._kept:
                    _LOG.error(
                        "the API server drops fields that Rootport needs: turn on its feature gates %s, on the "
                        "scheduler as well",
                        " and ".join(sorted(_GATES[name] for name in lost)),
                        extra={"dropped": sorted(lost)},
                    )
            return self._kept

    def _is_kept(self, name: str) -> bool:
        try:
            answer = self._api.create(RESOURCE_SLICES, _slice(name), dry_run=True)
        except InvalidError as error:
            # Kubernetes 1.34 wants counters and their consumers in one slice. Any other refusal, such as that of a
            # ValidatingAdmissionPolicy, does not say what the API server keeps.
            if name == _COUNTERS and error.causes and all(_OF_CONSUMPTION.match(cause) for cause in error.causes):
                return False
            raise
        return name in answer["spec"]["devices"][0]


def _slice(name: str) -> JsonObject:
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        # Another one each time: an object of a foreseeable name would keep all nodes' slices from being published.
        "metadata": {"name": slice_name(_NODE, secrets.token_hex(8), 0)},
        "spec": {
            "driver": DRIVER_NAME,
            "nodeName": _NODE,
            "pool": {"name": _NODE, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu", name: _PROBES[name]}],
        },
    }
