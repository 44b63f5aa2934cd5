"""Drawn claims that were given devices of drawn nodes."""

from __future__ import annotations

from hypothesis import strategies as st

from driver.api.resource_v1 import ResourceClaim
from driver.model.inventory import Inventory
from tests.support.plan.builders import claim, config, fpga, gpu, nic, node, parameters, vf
from tests.support.plan.builders import given as result

gpus = st.builds(
    lambda index, vendor, minor, uuid: gpu(index, vendor=vendor, minor=minor, uuid=uuid),
    st.integers(0, 7),
    st.sampled_from(["nvidia", "amd"]),
    st.integers(0, 255) | st.none(),
    st.none() | st.uuids().map(lambda value: f"GPU-{value}"),
)
vfs = st.lists(st.integers(0, 6), unique=True, max_size=3)
nics = st.builds(
    lambda index, functions, **fields: nic(index, vfs=tuple(vf(index, function) for function in functions), **fields),
    st.integers(0, 7),
    vfs,
    vendor=st.sampled_from(["nvidia", "amazon", "broadcom", None]),
    verbs_minor=st.integers(0, 255) | st.none(),
    umad_minors=st.lists(st.integers(0, 255), max_size=2).map(tuple),
    rdma_device=st.none() | st.from_regex(r"mlx5_[0-9]{1,2}", fullmatch=True),
)
fpgas = st.builds(fpga, st.integers(0, 3))
inventories = st.lists(gpus | nics | fpgas, min_size=1, max_size=10, unique_by=lambda device: device.name).map(
    lambda devices: node(*devices)
)
request_names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?(/[a-z]{1,4})?", fullmatch=True)
configs = st.lists(
    st.builds(
        lambda fields, source: config(fields, source=source),
        st.sampled_from([parameters("GpuConfig"), parameters("FpgaConfig")])
        | st.booleans().map(lambda on: parameters("RdmaConfig", rdmaCM=on)),
        st.sampled_from(["FromClass", "FromClaim"]),
    ),
    max_size=4,
).map(tuple)


@st.composite
def allocated(draw: st.DrawFn) -> tuple[Inventory, ResourceClaim]:
    """A node, and a claim that was given some of its devices, a few of them by admin access as well."""
    inventory = draw(inventories)
    devices = draw(st.permutations([device.name for device in inventory.devices()]))
    names = draw(st.lists(request_names, min_size=1, max_size=3, unique_by=lambda name: name.partition("/")[0]))
    taken = devices[: draw(st.integers(0, len(devices)))]
    results = [result(draw(st.sampled_from(names)), device) for device in taken]
    if draw(st.booleans()):
        watcher = draw(
            request_names.filter(lambda name: all(name.partition("/")[0] != n.partition("/")[0] for n in names))
        )
        results += [result(watcher, device, adminAccess=True) for device in devices]
    uid = str(draw(st.uuids()))
    return inventory, claim(*results, configs=draw(configs), uid=uid)
