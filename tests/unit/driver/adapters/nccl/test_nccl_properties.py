"""Random trees come back as they were written, and a damaged real file gives an InputError or an inventory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.adapters.machines.topology import read_topology
from driver.errors import InputError
from driver.model.inventory import Inventory
from tests.support.topologies import REAL_MACHINE_FILES, nccl_file

FILES = [nccl_file(path.stem) for path in REAL_MACHINE_FILES]


@dataclass
class Node:
    """A device (``kind`` is gpu or nic) or a switch in a generated tree."""

    kind: str
    children: list[Node] = field(default_factory=list)
    address: str = ""

    def number(self, addresses: Iterator[str]) -> None:
        self.address = next(addresses)
        for child in self.children:
            child.number(addresses)

    def xml(self) -> str:
        class_ = {"gpu": "0x030200", "nic": "0x020700", "switch": "0x060400"}[self.kind]
        inside = "".join(child.xml() for child in self.children)
        return f"<pci busid={quoteattr(self.address)} class={quoteattr(class_)}>{inside}</pci>"

    def devices(self, above: tuple[str, ...] = ()) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Kind, address and all switches above, for each device."""
        if self.kind != "switch":
            yield self.kind, self.address, above
        for child in self.children:
            yield from child.devices((*above, self.address))

    def joins(self) -> set[str]:
        """The switches with two devices or more below them."""
        found = {self.address} if self.kind == "switch" and len(list(self.devices())) > 1 else set()
        return found.union(*(child.joins() for child in self.children))


DEVICES = st.sampled_from(["gpu", "nic"]).map(Node)
TREES = st.recursive(
    DEVICES, lambda below: st.lists(below, max_size=4).map(lambda nodes: Node("switch", nodes)), max_leaves=12
)
MACHINES = st.dictionaries(st.integers(-1, 7), st.lists(TREES, max_size=3), min_size=1, max_size=3)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nccl") / "machine.xml"


@given(machine=MACHINES)
def test_a_random_tree_comes_back_as_written(path: Path, machine: dict[int, list[Node]]) -> None:
    addresses = (f"{domain:04x}:{bus:02x}:00.0" for domain in range(2) for bus in range(256))
    trees = [(numa, tree) for numa, trees in machine.items() for tree in trees]
    for _, tree in trees:
        tree.number(addresses)
    path.write_text(
        "<system version='1'>"
        + "".join(f"<cpu numaid='{n}'>{''.join(tree.xml() for tree in trees)}</cpu>" for n, trees in machine.items())
        + "</system>",
        encoding="utf-8",
    )
    expected = {
        address: (kind, tuple(switch for switch in above if switch in tree.joins()), None if numa < 0 else numa)
        for numa, tree in trees
        for kind, address, above in tree.devices()
    }
    if not expected:
        with pytest.raises(InputError, match="no GPU, RDMA NIC or FPGA"):
            read_topology(path)
        return
    inventory = read_topology(path)
    assert {
        device.address: ("gpu" if device in inventory.gpus else "nic", device.pcie.switches, device.pcie.numa_node)
        for device in inventory.devices()
    } == expected


def _inventory_or_input_error(path: Path, data: bytes) -> Inventory | None:
    path.write_bytes(data)
    try:
        return read_topology(path)
    except InputError as caught:
        error = caught
    assert str(error).startswith(f"{path}:")
    return None


@given(file=st.sampled_from(FILES), data=st.data())
def test_a_truncated_file_is_an_input_error(path: Path, file: Path, data: st.DataObject) -> None:
    content = file.read_bytes().rstrip()
    length = data.draw(st.integers(0, len(content) - 1))
    assert _inventory_or_input_error(path, content[:length]) is None


@given(file=st.sampled_from(FILES), data=st.data())
def test_repeated_lines_do_no_harm(path: Path, file: Path, data: st.DataObject) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    at, to = data.draw(st.tuples(*[st.integers(0, len(lines) - 1)] * 2))
    _inventory_or_input_error(path, b"".join([*lines[:to], lines[at], *lines[to:]]))


@given(file=st.sampled_from(FILES), data=st.data())
def test_changed_bytes_do_no_harm(path: Path, file: Path, data: st.DataObject) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b'"', b"<", b"-1", b"0x", b"ffff:ff:01.0", b"9" * 40]))
        )
    _inventory_or_input_error(path, bytes(content))


@given(file=st.sampled_from(FILES), data=st.data())
def test_swapped_attribute_values_do_no_harm(path: Path, file: Path, data: st.DataObject) -> None:
    parts = file.read_bytes().split(b'"')
    values = st.integers(0, len(parts) // 2 - 1).map(lambda i: 2 * i + 1)
    for _ in range(data.draw(st.integers(1, 4))):
        a, b = data.draw(values), data.draw(values)
        parts[a], parts[b] = parts[b], parts[a]
    inventory = _inventory_or_input_error(path, b'"'.join(parts))
    if inventory is not None:
        addresses = [device.address for device in inventory.devices()]
        assert len(set(addresses)) == len(addresses)
        assert len({gpu.index for gpu in inventory.gpus}) == len(inventory.gpus)
