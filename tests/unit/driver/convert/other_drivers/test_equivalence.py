"""A rewritten selector answers for Rootport's device what the original answers for the other driver's."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from driver.api.resource_v1 import Device
from driver.cel import CelCompileError, CelEvaluationError, compile_selector
from driver.convert.other_drivers.expressions import NeverError, UntranslatableError, rewrite
from driver.convert.other_drivers.names import DRANET, NVIDIA, equal_of
from driver.model.devices import DeviceType

OTHER = 'device.attributes["gpu.nvidia.com"]'
NET = 'device.attributes["dra.net"]'
PCI = "resource.kubernetes.io/pciBusID"
NUMA = "resource.kubernetes.io/numaNode"


def device(attributes: dict[str, Any], memory: str | None = None) -> Device:
    kinds = {str: "string", int: "int", bool: "bool", tuple: "version"}
    written = {
        name: {kinds[type(value)]: value[0] if isinstance(value, tuple) else value}
        for name, value in attributes.items()
    }
    capacity = {} if memory is None else {"memory": {"value": memory}}
    return Device.model_validate({"name": "device", "attributes": written, "capacity": capacity})


GPUS = (
    device(
        {
            "type": "gpu", "uuid": "GPU-1", "productName": "NVIDIA L4", "architecture": "Ada Lovelace", "index": 0,
            "cudaComputeCapability": ("8.9.0",), "pciBusID": "0000:01:00.0", NUMA: 1,
        },
        "23034Mi",
    ),
    device(
        {
            "type": "gpu", "uuid": "GPU-1", "model": "NVIDIA L4", "architecture": "Ada Lovelace", "index": 0,
            "cudaComputeCapability": ("8.9.0",), PCI: "0000:01:00.0", NUMA: 1,
        },
        "23034Mi",
    ),
)  # fmt: skip
NICS = (
    device(
        {
            "dra.net/rdma": True, "dra.net/virtual": False, "dra.net/isSriovVf": False, "dra.net/ifName": "ib0",
            "dra.net/encapsulation": "infiniband", "dra.net/pciAddress": "0000:02:00.0", "dra.net/numaNode": 0,
        }
    ),
    device({"type": "rdma", "ifName": "ib0", "linkType": "infiniband", PCI: "0000:02:00.0", NUMA: 0}),
)  # fmt: skip
BARE_NICS = (
    device(
        {"dra.net/rdma": True, "dra.net/virtual": False, "dra.net/isSriovVf": False, "dra.net/rdmaDevice": "mlx5_0"}
    ),
    device({"type": "rdma", "rdmaDevice": "mlx5_0"}),
)

TERMS_OF_GPUS = (
    f'{OTHER}.productName == "NVIDIA L4"',
    f'{OTHER}.productName.lowerAscii().contains("a100")',
    f'{OTHER}["uuid"] in ["GPU-1", "GPU-2"]',
    f"{OTHER}.index > 0",
    f'{OTHER}.cudaComputeCapability.isGreaterThan(semver("8.0.0"))',
    f'has({OTHER}.pciBusID) ? {OTHER}.pciBusID == "x" : false',
    f'"profile" in {OTHER}',
    f'"architecture" in {OTHER}',
    'device.attributes[?"gpu.nvidia.com"].?type.orValue("") == "gpu"',
    'device.driver == "gpu.nvidia.com"',
    'device.driver != "gpu.nvidia.com"',
    'device.attributes["resource.kubernetes.io"].numaNode == 1',
    'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0',
    'has(device.capacity["gpu.nvidia.com"].memory)',
    "true",
)
TERMS_OF_NICS = (
    f"{NET}.rdma",
    f"{NET}.rdma == true",
    f"{NET}.rdma != true",
    f"has({NET}.rdma)",
    f'"virtual" in {NET}',
    f"{NET}.isSriovVf == false",
    f"{NET}.?rdma.orValue(false)",
    f'{NET}.ifName.startsWith("ib")',
    f'"ifName" in {NET}',
    f"has({NET}.rdmaDevice)",
    f'{NET}.rdmaDevice == "mlx5_0"',
    f'{NET}.encapsulation == "ether"',
    f'{NET}.encapsulation == "infiniband"',
    f"{NET}.numaNode == 0",
    'device.driver == "dra.net"',
)


def expressions(terms: tuple[str, ...]) -> st.SearchStrategy[str]:
    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("{} && {}".format, inner, inner),
            st.builds("({}) && {}".format, inner, inner),
            st.builds("({} || {})".format, inner, inner),
            st.builds("{} || {}".format, inner, inner),
            st.builds("!({})".format, inner),
            st.builds("({}) ? {} : {}".format, inner, inner, inner),
        )

    return st.recursive(st.sampled_from(terms), larger, max_leaves=5)


def answer(expression: str, driver: str, given: Device) -> bool | str:
    if not expression:
        return True
    try:
        return compile_selector(expression).matches(driver, given)
    except CelEvaluationError:
        return "error"


def check(expression: str, driver: str, kind: DeviceType, devices: tuple[Device, Device]) -> None:
    theirs, ours = devices
    with suppress(CelCompileError):
        before = answer(expression, driver, theirs)
        try:
            after = answer(rewrite(expression, partial(equal_of, kind=kind)).expression, "rootport.dev", ours)
        except NeverError:
            assert before in (False, "error")
            return
        except UntranslatableError:
            return
        # What is often absent is asked for first, and is then false instead of an error.
        assert after == before or (before == "error" and after is False)


@settings(max_examples=150, deadline=None)
@given(expressions(TERMS_OF_GPUS))
@example(f'{OTHER}.productName == "NVIDIA L4" && device.driver == "gpu.nvidia.com"')
def test_of_gpus(expression: str) -> None:
    check(expression, NVIDIA, DeviceType.GPU, GPUS)


@settings(max_examples=200, deadline=None)
@given(expressions(TERMS_OF_NICS), st.sampled_from((NICS, BARE_NICS)))
@example(f'{NET}.rdma == true && {NET}.ifName == "ib0"', BARE_NICS)
@example(f'{NET}.rdma || {NET}.ifName == "ib0"', BARE_NICS)
@example(f'!({NET}.ifName.startsWith("ib") && !({NET}.rdma))', BARE_NICS)
@example(f'!{NET}.rdma && {NET}.ifName == "a" || {NET}.ifName == "ib0"', NICS)
def test_of_nics(expression: str, devices: tuple[Device, Device]) -> None:
    check(expression, DRANET, DeviceType.RDMA, devices)


def test_every_term_is_rewritten() -> None:
    for terms, kind in ((TERMS_OF_GPUS, DeviceType.GPU), (TERMS_OF_NICS, DeviceType.RDMA)):
        for term in terms:
            if "profile" not in term:
                with suppress(NeverError):
                    rewrite(term, partial(equal_of, kind=kind))
