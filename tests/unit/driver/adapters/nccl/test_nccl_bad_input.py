"""Whatever a topology file holds: one InputError that names the file and the line, or an inventory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from driver.adapters.machines.topology import read_topology
from driver.adapters.nccl.xml import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS
from driver.errors import InputError

GPU = '<pci busid="0000:03:00.0" class="0x030200"/>'


def gpu(inside: str) -> str:
    return f"<system>{GPU[:-2]}>{inside}</pci></system>"


def net(name: str) -> str:
    return f'<system><pci busid="0000:04:00.0" class="0x020700">\n<nic><net name="{name}"/></nic></pci></system>'


BOMB = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", r"t\.xml:1: not a topology file: no element found", id="empty"),
        pytest.param("not xml", r"t\.xml:1: not a topology file: syntax error", id="no-xml"),
        pytest.param("\x00\x01\x02", r"t\.xml:1: not a topology file: ", id="binary"),
        pytest.param(
            "<system>\n<cpu>\n",
            r"t\.xml:3: .*no element found inside <cpu>: the file is damaged, or ends",
            id="truncated",
        ),
        pytest.param("<system></cpu>", r"t\.xml:1: .*mismatched tag inside <system>", id="mismatched"),
        pytest.param("<html/>", r"t\.xml:1: <html>: .*outermost element must be <system>", id="another-root"),
        pytest.param("<system>\n</system>", r"t\.xml:1: <system>: .*no GPU, RDMA NIC or FPGA", id="no-devices"),
        pytest.param(
            f'<!DOCTYPE system [<!ENTITY a0 "x">{BOMB}]>\n<system>&a9;</system>',
            r"t\.xml:1: a document type or entities are not allowed",
            id="entity-bomb",
        ),
        pytest.param(
            '<!DOCTYPE s [<!ENTITY e SYSTEM "file:///etc/passwd">]><system>&e;</system>',
            r"t\.xml:1: a document type or entities are not allowed",
            id="external-entity",
        ),
        pytest.param(
            '\n<!DOCTYPE s SYSTEM "http://localhost/x.dtd"><system/>', r"t\.xml:2: a document type", id="external-dtd"
        ),
        pytest.param("<system>&undefined;</system>", r"t\.xml:1: .*undefined entity", id="undefined-entity"),
        pytest.param(
            '<?xml version="1.0" encoding="no-such"?><system/>', r"t\.xml:1: .*unknown encoding", id="unknown-encoding"
        ),
        pytest.param(
            '<?xml version="1.0" encoding="euc-jp"?><system/>', r"t\.xml:1: .*encoding", id="multi-byte-encoding"
        ),
        pytest.param(
            "<system>" + "\n<pci>" * 10_000,
            rf"t\.xml:{MAX_DEPTH + 1}: .*nested deeper than {MAX_DEPTH}",
            id="deep-nesting",
        ),
        pytest.param(
            "<system>" + "\n<x/>" * (MAX_ELEMENTS + 1), rf"more than {MAX_ELEMENTS} elements", id="many-elements"
        ),
        pytest.param("<system>\n<pci/></system>", r"t\.xml:2: <pci>: busid is missing", id="no-bus-id"),
        pytest.param('<system>\n<pci busid="x"/></system>', r"t\.xml:2: <pci>: busid: 'x' is not a PCI", id="bus-id"),
        pytest.param(
            '<system><cpu\n numaid="x"/></system>', r"t\.xml:1: <cpu>: numaid='x' is not a number from -1", id="numaid"
        ),
        pytest.param(
            '<system><cpu numaid="99999999999999"/></system>',
            r"numaid='9+' is not a number from -1 to 1023",
            id="numaid-big",
        ),
        pytest.param(
            '<system><pci busid="0000:03:00.0" class="GPU"/></system>', "class='GPU' is not a number", id="class"
        ),
        pytest.param(
            f"<system>{GPU}\n{GPU}</system>",
            r"t\.xml:2: <pci>: bus id 0000:03:00.0 stands a second time; it is in line 1 already",
            id="duplicate-device",
        ),
        pytest.param(
            '<system><pci busid="0:03:00.0" class="0x060400"/>\n' + GPU + "</system>",
            r"t\.xml:2: .*stands a second time",
            id="a-bus-id-of-a-switch-and-a-device",
        ),
        pytest.param(
            '<system><pci busid="0:01:00.0" class="0x060400"><pci busid="0:01:00.0" class="0x060400"/></pci></system>',
            r"t\.xml:1: .*0000:01:00.0 stands a second time",
            id="a-switch-below-itself",
        ),
        pytest.param(
            f'<system><cpu numaid="0" host_hash="0x1"/>\n<cpu numaid="0" host_hash="0x2"/>{GPU}</system>',
            r"t\.xml:2: .*more than one host.*NCCL_MNNVL_ENABLE=0",
            id="several-hosts",
        ),
        pytest.param(gpu("<gpu dev='-1'/>"), "dev='-1' is not", id="gpu-dev"),
        pytest.param(gpu("<gpu sm='9.0'/>"), "sm='9.0' is not", id="gpu-sm"),
        pytest.param(
            gpu("<gpu><nvlink count='1' target='?' tclass='0x03'/></gpu>"),
            "target: .* is not a PCI address",
            id="link-target",
        ),
        pytest.param(
            gpu("<gpu><nvlink count='x' target='?' tclass='0x068000'/></gpu>"),
            "count='x' is not a number",
            id="link-count",
        ),
        pytest.param(
            net("mlx&#10;5_0"), r"t\.xml:2: <net>: name='mlx\\n5_0' is not the name", id="line-break-in-a-name"
        ),
        pytest.param(net("mlx5_0+&#x202e;"), r"name='\\u202e' is not the name", id="unprintable-merged-name"),
        pytest.param(net("../mlx5_0"), r"name='\.\./mlx5_0' is not the name", id="slash-in-a-name"),
        pytest.param(net("m" * 65), r"name='m+\.\.\.' is not the name", id="long-name"),
        pytest.param(
            '<system>\n<cpu numaid="0"><nic><net name="a&#10;b"/></nic></cpu></system>',
            r"t\.xml:2: <net>: name=",
            id="name-without-a-pci-device",
        ),
        pytest.param(
            '<system><pci busid="0:4:0.0" class="0x02"/></system>', "busid: '0:4:0.0' is not a PCI", id="short-bus-id"
        ),
        pytest.param(
            f'<system><pci busid="{"9" * 5000}" class="0x02"/></system>', r"busid: '9+\.\.\.' is not", id="long-bus-id"
        ),
    ],
)
def test_bad_content_is_one_error_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.xml"
    path.write_bytes(text.encode())
    with pytest.raises(InputError, match=message) as caught:
        read_topology(path)
    assert str(caught.value).startswith(str(path))
    assert len(caught.value.message) < len(str(path)) + 300


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.xml: cannot be read: No such file"):
        read_topology(tmp_path / "nothing.xml")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a regular file"):
        read_topology(tmp_path)


def test_a_device_file_is_refused() -> None:
    with pytest.raises(InputError, match="not a regular file"):
        read_topology(Path("/dev/zero"))


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_topology(Path("a\x00b"))


@pytest.mark.parametrize("start", ["<system>", "<system a='"], ids=["text", "one-attribute"])
def test_a_huge_file_is_refused_without_reading_it_all(tmp_path: Path, start: str) -> None:
    path = tmp_path / "huge.xml"
    with path.open("wb") as stream:
        stream.write(start.encode())
        stream.truncate(100 * 1024**2)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"huge\.xml: larger than 4 MiB"):
            read_topology(path)
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_BYTES
    finally:
        tracemalloc.stop()


def test_utf_16_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.xml"
    for encoding in ("utf-8-sig", "utf-16"):
        path.write_bytes(f"<system>{GPU}</system>".encode(encoding))
        assert len(read_topology(path).gpus) == 1
