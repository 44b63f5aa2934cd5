"""Where this process sees the host's files, and by which paths the host itself knows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driver.adapters.host import HostRoot
from driver.plan import host_folder

__all__ = ["Roots"]


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the plugin finds the hardware and NVIDIA's driver.

    Attributes:
        hardware: Holds ``sys`` and ``proc``.
        host: The host's ``/``: a path in a CDI spec is one below it.
        device_root: What stands before ``/dev`` on the host; empty for nothing.
        driver_root: The host's folder that stands for ``/`` where NVIDIA's driver is in a container of its own; empty
            for none. Its device nodes are below it too where it has any; other devices' nodes never are.
    """

    hardware: HostRoot
    host: HostRoot
    device_root: str
    driver_root: str

    @staticmethod
    def of(host_root: Path, device_root: str) -> Roots:
        """Return the roots for the flags ``--host-root`` and ``--device-root``.

        A device root below the host root is the folder of a driver that lives in a container of its own
        (``/run/nvidia/driver``). Where the host root ends with the device root, all hardware is below that folder of
        the host: a described machine, for tests.

        Raises:
            InputError: A folder does not exist, or is none.
        """
        prefix = host_folder(device_root, "--device-root")
        outside = str(host_root).removesuffix(prefix) if prefix else str(host_root)
        return Roots(
            hardware=HostRoot(host_root),
            host=HostRoot(outside or "/"),
            device_root=prefix if outside != str(host_root) else "",
            driver_root=prefix,
        )

    def devices(self) -> HostRoot:
        """Return what holds ``dev``.

        Raises:
            InputError: The device root does not exist.
        """
        return HostRoot(self.host.path / self.device_root.lstrip("/"))

    def nvidia_devices(self) -> HostRoot:
        """Return what holds the ``dev`` of NVIDIA's GPUs: the driver's root if they are there, else :meth:`devices`.

        Raises:
            InputError: As :meth:`devices`. A driver's container that is not there yet is none.
        """
        own = f"{self.driver_root.lstrip('/')}/dev/nvidiactl"
        if self.driver_root and self.host.fresh().resolve(own) is not None:
            return HostRoot(self.host.path / self.driver_root.lstrip("/"))
        return self.devices()
