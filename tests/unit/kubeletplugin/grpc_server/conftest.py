"""A plugin server on real unix sockets, with services behind it whose answers a test sets."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from driver.api.claim_reference import ClaimReference
from driver.errors import RootportError
from driver.plan import PreparedDevice
from kubeletplugin.grpc_server import PluginServer
from kubeletplugin.service import ClaimPrepared, DeviceHealth


def prepared(*devices: str, requests: tuple[str, ...] = ("gpu",), share: str | None = None) -> ClaimPrepared:
    return ClaimPrepared(
        devices=tuple(
            PreparedDevice(
                request_names=requests,
                pool="node-1",
                device=device,
                cdi_device_ids=(f"rootport.dev/claim={device}",),
                share_id=share,
            )
            for device in devices
        )
    )


@dataclass
class Claims:
    """Answers what a test puts into ``outcomes``: an answer, or an exception to raise for that UID."""

    outcomes: dict[str, object] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    entered: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event | None = None

    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        return self._answer(claims, prepared("gpu-0"))

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        return self._answer(claims, None)

    def _answer(self, claims: Sequence[ClaimReference], usual: object) -> Mapping[str, object]:
        self.calls.append(tuple(claim.uid for claim in claims))
        self.entered.set()
        if self.may_end is not None:
            assert self.may_end.wait(10), "the test did not let the call end"
        answers = {}
        for claim in claims:
            outcome = self.outcomes.get(claim.uid, usual)
            if isinstance(outcome, Exception) and not isinstance(outcome, RootportError):
                raise outcome
            if outcome != "forgotten":
                answers[claim.uid] = outcome
        return answers


class Health:
    """Health that a test sets."""

    def __init__(self, *devices: DeviceHealth) -> None:
        self._changed = threading.Condition()
        self._devices: Sequence[DeviceHealth] = devices
        self._version = 0

    def set(self, *devices: DeviceHealth) -> None:
        with self._changed:
            self._devices = devices
            self._version += 1
            self._changed.notify_all()

    def current(self) -> Sequence[DeviceHealth]:
        return self._devices

    def version(self) -> int:
        return self._version

    def wait(self, version: int, timeout_s: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, timeout=timeout_s)
            return self._version


@dataclass
class Listener:
    heard: list[tuple[bool, str]] = field(default_factory=list)
    fault: Exception | None = None

    def registered(self, ok: bool, error: str) -> None:
        self.heard.append((ok, error))
        if self.fault is not None:
            raise self.fault


@dataclass
class Node:
    """The kubelet's two folders, and plugin servers in them."""

    folder: Path
    claims: Claims = field(default_factory=Claims)
    health: Health = field(default_factory=Health)
    listener: Listener = field(default_factory=Listener)
    servers: list[PluginServer] = field(default_factory=list)
    channels: list[grpc.Channel] = field(default_factory=list)

    @property
    def plugin_dir(self) -> Path:
        return self.folder / "plugins" / "rootport.dev"

    @property
    def registry_dir(self) -> Path:
        return self.folder / "plugins_registry"

    def server(self, instance: str = "a", **changes: object) -> PluginServer:
        arguments = {
            "claims": self.claims,
            "health": self.health,
            "listener": self.listener,
            "plugin_dir": self.plugin_dir,
            "registry_dir": self.registry_dir,
            "instance": instance,
        }
        server = PluginServer(**(arguments | changes))
        self.servers.append(server)
        return server

    def started(self, instance: str = "a") -> PluginServer:
        server = self.server(instance)
        server.start()
        return server

    def channel(self, path: Path, *, authority: str = "localhost") -> grpc.Channel:
        channel = grpc.insecure_channel(f"unix:{path}", options=[("grpc.default_authority", authority)])
        self.channels.append(channel)
        return channel

    def close(self) -> None:
        for channel in self.channels:
            channel.close()
        for server in self.servers:
            server.stop(0)

    def files(self) -> list[str]:
        """What stands in both folders, hidden files as well, without the lock."""
        names = [path.name for folder in (self.plugin_dir, self.registry_dir) for path in folder.iterdir()]
        return sorted(name for name in names if name != "sockets.lock")


@pytest.fixture
def node() -> Iterator[Node]:
    # pytest's own folders are too long for a socket.
    folder = Path(tempfile.mkdtemp(prefix="rootport-"))
    (folder / "plugins_registry").mkdir()
    node = Node(folder)
    yield node
    node.close()
    shutil.rmtree(folder)


@pytest.fixture
def devices() -> Callable[..., ClaimPrepared]:
    return prepared
