"""Switches that are part of one card are dropped; those that join cards stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.model.pci import PciAddress
from driver.model.pci_tree import meaningful_switches, on_same_card


def chains(**switches_by_device: str) -> dict[PciAddress, tuple[PciAddress, ...]]:
    """Chains from ``d3b_00_0="10 11"``: the device 0000:3b:00.0 below the switches 0000:10:00.0 and 0000:11:00.0."""
    return {_address(device): _switches(switches) for device, switches in switches_by_device.items()}


def _address(name: str) -> PciAddress:
    bus, device, function = name.removeprefix("d").split("_")
    return PciAddress(f"0000:{bus}:{device}.{function}")


def _switches(names: str) -> tuple[PciAddress, ...]:
    return tuple(PciAddress(f"0000:{bus}:00.0") for bus in names.split())


@pytest.mark.parametrize(
    ("given_chains", "expected"),
    [
        pytest.param(
            chains(d4a_00_0="43 46 48", d45_00_0="43"),
            chains(d4a_00_0="43", d45_00_0="43"),
            id="bridges-on-a-gpu-card-are-dropped-and-the-shared-switch-stays",
        ),
        pytest.param(chains(d4a_00_0="41"), chains(d4a_00_0=""), id="a-switch-above-one-device-alone-is-dropped"),
        pytest.param(
            chains(d4a_00_0="41", d4a_00_1="41"),
            chains(d4a_00_0="", d4a_00_1=""),
            id="two-functions-of-one-card-are-one-card",
        ),
        pytest.param(
            chains(d10_1c_0="41", d10_1d_0="41"),
            chains(d10_1c_0="41", d10_1d_0="41"),
            id="two-devices-of-one-bus-are-two-cards",
        ),
        pytest.param(
            chains(d07_00_0="01 02 03", d08_00_0="01 02 03"),
            chains(d07_00_0="01 02 03", d08_00_0="01 02 03"),
            id="a-shared-stack-of-switches-stays-whole",
        ),
        pytest.param(
            chains(d4a_00_0="43 46", d50_00_0="43 4c", d45_00_0="43", d61_00_0=""),
            chains(d4a_00_0="43", d50_00_0="43", d45_00_0="43", d61_00_0=""),
            id="each-card-loses-its-own",
        ),
        pytest.param({}, {}, id="nothing"),
    ],
)
def test_switches_of_a_single_card_are_dropped(
    given_chains: dict[PciAddress, tuple[PciAddress, ...]], expected: dict[PciAddress, tuple[PciAddress, ...]]
) -> None:
    assert meaningful_switches(given_chains) == expected


def test_functions_of_one_device_are_on_the_same_card() -> None:
    assert on_same_card(PciAddress("0000:3b:00.0"), PciAddress("0000:3b:00.1"))
    assert not on_same_card(PciAddress("0000:3b:00.0"), PciAddress("0000:3b:01.0"))
    assert not on_same_card(PciAddress("0001:3b:00.0"), PciAddress("0000:3b:00.0"))


_DEVICES = st.builds(
    lambda bus, device, function: PciAddress(f"0000:{bus:02x}:{device:02x}.{function}"),
    st.integers(0x80, 0x8F),
    st.integers(0, 1),
    st.integers(0, 1),
)
_CHAINS = st.dictionaries(
    _DEVICES,
    st.lists(st.sampled_from(_switches("01 02 03 04 05")), unique=True, max_size=4).map(tuple),
    max_size=8,
)


@given(_CHAINS)
def test_what_stays_is_exactly_what_joins_two_cards(chains_: dict[PciAddress, tuple[PciAddress, ...]]) -> None:
    left = meaningful_switches(chains_)
    assert list(left) == list(chains_)
    for address, chain in chains_.items():
        joining = [
            switch
            for switch in chain
            if any(switch in other and not on_same_card(address, peer) for peer, other in chains_.items())
        ]
        assert list(left[address]) == joining
    assert meaningful_switches(left) == left
