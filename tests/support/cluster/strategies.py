"""GPUs of the real node that are shared by MPS or HAMi-core: the policies that offer them, and HAMi-core's library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.cluster.hardware import FakeHost
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.stub_hami import build

__all__ = ["HAMI_CORE_VERSION", "hami_core_file", "hami_core_installed", "offered_strategies", "offering", "policies"]

HAMI_CORE_VERSION: Final = "v2.9.0"


def policies(gpus: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """GpuPolicies for strategies and the PCI addresses of their GPUs."""
    return {
        "apiVersion": "rootport.dev/v1alpha1",
        "kind": "GpuPolicies",
        "policies": [{"pciAddresses": list(addresses), "strategy": name} for name, addresses in gpus.items()],
    }


def hami_core_file(host: FakeHost) -> Path:
    """Where the plugin is told to look for HAMi-core's library."""
    return host.root / "usr/local/vgpu/libvgpu.so"


@contextmanager
def hami_core_installed(host: FakeHost) -> Iterator[None]:
    """Have a stub of HAMi-core's library on the node."""
    library = hami_core_file(host).with_name(f"libvgpu.so.{HAMI_CORE_VERSION}")
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(build())
    library.chmod(0o755)
    try:
        yield
    finally:
        library.unlink(missing_ok=True)


@contextmanager
def offering(rootport: RunningRootport, **gpus: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Have both processes run with GPUs that are offered for other strategies than time-slicing.

    Args:
        rootport: Whose processes; they are as before afterwards.
        gpus: Strategy to the PCI addresses of its GPUs; for ``hamiCore`` a stub of the library is installed.

    Yields:
        The options of the plugin.
    """
    file = rootport.host.root / "gpu-policies.yaml"
    file.write_text(yaml.safe_dump(policies(gpus)))
    options = (f"--gpu-policies={file}", f"--hami-core={hami_core_file(rootport.host)}")
    try:
        with hami_core_installed(rootport.host) if "hamiCore" in gpus else nullcontext():
            _restart(rootport, file, options)
            wanted = {address: name for name, addresses in gpus.items() for address in addresses}
            wait_until("the GPUs are offered for their strategies", lambda: offered_strategies(rootport) == wanted)
            yield options
            rootport.delete_all()
            rootport.wait_until_clean()
    finally:
        _restart(rootport, None, ())
        wait_until("all GPUs are offered for time-slicing", lambda: not offered_strategies(rootport))
        file.unlink()


def _restart(rootport: RunningRootport, file: Path | None, plugin: tuple[str, ...]) -> None:
    assert rootport.controller is not None
    assert rootport.plugin is not None
    if rootport.controller.alive():
        rootport.controller.stop()
    rootport.start_controller(*([f"--gpu-policies={file}"] if file else []))
    if rootport.plugin.alive():
        rootport.plugin.stop()
    rootport.start_plugin(options=plugin)


def offered_strategies(rootport: RunningRootport) -> dict[str, str]:
    """The PCI addresses of GPUs that are open for another strategy than time-slicing, and which one."""
    found = {}
    for one in rootport.slices():
        for device in one["spec"].get("devices", ()):
            attributes = device["attributes"]
            strategy = attributes.get("sharingStrategy", {}).get("string", "timeSlicing")
            keys = {taint["key"] for taint in device.get("taints", ())}
            if strategy != "timeSlicing" and "rootport.dev/strategy-unavailable" not in keys:
                found[attributes["resource.kubernetes.io/pciBusID"]["string"]] = strategy
    return found
