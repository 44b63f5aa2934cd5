"""Machine descriptions: what each field says, and how a mistake is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from driver.adapters.machines.topology import node_name, read_topology
from driver.errors import InputError
from driver.model.devices import GpuLink, LinkKind, LinkLayer
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress
from tests.support.paths import REPO

GUIDE = REPO / "examples" / "machines" / "README.md"
KINDS = """\
  switch: {class: bridge}
  gpu: {class: 3d, id: "10de:2330", pcieLink: 32 GT/s x16, computeCapability: "9.0"}
  amd: {class: display, architecture: gfx90a, computeUnits: 104}
  nic: {class: infiniband, id: "15b3:1021", linkSpeedGbps: 400}
  plain: {class: infiniband}
  roce: {class: ethernet, linkSpeedGbps: 100, ports: 2}
  eth: {class: ethernet, rdma: false}
  mi300x: {class: accelerator, id: "1002:74a1"}
  u50: {class: accelerator, id: "10ee:5021"}
  f2: {class: memory, id: "1d0f:f010"}
"""


def text(devices: str, more: str = "", kinds: str = KINDS) -> str:
    return (
        f"apiVersion: rootport.dev/v1alpha1\nkind: Machine\nkinds:\n{kinds}"
        f"numaNodes:\n- id: 1\n  devices: {devices}\n{more}"
    )


def read(tmp_path: Path, description: str, name: str = "node-7.yaml") -> Inventory:
    path = tmp_path / name
    path.write_text(description, encoding="utf-8")
    return read_topology(path)


def test_the_description_in_the_guide_is_read(tmp_path: Path) -> None:
    [description] = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    inventory = read(tmp_path, description)
    assert [(gpu.index, gpu.address, gpu.model) for gpu in inventory.gpus] == [
        (0, "0000:1a:00.0", "NVIDIA H100 80GB HBM3"),
        (1, "0000:1b:00.0", "NVIDIA H100 80GB HBM3"),
        (2, "0000:9a:00.0", "NVIDIA H100 80GB HBM3"),
    ]
    assert [gpu.pcie.numa_node for gpu in inventory.gpus] == [0, 0, 1]
    (nic,) = inventory.nics
    assert (nic.rdma_device, nic.pcie.switch, nic.ports[0].speed_gbps) == ("mlx5_0", "0000:17:00.0", 400)
    assert inventory.gpus[0].links == (GpuLink(kind=LinkKind.NVLINK, peer=PciAddress("0000:1b:00.0"), count=4),)


@pytest.mark.parametrize("name", ["node-7.yaml", "node-7.yml", "Node_7.YAML"])
def test_the_files_name_tells_that_it_is_a_description_and_names_the_node(tmp_path: Path, name: str) -> None:
    inventory = read(tmp_path, text("[gpu 1a:00.0]"), name)
    assert inventory.node == node_name(tmp_path / name) == "node-7"


def test_what_no_nccl_file_tells_is_not_told_here_either(tmp_path: Path) -> None:
    inventory = read(tmp_path, text("[plain 1a:00.0]"))
    (nic,) = inventory.nics
    assert (nic.rdma_device, nic.model, nic.vfs, nic.verbs_minor) == (None, None, (), None)
    assert [(port.link_layer, port.speed_gbps) for port in nic.ports] == [(LinkLayer.INFINIBAND, None)]


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ("gpu 1a:00.0", "gpu"),
        ("amd 1a:00.0", "gpu"),
        ("mi300x 1a:00.0", "gpu"),
        ("u50 1a:00.0", "fpga"),
        ("f2 1a:00.0", "fpga"),
        ("nic 1a:00.0", "rdma"),
        ("roce 1a:00.0 mlx5_0", "rdma"),
    ],
)
def test_class_and_id_tell_what_a_device_is(tmp_path: Path, device: str, kind: str) -> None:
    (found,) = read(tmp_path, text(f"[{device}]")).devices()
    assert found.type == kind


def test_ports_and_further_rdma_devices_of_a_card(tmp_path: Path) -> None:
    nics = read(tmp_path, text("[roce 1a:00.0 mlx5_0 mlx5_1]")).nics
    assert [(nic.address, nic.rdma_device, [port.number for port in nic.ports]) for nic in nics] == [
        ("0000:1a:00.0", "mlx5_0", [1, 2]),
        ("0000:1a:00.1", "mlx5_1", [1, 2]),
    ]


def test_nics_are_numbered_by_the_names_of_their_rdma_devices(tmp_path: Path) -> None:
    nics = read(tmp_path, text("[nic 1a:00.0 mlx5_10, nic 2a:00.0 mlx5_9]")).nics
    assert [nic.rdma_device for nic in nics] == ["mlx5_9", "mlx5_10"]


def test_gpus_are_numbered_as_they_are_written(tmp_path: Path) -> None:
    gpus = read(tmp_path, text("[gpu 2a:00.0, gpu 1a:00.0]")).gpus
    assert [gpu.address for gpu in gpus] == ["0000:2a:00.0", "0000:1a:00.0"]


def test_a_nic_that_is_used_through_sockets_is_left_out(tmp_path: Path) -> None:
    inventory = read(tmp_path, text("[gpu 1a:00.0, eth 2a:00.0 eth0]"))
    assert inventory.nics == ()
    assert any("eth0" in note for note in inventory.notes)


def test_links_to_nvswitches_and_an_unknown_numa_node(tmp_path: Path) -> None:
    description = text("[gpu 1a:00.0, gpu 1b:00.0]", "links: [{kind: nvlink, count: 18, nvswitch: true}]")
    gpus = read(tmp_path, description.replace("- id: 1\n  devices", "- devices")).gpus
    assert {gpu.links for gpu in gpus} == {(GpuLink(kind=LinkKind.NVLINK, peer=None, count=18),)}
    assert {gpu.pcie.numa_node for gpu in gpus} == {None}


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ("", "expected one object of kind Machine, not 0"),
        ("a: 1\n---\nb: 1\n", "expected one object of kind Machine, not 2"),
        ("kind: [", "node-7.yaml:2: not valid YAML"),
        ("apiVersion: v1\nkind: Pod\n", "node-7.yaml: describes no machine: it holds 'Pod' (claims and pods go behind"),
        ("kind: Machine\n---\nkind: ResourceClaim\n", "--claims a.yaml --claims b.yaml"),
        (text("[gpu 1a:00.0]", "colour: red"), "node-7.yaml:17: Machine: colour: unknown field"),
        (text("[gpu 1a:00.0]").replace("- id: 1\n ", "- id: 1024\n "), "node-7.yaml:15: Machine: numaNodes[0].id: "),
        (text("[gpu 1a:00.0]", kinds="  gpu: {class: 3D}\n"), "node-7.yaml:4: Machine: kinds.gpu.class: "),
        (text("[gpu 1a:00.0]", kinds="  gpu: {class: 3d, ports: 2}\n"), "kinds.gpu: ports is for a NIC"),
        (text("[x 1a:00.0]", kinds="  x: {class: accelerator}\n"), "kinds.x: an accelerator needs an id"),
        (text("[]"), "node-7.yaml:16: Machine: numaNodes[0].devices: must not be empty"),
        (text("[tpu 1a:00.0]"), "node-7.yaml:16: Machine: numaNodes[0].devices[0]: no kind is named 'tpu'; there are"),
        (text("[gpu 1a:0]"), "devices[0]: '1a:0' is not a PCI address"),
        (text("[gpu]"), "devices[0]: '' is not a PCI address"),
        (text("\n  - gpu 1a:00.0\n  - gpu 0000:1A:00.0"), "yaml:18: Machine: numaNodes[0].devices[1]: 0000:1a"),
        (text("[gpu 1a:00.0, gpu 0000:1A:00.0]"), "is there a second time; it is in line 16 already"),
        (text("\n  - switch 17:00.0:\n    - nic 1:2"), "yaml:18: Machine: numaNodes[0].devices[0][switch 17:00.0][0]:"),
        (text("[switch 17:00.0: gpu 1a:00.0]"), "devices[0][switch 17:00.0]: expected a list of devices"),
        (text("[gpu 1a:00.0: [nic 1b:00.0]]"), "only a kind of class bridge can have devices below it"),
        (text("[7]"), "devices[0]: expected a device, such as gpu 3b:00.0, or a bridge with a list"),
        (text("[{}]"), "devices[0]: expected a device, such as gpu 3b:00.0, or a bridge with a list"),
        (text("[gpu 1a:00.0 mlx5_0]"), "only NICs have RDMA devices"),
        (text("[nic 1a:00.0 a/b]"), "'a/b' is not the name of a network device"),
        (text("[nic 1a:00.0 a a]"), "at most 8 RDMA devices, each with a name of its own"),
        (text("[gpu 1a:00.0]", "links: [{kind: nvlink, groups: [[0, 1]]}]"), "groups[0]: there is no GPU 1: the"),
        (text("[gpu 1a:00.0]", "links: [{kind: nvlink, groups: [[0, 0]]}]"), "a GPU is named twice"),
        (text("[gpu 1a:00.0]", "links: [{kind: nvlink}]"), "give either groups of GPUs or nvswitch: true"),
        (text("[gpu 1a:00.0]", "links: [{kind: c2c, nvswitch: true}]"), "node-7.yaml:17: Machine: links[0].kind: "),
        (text("[switch 17:00.0]"), "Machine: the file describes no GPU, RDMA NIC or FPGA"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_line_and_field(tmp_path: Path, description: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        read(tmp_path, description)


def test_all_mistakes_are_told_in_the_order_of_their_lines(tmp_path: Path) -> None:
    links = "links: [{kind: nvlink, groups: [[0, 1]]}]"
    description = text("\n  - switch 17:00.0:\n    - tpu 1a:00.0\n  - gpu 1:2\n  - gpu 1b:00.0", links)
    with pytest.raises(InputError) as refused:
        read(tmp_path, description)
    assert re.findall(r"yaml:([0-9]+): ", str(refused.value)) == ["18", "19"]  # what follows from them is not told


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node-7.yaml").write_bytes(b"\xff\xfe\0")
    with pytest.raises(InputError, match=r"node-7\.yaml: not UTF-8 text"):
        read_topology(tmp_path / "node-7.yaml")


OF_EACH_TO_EACH = f"[{{kind: xgmi, groups: [{list(range(500))}]}}]"
TO_NVSWITCHES = "{kind: nvlink, nvswitch: true}, "


def many_gpus(count: int) -> str:
    return "\n" + "".join(f"  - gpu {number:04x}:00:00.0\n" for number in range(count))


@pytest.mark.parametrize(
    ("description", "says"),
    [
        pytest.param(text(many_gpus(513)), "513 GPUs, 0 NICs and 0 FPGAs", id="devices"),
        pytest.param(text(many_gpus(20_001)), "more than 20000 devices, ports and links", id="elements"),
        pytest.param(text(many_gpus(500), f"links: {OF_EACH_TO_EACH}"), "more than 20000 devices", id="links"),
        pytest.param(text(many_gpus(500), f"links: [{TO_NVSWITCHES * 41}]"), "more than 20000 devices", id="nvlinks"),
        pytest.param(text("[]", kinds="".join(f"  k{n}: {{}}\n" for n in range(101))), "at most 100 items", id="kinds"),
        pytest.param(text("\n" + "  - k1\n" * 20_000), "and 199[0-9]{2} more errors", id="mistakes"),
        pytest.param("#" * 2**20 + text("[gpu 1a:00.0]"), "larger than 1 MiB", id="bytes"),
    ],
)
def test_a_description_of_more_than_any_machine_has_is_refused(tmp_path: Path, description: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(tmp_path, description)
