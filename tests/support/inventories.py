"""Inventories of real machines, and drawn ones in which every field may be set."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from hypothesis import strategies as st

from driver.adapters.host import HostRoot
from driver.adapters.machines.topology import read_topology
from driver.adapters.sysfs.discovery import discover
from driver.model.devices import (
    Fpga,
    Gpu,
    GpuLink,
    LinkKind,
    LinkLayer,
    MigInstance,
    MigPlacement,
    MigProfile,
    MigSupport,
    RdmaNetnsMode,
    RdmaNic,
    RdmaPort,
    RdmaVf,
)
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath
from tests.support.sysfs_machines import SYSFS_MACHINES
from tests.support.sysfs_tree import dgx
from tests.support.topologies import REAL_MACHINE_FILES


def _topology(path: Path) -> Callable[[Path], Inventory]:
    return lambda _: read_topology(path)


def _sysfs(name: str, write: Callable[[Path], None]) -> Callable[[Path], Inventory]:
    def read(folder: Path) -> Inventory:
        write(folder)
        return discover(HostRoot(folder), node=name.replace("+", "-"))

    return read


def _large(folder: Path) -> Inventory:
    """8 GPUs with more than NVML tells of an H100, and 8 NICs with 16 VFs each."""
    tree = discover(HostRoot(dgx(folder, switches=4, vfs=16).root), node="large")
    places = tuple(MigPlacement(start=start, size=1) for start in range(7))
    profiles = tuple(
        MigProfile(
            name=f"{number}g.{10 * number}gb+me",
            profile_id=number,
            compute_slices=number,
            memory_bytes=number * 10 << 30,
            max_instances=7,
            placements=places,
            multiprocessors=132,
            copy_engines=8,
            decoders=7,
            jpeg_engines=7,
            ofa_engines=1,
        )
        for number in range(1, 13)
    )
    peers = [None, *(gpu.address for gpu in tree.gpus)]
    links = tuple(GpuLink(kind=LinkKind.NVLINK, peer=peer, count=18) for peer in peers)
    mig = MigSupport(enabled=False, profiles=profiles)
    gpus = tuple(replace(gpu, ecc_enabled=True, cuda_driver_version="13.0", mig=mig, links=links) for gpu in tree.gpus)
    return replace(tree, gpus=gpus)


_READERS: Final[dict[str, Callable[[Path], Inventory]]] = {
    **{path.stem: _topology(path) for path in REAL_MACHINE_FILES},
    **{name: _sysfs(name, write) for name, write in SYSFS_MACHINES.items()},
    "large": _large,
    "nothing": lambda _: Inventory(node="nothing", source=InventorySource.LIVE),
}

MACHINES: Final = tuple(_READERS)
"""Every machine that the tests have, by a name for :func:`machine`."""


@cache
def machine(name: str) -> Inventory:
    """The inventory of a machine; each is read once."""
    with tempfile.TemporaryDirectory() as folder:
        return _READERS[name](Path(folder))


def _maybe(strategy: st.SearchStrategy[str] | st.SearchStrategy[int]) -> st.SearchStrategy[str | int | None]:
    return st.none() | strategy


def _tuples(strategy: st.SearchStrategy[object], size: int = 3) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=size).map(tuple)


_ADDRESSES: Final = st.builds(
    lambda domain, bus, device, function: PciAddress(f"{domain:04x}:{bus:02x}:{device:02x}.{function}"),
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
    st.integers(0, 31),
    st.integers(0, 7),
)
_TEXT: Final = st.text(st.characters(codec="utf-8").filter(str.isprintable), min_size=1, max_size=128)
_NAME: Final = st.from_regex(r"[a-z0-9_][a-z0-9_.-]{0,63}", fullmatch=True)
_LABEL: Final = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
_NUMBER: Final = st.integers(0, 2**32 - 1)
_BYTES: Final = st.integers(0, 2**63 - 1)
_PATHS: Final = st.builds(
    PciePath,
    root=_maybe(st.builds("pci{:04x}:{:02x}".format, st.integers(0, 2**32 - 1), st.integers(0, 255))),
    root_port=_maybe(_ADDRESSES),
    switches=_tuples(_ADDRESSES),
    numa_node=_maybe(st.integers(0, 1023)),
)
_PLACEMENTS: Final = st.builds(MigPlacement, start=_NUMBER, size=_NUMBER)
_PROFILES: Final = st.builds(
    MigProfile,
    name=_TEXT,
    profile_id=_NUMBER,
    compute_slices=_NUMBER,
    memory_bytes=_BYTES,
    max_instances=_NUMBER,
    placements=_tuples(_PLACEMENTS),
    multiprocessors=_NUMBER,
    copy_engines=_NUMBER,
    decoders=_NUMBER,
    encoders=_NUMBER,
    jpeg_engines=_NUMBER,
    ofa_engines=_NUMBER,
)
_INSTANCES: Final = st.builds(
    MigInstance,
    profile_id=_NUMBER,
    placement=_PLACEMENTS,
    gpu_instance=_NUMBER,
    compute_instance=_NUMBER,
    uuid=_TEXT,
    gpu_instance_minor=_NUMBER,
    compute_instance_minor=_NUMBER,
)
_MIG: Final = st.builds(MigSupport, enabled=st.booleans(), profiles=_tuples(_PROFILES), instances=_tuples(_INSTANCES))
_LINKS: Final = st.builds(
    GpuLink, kind=st.sampled_from(LinkKind), peer=_maybe(_ADDRESSES), count=st.integers(1, 2**16 - 1)
)
_PORTS: Final = st.builds(
    RdmaPort,
    number=st.integers(1, 2**16 - 1),
    link_layer=st.none() | st.sampled_from(LinkLayer),
    state=_maybe(st.from_regex(r"[a-z_]{1,64}", fullmatch=True)),
    speed_gbps=_maybe(_NUMBER),
    guid=_maybe(st.from_regex(r"([0-9a-f]{4}:){3}[0-9a-f]{4}", fullmatch=True)),
)


@st.composite
def drawn_inventories(draw: st.DrawFn) -> Inventory:
    """Any inventory that has no two devices with one address."""
    free = iter(draw(st.lists(_ADDRESSES, min_size=8, max_size=8, unique=True)))

    def rdma(index: int) -> dict[str, object]:
        return {
            "address": next(free),
            "index": index,
            "rdma_device": draw(_maybe(_NAME)),
            "if_names": draw(_tuples(_NAME)),
            "model": draw(_maybe(_TEXT)),
            "ports": draw(_tuples(_PORTS)),
            "verbs_minor": draw(_maybe(_NUMBER)),
            "umad_minors": draw(_tuples(_NUMBER)),
            "issm_minors": draw(_tuples(_NUMBER)),
            "rail": draw(_maybe(_NUMBER)),
            "default_route": draw(st.sampled_from((None, True))),
        }

    def vf(index: int, parent: PciAddress, path: PciePath) -> RdmaVf:
        return RdmaVf(**rdma(index), parent=parent, pcie=draw(st.just(path) | _PATHS))  # type: ignore[arg-type]

    def nic(index: int) -> RdmaNic:
        fields, path = rdma(index), draw(_PATHS)
        made = RdmaNic(
            **fields,  # type: ignore[arg-type]
            pcie=path,
            vendor=draw(_maybe(_TEXT)),
            sriov_total_vfs=draw(st.integers(0, 2**16 - 1)),
        )
        return replace(made, vfs=tuple(vf(number, made.address, path) for number in range(draw(st.integers(0, 2)))))

    def gpu(index: int) -> Gpu:
        return Gpu(
            address=next(free),
            pcie=draw(_PATHS),
            index=index,
            minor=draw(_maybe(_NUMBER)),
            vendor=draw(_TEXT),
            uuid=draw(_maybe(_TEXT)),
            model=draw(_maybe(_TEXT)),
            memory_bytes=draw(_maybe(_BYTES)),
            architecture=draw(_maybe(_TEXT)),
            cuda_compute_capability=draw(_maybe(_TEXT)),
            driver_version=draw(_maybe(_TEXT)),
            cuda_driver_version=draw(_maybe(_TEXT)),
            ecc_enabled=draw(st.none() | st.booleans()),
            mig=draw(st.none() | _MIG),
            links=draw(_tuples(_LINKS)),
        )

    def fpga(index: int) -> Fpga:
        paths = draw(_tuples(st.sampled_from(["/dev/dfl-port.0", "/dev/dri/renderD128", "/dev/a/b:c-d_e"])))
        return Fpga(
            address=next(free),
            pcie=draw(_PATHS),
            index=index,
            vendor=draw(_maybe(_TEXT)),
            model=draw(_maybe(_TEXT)),
            device_paths=paths,  # type: ignore[arg-type]
        )

    return Inventory(
        node=".".join(draw(st.lists(_LABEL, min_size=1, max_size=3))),
        source=draw(st.sampled_from(InventorySource)),
        gpus=tuple(gpu(index) for index in range(draw(st.integers(0, 2)))),
        nics=tuple(nic(index) for index in range(draw(st.integers(0, 2)))),
        fpgas=tuple(fpga(index) for index in range(draw(st.integers(0, 1)))),
        rdma_netns_mode=draw(st.none() | st.sampled_from(RdmaNetnsMode)),
        notes=draw(_tuples(_TEXT)),  # type: ignore[arg-type]
    )
