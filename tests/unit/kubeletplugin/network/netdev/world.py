"""A host and its pods as network namespaces of the kernel's own, with veths for NICs; and a stand-in for ``rdma``.

``rdma`` stands below the library's boundary: a program on PATH that knows namespaces by their inodes, as the kernel
does, and finds them by name as iproute2's does.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from driver.adapters.host import HostRoot
from driver.plan.effects import LendInterface
from kubeletplugin.network.netdev.lender import InterfaceLender
from kubeletplugin.network.netdev.links import Links
from kubeletplugin.network.netdev.programs import Netns
from kubeletplugin.node.roots import Roots

ADDRESS = "0000:1c:00.2"
FUNCTION = "rdma-vf-0000-1c-00-2"
POD = "11111111-1111-1111-1111-111111111111"
CLAIM = "22222222-2222-2222-2222-222222222222"

_RDMA = """#!{python}
import json, os, pathlib, sys
state = pathlib.Path(__file__).with_name("rdma.json")
devices = json.loads(state.read_text())
here = os.stat("/proc/self/ns/net").st_ino
words = [word for word in sys.argv[1:] if word != "-json"]
if words == ["dev", "show"]:
    seen = [name for name, netns in sorted(devices.items()) if netns == here]
    print(json.dumps([
        {{"ifindex": index, "ifname": name, "node_type": "ca", "fw": "20.31.1014",
          "node_guid": "0c42:a103:0065:ca4c", "sys_image_guid": "0c42:a103:0065:ca4c"}}
        for index, name in enumerate(seen)]))
elif words[:2] == ["dev", "set"] and words[3] == "netns" and devices.get(words[2]) == here:
    devices[words[2]] = os.stat("/run/netns/" + words[4]).st_ino
    state.write_text(json.dumps(devices))
else:
    sys.exit("rdma: Invalid argument")
