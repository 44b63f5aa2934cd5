"""A VF's settings are the claim's while it is prepared, and what they were afterwards.

``ip`` is a stand-in for what needs a PF: it prints VFs as iproute2 6.1 does (print_vfinfo) and keeps them in a file.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.errors import NodeError
from driver.plan.effects import ConfigureVf, VfSettings
from kubeletplugin.network.netdev.links import Links
from kubeletplugin.network.netdev.vf_settings import VfConfigurer
from tests.unit.kubeletplugin.network.netdev.world import World

PF = "0000:1c:00.0"
_IP = """#!{python}
import json, os, pathlib, sys
state = pathlib.Path(__file__).with_name("vfs.json")
log = pathlib.Path(__file__).with_name("commands")
vfs = json.loads(state.read_text())
words = sys.argv[1:]
if words == ["-json", "-details", "link", "show", "dev", "pf0"]:
    print(json.dumps([{{}}, {{"ifindex": 3, "ifname": "pf0", "mtu": 1500, "num_vf": 2, "vfinfo_list": vfs}}]))
elif words[:5] == ["link", "set", "dev", "pf0", "vf"]:
    log.open("a").write(" ".join(words[5:]) + "\\n")
    vf = vfs[int(words[5])]
    settings = dict(zip(words[6::2], words[7::2]))
    for word, value in settings.items():
        if value == vf.get("refuses"):
            sys.exit("RTNETLINK answers: Operation not supported")
        if word == "vlan":
            tag = {{"vlan": int(value), "qos": int(settings["qos"]), "protocol": settings.get("proto")}}
            vf["vlan_list"] = [{{key: number for key, number in tag.items() if number}}]
        elif word in ("max_tx_rate", "min_tx_rate"):
            vf["rate"][word[:6]] = int(value)
        elif word in ("spoofchk", "trust"):
            vf[word] = value == "on"
        elif word in ("node_guid", "port_guid"):
            vf[word.replace("_", " ")] = value
    state.write_text(json.dumps(vfs))
else:
    os.execv({ip!r}, ["ip", *words])
