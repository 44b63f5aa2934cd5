"""Selectors for other drivers' devices are rewritten path by path, or refused with what they read."""

from __future__ import annotations

from functools import partial

import pytest

from driver.cel import compile_selector
from driver.convert.other_drivers.expressions import NeverError, Rewritten, UntranslatableError, rewrite
from driver.convert.other_drivers.names import equal_of
from driver.model.devices import DeviceType

GPU = DeviceType.GPU
MIG = DeviceType.MIG
NIC = DeviceType.RDMA
VF = DeviceType.RDMA_VF
OTHER = 'device.attributes["gpu.nvidia.com"]'
GUARD = '"ifName" in device.attributes["rootport.dev"]'
MODEL = '"model" in device.attributes["rootport.dev"]'
OWN = 'device.attributes["rootport.dev"]'
NET = 'device.attributes["dra.net"]'


def rewritten(expression: str, kind: DeviceType) -> Rewritten:
    return rewrite(expression, partial(equal_of, kind=kind))


@pytest.mark.parametrize(
    ("kind", "expression", "wanted"),
    [
        pytest.param(GPU, f'{OTHER}.productName == "NVIDIA L4"', f'{MODEL} && {OWN}.model == "NVIDIA L4"', id="a name"),
        pytest.param(
            GPU,
            f'{OTHER}["uuid"] in ["GPU-1", "GPU-2"]',
            f'"uuid" in {OWN} && {OWN}.uuid in ["GPU-1", "GPU-2"]',
            id="an index",
        ),
        pytest.param(
            GPU,
            "device.attributes['gpu.nvidia.com'].architecture == 'Ampere'",
            f"\"architecture\" in {OWN} && {OWN}.architecture == 'Ampere'",
            id="single quotes",
        ),
        pytest.param(
            GPU,
            f'{OTHER}.productName.lowerAscii().matches("^.*a100.*$")',
            f'{MODEL} && {OWN}.model.lowerAscii().matches("^.*a100.*$")',
            id="methods of the value",
        ),
        pytest.param(
            GPU,
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0',
            '"memory" in device.capacity["rootport.dev"]'
            ' && device.capacity["rootport.dev"].memory.compareTo(quantity("40Gi")) >= 0',
            id="a capacity",
        ),
        pytest.param(
            GPU,
            f'{OTHER}.cudaComputeCapability.isGreaterThan(semver("8.0.0"))',
            f'"cudaComputeCapability" in {OWN} && {OWN}.cudaComputeCapability.isGreaterThan(semver("8.0.0"))',
            id="a version",
        ),
        pytest.param(
            GPU,
            f'{OTHER}.pciBusID == "0000:01:00.0"',
            'device.attributes["resource.kubernetes.io"].pciBusID == "0000:01:00.0"',
            id="into another domain",
        ),
        pytest.param(
            GPU,
            'device.driver == "gpu.nvidia.com" && "uuid" in device.attributes["gpu.nvidia.com"]',
            f'device.driver == "rootport.dev" && "uuid" in {OWN}',
            id="the driver, and whether an attribute is there",
        ),
        pytest.param(
            GPU, '"gpu.nvidia.com" == device.driver', '"rootport.dev" == device.driver', id="the driver on the right"
        ),
        pytest.param(
            GPU, f"has({OTHER}.productName) || {OTHER}.index == 0", f"has({OWN}.model) || {OWN}.index == 0", id="has"
        ),
        pytest.param(
            GPU,
            'device.attributes[?"gpu.nvidia.com"].?productName.orValue("") == "x"',
            'device.attributes[?"rootport.dev"].?model.orValue("") == "x"',
            id="optional values",
        ),
        pytest.param(
            GPU,
            f'{OTHER}.productName == "{OTHER[:6]}.attributes"',
            f'{MODEL} && {OWN}.model == "device.attributes"',
            id="a text that looks like a path",
        ),
        pytest.param(
            GPU,
            f'// of {NET} nothing\n{OTHER}.productName == "a" // but\n&& true',
            f'{MODEL} && {OWN}.model == "a"',
            id="comments",
        ),
        pytest.param(MIG, f'{OTHER}.profile == "1g.10gb"', f'{OWN}.profile == "1g.10gb"', id="a profile"),
        pytest.param(NIC, f"{NET}.rdma == true", "", id="what the class says"),
        pytest.param(
            NIC, f"({NET}.rdma) && {NET}.ifName == 'ib0'", f"{GUARD} && {OWN}.ifName == 'ib0'", id="and something else"
        ),
        pytest.param(
            NIC, f"{NET}.rdma == true || {NET}.ifName == 'a'", f"true == true || {OWN}.ifName == 'a'", id="or"
        ),
        pytest.param(
            NIC, f'has({NET}.rdma) && "ifName" in {NET}', f'"ifName" in {OWN}', id="a constant is always there"
        ),
        pytest.param(NIC, f'"rdma" in {NET}', "", id="in a domain of constants"),
        pytest.param(
            NIC,
            f'"ifName" in {NET} && {NET}.ifName == "a"',
            f'"ifName" in {OWN} && {OWN}.ifName == "a"',
            id="what is asked for already",
        ),
        pytest.param(
            NIC, f'{NET}.?ifName.orValue("") != "a"', f'{OWN}.?ifName.orValue("") != "a"', id="what may be absent"
        ),
        pytest.param(NIC, f"{NET}.?rdma.orValue(false)", "optional.of(true).orValue(false)", id="an optional constant"),
        pytest.param(NIC, f"!{NET}.isSriovVf", "", id="no VF"),
        pytest.param(VF, f"{NET}.isSriovVf == true", "", id="a VF"),
        pytest.param(
            NIC,
            f'{NET}.encapsulation == "ether"',
            f'({OWN}.linkType == "ethernet" ? "ether" : "infiniband") == "ether"',
            id="other values",
        ),
        pytest.param(NIC, 'device.attributes["rootport.dev"].rail == 1', f"{OWN}.rail == 1", id="its own already"),
        pytest.param(NIC, "device.allowMultipleAllocations", "device.allowMultipleAllocations", id="not of a driver"),
    ],
)
def test_a_selector_reads_what_rootport_publishes(kind: DeviceType, expression: str, wanted: str) -> None:
    result = rewritten(expression, kind)
    assert result.expression == wanted
    if wanted:
        compile_selector(wanted)


