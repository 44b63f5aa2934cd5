"""The controller that dies, or stops, in the middle of a placement: ``python -m`` this module.

``ROOTPORT_TEST_DIES`` says where: ``announced`` after a claim's annotation, ``allocated`` after a claim's allocation.
With ``ROOTPORT_TEST_STOPS`` the process stops once before an allocation, as a machine that is suspended, until SIGCONT.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.support import quick_controller


def main() -> None:
    """Run the controller."""
    from driver.adapters.kubernetes.api import KubernetesApi  # noqa: PLC0415
    from driver.model.managed_nodes import ANNOTATION  # noqa: PLC0415

    patch = KubernetesApi.merge_patch
    dies, stops = os.environ.get("ROOTPORT_TEST_DIES", ""), os.environ.get("ROOTPORT_TEST_STOPS", "")

    def patched(self: KubernetesApi, resource: Any, name: str, body: Any, **where: Any) -> Any:
        stored = patch(self, resource, name, body, **where)
        annotated = (body.get("metadata", {}).get("annotations") or {}).get(ANNOTATION)
        step = "announced" if annotated else "allocated" if (body.get("status") or {}).get("allocation") else ""
        if step and step == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return stored

    KubernetesApi.merge_patch = patched  # type: ignore[method-assign]
    if stops:
        _stop_before_allocating()
    quick_controller.main()


def _stop_before_allocating() -> None:
    """Stop once, right before an allocation is sent: after this process has made sure that it leads."""
    from driver.adapters.kubernetes.api import KubernetesApi  # noqa: PLC0415

    patch = KubernetesApi.merge_patch
    has_stopped: list[bool] = []

    def patched(self: KubernetesApi, resource: Any, name: str, body: Any, **where: Any) -> Any:
        if (body.get("status") or {}).get("allocation") and not has_stopped:
            has_stopped.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)
        return patch(self, resource, name, body, **where)

    KubernetesApi.merge_patch = patched  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