"""


class Stopped(BaseException):
    """The plugin was killed."""


class StoppingLinks(Links):
    """Stops before its n-th change of the kernel, or behind it: as a kill there would."""

    def __init__(self, at: int, *, behind: bool) -> None:
        super().__init__()
        self._left = at
        self._behind = behind
        self.stopped = False

    def run(self, program: str, arguments: Sequence[str], *, inside: Netns, to: Netns | None = None, doing: str) -> str:
        changes = "show" not in arguments
        self._left -= changes
        stop = changes and self._left == 0
        self.stopped |= stop
        if stop and not self._behind:
            raise Stopped
        text = super().run(program, arguments, inside=inside, to=to, doing=doing)
        if stop:
            raise Stopped
        return text


class World:
    def __init__(self, folder: Path) -> None:
        self._prefix = f"rp{secrets.token_hex(4)}"
        self.namespaces: list[str] = []
        self.real_ip = shutil.which("ip") or "ip"  # whatever a test then does to PATH
        self.folder = folder
        self.state = folder / "state"
        self.bin = folder / "bin"
        self.bin.mkdir()
        (folder / "hw/sys").mkdir(parents=True)
        root = HostRoot(folder / "hw")
        self.roots = Roots(hardware=root, host=root, device_root="", driver_root="")
        self.host = self.netns("host")

    def lender(self, links: Links | None = None, *, lends_default_route: Collection[str] = ()) -> InterfaceLender:
        return InterfaceLender(
            self.roots,
            state_dir=self.state,
            host_netns=Path(self.host),
            links=links or Links(),
            patience_s=0.5,
            lends_default_route=lambda function: function in lends_default_route,
        )

    def netns(self, name: str) -> str:
        full = f"{self._prefix}-{name}"
        subprocess.run([self.real_ip, "netns", "add", full], check=True)
        self.namespaces.append(full)
        return f"/run/netns/{full}"

    def end(self, netns: str) -> None:
        """End a namespace and wait until what was in it has gone: a veth's other end on the host goes with it."""
        name = Path(netns).name
        subprocess.run([self.real_ip, "netns", "del", name], check=True)
        self.namespaces.remove(name)

    def close(self) -> None:
        for name in list(self.namespaces):
            subprocess.run([self.real_ip, "netns", "del", name], check=False)

    def ip(self, netns: str, *words: str) -> str:
        return subprocess.run(
            [self.real_ip, "-n", Path(netns).name, *words], check=True, capture_output=True, text=True
        ).stdout

    def nic(self, name: str, address: str = ADDRESS, *, configured: bool = True) -> None:
        """A veth that stands for a NIC, its other end beside it for the cable."""
        self.ip(self.host, "link", "add", name, "mtu", "4200", "type", "veth", "peer", "name", f"{name}-c")
        self.sysfs(address, name)
        self.ip(self.host, "link", "set", f"{name}-c", "up")
        if configured:
            number = 10 + int(name[-1]) if name[-1].isdigit() else 10
            self.ip(self.host, "link", "property", "add", "dev", name, "altname", f"enp{name}")
            self.ip(self.host, "address", "add", f"10.{number}.0.1/24", "brd", "+", "dev", name)
            self.ip(self.host, "address", "add", f"10.{number}.9.1", "peer", f"10.{number}.9.2/32", "dev", name)
            self.ip(self.host, "address", "add", f"fd00:{number}::1/64", "dev", name)
            self.ip(self.host, "link", "set", name, "up")

    def sysfs(self, address: str, name: str) -> None:
        net = self.folder / f"hw/sys/bus/pci/devices/{address}/net"
        shutil.rmtree(net, ignore_errors=True)
        (net / name).mkdir(parents=True)

    def link(self, netns: str, name: str) -> dict[str, Any] | None:
        for link in json.loads(self.ip(netns, "-j", "-d", "address", "show")):
            if link["ifname"] == name:
                return dict(link)
        return None

    def names(self, netns: str) -> set[str]:
        return {link["ifname"] for link in json.loads(self.ip(netns, "-j", "link", "show"))} - {"lo"}

    def facts(self, netns: str, name: str) -> dict[str, object]:
        """All that must be as before when an interface is back."""
        link = self.link(netns, name)
        assert link is not None, f"{name} is not there: {self.names(netns)}"
        addresses = [
            {key: value for key, value in address.items() if key not in ("tentative", "protocol")}
            for address in link["addr_info"]
            if address["scope"] != "link"
        ]
        return {
            **{key: link.get(key) for key in ("ifname", "mtu", "address")},
            "up": "UP" in link["flags"],
            "altnames": sorted(link.get("altnames", [])),
            "addresses": addresses,
        }

    def effect(self, **changes: Any) -> LendInterface:
        values: dict[str, Any] = {
            "function": FUNCTION,
            "address": ADDRESS,
            "interface": "nic0",
            "pod_uid": POD,
            "claim_uid": CLAIM,
            "name_in_pod": "net1",
            "mtu": 9000,
            "rdma_device": None,
        }
        return LendInterface(**{**values, **changes})

    def wrap_ip(self, first: str = "", then: str = "") -> None:
        """Put a program before ``ip``: lines of sh to run before the real one, and behind it."""
        program = self.bin / "ip"
        program.write_text(f'#!/bin/sh\n{first}\n{self.real_ip} "$@" || exit\n{then}\n')
        program.chmod(0o755)

    def rdma(self, *devices: str) -> None:
        """Install the stand-in, with these devices on the host."""
        program = self.bin / "rdma"
        program.write_text(_RDMA.format(python=sys.executable))
        program.chmod(0o755)
        netns = Path(self.host).stat().st_ino
        (self.bin / "rdma.json").write_text(json.dumps(dict.fromkeys(devices, netns)))

    def rdma_devices(self, netns: str) -> set[str]:
        here = Path(netns).stat().st_ino
        return {name for name, where in json.loads((self.bin / "rdma.json").read_text()).items() if where == here}