@pytest.mark.parametrize(
    ("kind", "expression", "text"),
    [
        pytest.param(GPU, f'{OTHER}.brand == "Tesla"', "gpu.nvidia.com/brand", id="an attribute without an equal"),
        pytest.param(GPU, f"{OTHER}.unheardOf == 1", "gpu.nvidia.com/unheardOf", id="an unknown attribute"),
        pytest.param(GPU, f'{OTHER}.profile == "1g.10gb"', "gpu.nvidia.com/profile", id="of another kind of device"),
        pytest.param(MIG, f'{OTHER}.productName == "x"', "extraAttributes", id="what a policy may publish"),
        pytest.param(MIG, 'device.capacity["gpu.nvidia.com"].encoders > quantity("1")', "encoders", id="a capacity"),
        pytest.param(NIC, f'{NET}.mac == "00"', "dra.net/mac", id="dranet's"),
        pytest.param(GPU, 'device.attributes["gce.dra.net"].block == "b"', "gce.dra.net/block", id="a third domain"),
        pytest.param(
            MIG, 'device.attributes["resource.kubernetes.io"].pciBusID == "x"', "pciBusID", id="a standard name"
        ),
        pytest.param(GPU, f'{OTHER}.exists(name, name == "uuid")', "as a whole", id="a domain as a whole"),
        pytest.param(
            GPU, 'cel.bind(a, device.attributes["gpu.nvidia.com"], a.uuid == "x")', "as a whole", id="by another name"
        ),
        pytest.param(GPU, '"gpu.nvidia.com" in device.attributes', "as a whole", id="all domains"),
        pytest.param(GPU, 'device.attributes["gpu." + "nvidia.com"].uuid == "x"', "one name", id="a made-up domain"),
        pytest.param(GPU, f'("u" + "uid") in {OTHER}', "plain text", id="a made-up name"),
        pytest.param(GPU, 'device.driver.startsWith("gpu")', "device.driver", id="the driver's name in another way"),
        pytest.param(GPU, "device", "selector", id="the device itself"),
        pytest.param(GPU, f'{OTHER}.productName == "', "not a selector", id="no CEL"),
        pytest.param(GPU, f'{OTHER}.productName == "{"x" * 10300}"', "bytes", id="too long"),
        pytest.param(GPU, "(" * 200 + "true" + ")" * 200, "not a selector", id="too deep"),
        pytest.param(
            NIC, f'{NET}.?encapsulation.orValue("") == "ether"', "optional", id="an optional value that differs"
        ),
    ],
)
def test_what_cannot_be_translated_is_refused_by_its_name(kind: DeviceType, expression: str, text: str) -> None:
    with pytest.raises(UntranslatableError, match=text):
        rewritten(expression, kind)


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        pytest.param(NIC, f"{NET}.rdma == false", id="NICs without RDMA"),
        pytest.param(NIC, f"{NET}.isSriovVf", id="a VF among NICs"),
        pytest.param(VF, f"{NET}.isSriovVf != true", id="no VF among VFs"),
        pytest.param(NIC, f"{NET}.virtual && {NET}.ifName == 'a'", id="a virtual interface"),
    ],
)
def test_a_term_that_no_device_meets_is_told_from_one_that_cannot_be_translated(
    kind: DeviceType, expression: str
) -> None:
    with pytest.raises(NeverError, match="holds for no device"):
        rewritten(expression, kind)


def test_what_differs_in_meaning_is_noted_once() -> None:
    result = rewritten(f"{OTHER}.index == 0 || {OTHER}.index == 1", GPU)
    assert len(result.notes) == 1
    assert "gpu.nvidia.com/index" in result.notes[0]