"""


class Pf:
    def __init__(self, world: World) -> None:
        world.nic("pf0", PF, configured=False)
        self.world = world
        self._state = world.bin / "vfs.json"
        self._log = world.bin / "commands"
        self.vfs = [_vf(0), _vf(1)]
        program = world.bin / "ip"
        program.write_text(_IP.format(python=sys.executable, ip=world.real_ip))
        program.chmod(0o755)

    @property
    def vfs(self) -> list[dict[str, Any]]:
        return list(json.loads(self._state.read_text()))

    @vfs.setter
    def vfs(self, vfs: list[dict[str, Any]]) -> None:
        self._state.write_text(json.dumps(vfs))

    def commands(self) -> list[str]:
        said = self._log.read_text().splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return said

    def configurer(self) -> VfConfigurer:
        world = self.world
        return VfConfigurer(world.roots, state_dir=world.state, host_netns=Path(world.host), links=Links())


def _vf(index: int) -> dict[str, Any]:
    return {
        "vf": index,
        "link_type": "ether",
        "address": "02:00:00:00:00:01",
        "broadcast": "ff:ff:ff:ff:ff:ff",
        "vlan_list": [{}],
        "rate": {"max_tx": 0, "min_tx": 0},
        "spoofchk": True,
        "node guid": "00:00:00:00:00:00:00:00",
        "port guid": "00:00:00:00:00:00:00:00",
        "link_state": "auto",
        "trust": False,
        "query_rss_en": False,
    }


def _effect(**settings: Any) -> ConfigureVf:
    return ConfigureVf(
        function="rdma-vf-0000-1c-00-3", address="0000:1c:00.3", pf_address=PF, index=1, settings=VfSettings(**settings)
    )


@pytest.fixture
def pf(world: World) -> Pf:
    return Pf(world)


@pytest.mark.parametrize(
    ("settings", "commands", "fields"),
    [
        pytest.param({"vlan": 100}, ["1 vlan 100 qos 0"], {"vlan_list": [{"vlan": 100}]}, id="vlan"),
        pytest.param(
            {"vlan": 100, "vlan_qos": 5}, ["1 vlan 100 qos 5"], {"vlan_list": [{"vlan": 100, "qos": 5}]}, id="priority"
        ),
        pytest.param(
            {"trust": True, "spoof_check": False}, ["1 spoofchk off", "1 trust on"], {"trust": True}, id="flags"
        ),
        pytest.param({"trust": False, "vlan": 0}, [], {}, id="as it is already"),
        pytest.param(
            {"max_tx_rate": 1000},
            ["1 max_tx_rate 1000 min_tx_rate 0"],
            {"rate": {"max_tx": 1000, "min_tx": 0}},
            id="rate",
        ),
        pytest.param(
            {"guid": "00:11:22:33:44:55:66:77"},
            ["1 node_guid 00:11:22:33:44:55:66:77", "1 port_guid 00:11:22:33:44:55:66:77"],
            {"port guid": "00:11:22:33:44:55:66:77"},
            id="GUID",
        ),
    ],
)
def test_settings_are_set_once_and_restored(
    pf: Pf, settings: dict[str, Any], commands: list[str], fields: dict[str, object]
) -> None:
    before = pf.vfs
    configurer = pf.configurer()
    configurer.do(_effect(**settings))
    assert pf.commands() == commands
    assert pf.vfs[1] == {**before[1], **pf.vfs[1], **fields}
    assert pf.vfs[0] == before[0]
    configurer.do(_effect(**settings))
    assert pf.commands() == []

    pf.configurer().undo(_effect(**settings))
    assert pf.vfs == before
    pf.commands()
    pf.configurer().undo(_effect(**settings))
    assert pf.commands() == []


def test_what_an_administrator_had_set_is_restored(pf: Pf) -> None:
    vfs = pf.vfs
    vfs[1].update(
        vlan_list=[{"vlan": 7, "qos": 3, "protocol": "802.1ad"}], trust=True, rate={"max_tx": 500, "min_tx": 100}
    )
    pf.vfs = vfs
    effect = _effect(vlan=100, trust=False, max_tx_rate=0, min_tx_rate=0)
    pf.configurer().do(effect)
    assert (pf.vfs[1]["trust"], pf.vfs[1]["rate"]) == (False, {"max_tx": 0, "min_tx": 0})
    pf.configurer().undo(effect)
    assert pf.vfs == vfs


@pytest.mark.parametrize("next_call", ["do", "undo", "do another"])
def test_a_value_that_is_refused_is_told_and_the_others_are_restored(pf: Pf, next_call: str) -> None:
    before = pf.vfs
    vfs = pf.vfs
    vfs[1]["refuses"] = "on"
    pf.vfs = vfs
    effect = _effect(vlan=100, trust=True)
    message = r"rdma-vf-0000-1c-00-3 .*VF 1 of 0000:1c:00.0.*: setting trust on for VF 1 of pf0: .*not supported"
    with pytest.raises(NodeError, match=message):
        pf.configurer().do(effect)
    vfs = pf.vfs
    del vfs[1]["refuses"]
    pf.vfs = vfs
    last = _effect(spoof_check=False) if next_call == "do another" else effect
    if next_call != "undo":
        pf.configurer().do(last)
        assert pf.vfs[1]["vlan_list"] == ([{}] if next_call == "do another" else [{"vlan": 100}])
    pf.configurer().undo(last)
    assert pf.vfs == before


def _limited(rate: int = 10_000, **settings: Any) -> ConfigureVf:
    return replace(_effect(**settings), rate_limit=rate)


@pytest.mark.parametrize("settings", [{}, {"vlan": 100}], ids=["alone", "after a VLAN"])
def test_a_vf_is_limited_to_its_bandwidth_and_the_former_rate_is_restored(pf: Pf, settings: dict[str, Any]) -> None:
    vfs = pf.vfs
    vfs[1]["rate"] = {"max_tx": 500, "min_tx": 0}
    pf.vfs = vfs
    effect = _limited(**settings)
    assert pf.configurer().do(effect) is None
    assert pf.commands()[-1] == "1 max_tx_rate 10000 min_tx_rate 0"
    assert pf.configurer().do(effect) is None
    assert pf.commands() == []
    pf.configurer().undo(effect)
    assert pf.vfs == vfs


def test_a_driver_without_rates_keeps_no_claim_from_its_vf(pf: Pf) -> None:
    before = pf.vfs
    vfs = pf.vfs
    vfs[1]["refuses"] = "10000"
    pf.vfs = vfs
    effect = _limited(vlan=100)
    for _ in range(2):  # as after a crash
        outcome = pf.configurer().do(effect)
        assert outcome is not None
        assert "not supported" in outcome.reason
    assert pf.vfs[1]["vlan_list"] == [{"vlan": 100}]
    vfs = pf.vfs
    del vfs[1]["refuses"]
    pf.vfs = vfs
    pf.configurer().undo(effect)
    assert pf.vfs == before


def test_a_nic_without_an_interface_limits_nothing(pf: Pf) -> None:
    pf.vfs = pf.vfs[:1]
    outcome = pf.configurer().do(_limited())
    assert outcome is not None
    assert "no interface of the NIC 0000:1c:00.0 has its VF 1" in outcome.reason
    with pytest.raises(NodeError, match="no interface of the PF"):
        pf.configurer().do(_limited(vlan=100))
    pf.configurer().undo(_limited())


def test_a_vf_that_is_gone_has_nothing_to_restore(pf: Pf) -> None:
    effect = _effect(vlan=100)
    pf.configurer().do(effect)
    pf.vfs = pf.vfs[:1]
    with pytest.raises(NodeError, match=r"no interface of the PF 0000:1c:00\.0 has a VF 1"):
        pf.configurer().do(effect)
    pf.configurer().undo(effect)
    assert list((pf.world.state / "vfs").iterdir()) == []


def test_a_guid_that_is_none_never_reaches_a_program(pf: Pf) -> None:
    with pytest.raises(NodeError, match=r"rdma-vf-0000-1c-00-3 .*: '--help' is no GUID"):
        pf.configurer().do(_effect(guid="--help"))
    assert pf.commands() == []
