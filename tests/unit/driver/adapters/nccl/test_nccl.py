"""Discovery from NCCL topology files: the real ones of every kind, and what small ones show rule by rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.errors import InputError
from driver.model.devices import GpuLink, LinkKind, LinkLayer
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress
from tests.support.topologies import REAL_MACHINE_FILES, nccl_file

MIB = 1024**2


def real(name: str, hardware: HardwareFacts = HardwareFacts()) -> Inventory:  # noqa: B008 - frozen
    return read_topology(nccl_file(name), hardware=hardware)


def written(tmp_path: Path, body: str, **options: object) -> Inventory:
    path = tmp_path / "topo.xml"
    path.write_text(f'<system version="1">{body}</system>', encoding="utf-8")
    return read_topology(path, **options)  # type: ignore[arg-type]


def pci(bus_id: str, class_: str | None = None, inside: str = "", **attributes: str) -> str:
    given = {"busid": bus_id, **({"class": class_} if class_ else {}), **attributes}
    written_out = " ".join(f'{key}="{value}"' for key, value in given.items())
    return f"<pci {written_out}>{inside}</pci>"


def cpu(inside: str, numaid: str = "0") -> str:
    return f'<cpu numaid="{numaid}">{inside}</cpu>'


GPU = "0x030200"
IB = "0x020700"
ETHERNET = "0x020000"
BRIDGE = "0x060400"


@pytest.mark.parametrize(
    ("name", "gpus", "nics", "model", "memory_mib"),
    [
        ("aws-g5.48xlarge", 8, 1, "NVIDIA A10G", 23028),
        ("aws-p4d.24xlarge", 8, 4, "NVIDIA A100-SXM4-40GB", 40960),
        ("azure-nd-a100-v4", 8, 8, None, None),
        ("azure-nd-h100-v5", 8, 8, None, None),
        ("rccl-16p1h", 16, 8, "AMD Instinct MI250", 65520),
        ("rccl-4p4h", 16, 16, "AMD Instinct MI100", 32752),
        ("rccl-8p_90a", 8, 0, None, 65520),
        ("rccl-8p_pcie_2nic", 8, 2, "AMD Instinct MI60", 32768),
        ("rccl-8p_rome_4nics", 8, 4, "AMD Instinct MI100", 32752),
        ("rccl-8p_ts1_n4", 8, 2, "AMD Instinct MI60", 32768),
    ],
)
def test_a_real_file_gives_its_machine(
    name: str, gpus: int, nics: int, model: str | None, memory_mib: int | None
) -> None:
    inventory = real(name)
    assert (len(inventory.gpus), len(inventory.nics), len(inventory.fpgas)) == (gpus, nics, 0)
    assert inventory.source is InventorySource.NCCL_TOPOLOGY
    assert {gpu.model for gpu in inventory.gpus} == {model}
    assert {gpu.memory_bytes for gpu in inventory.gpus} == {memory_mib and memory_mib * MIB}
    assert [gpu.index for gpu in inventory.gpus] == list(range(gpus))
    assert [nic.index for nic in inventory.nics] == list(range(nics))
    assert all(nic.ports for nic in inventory.nics)
    names = [device.name for device in inventory.devices()]
    assert len(set(names)) == len(names)
    assert any("--gpu-model" in note for note in inventory.notes) == (model is None)


def test_every_file_of_the_repository_is_in_the_table_above() -> None:
    assert len(REAL_MACHINE_FILES) == 12


@pytest.mark.parametrize(
    ("name", "switches"),
    [
        # GPUs and NICs below each nearest switch, as the file draws them: verified by hand.
        ("aws-g5.48xlarge", {}),
        ("aws-p4d.24xlarge", {f"ffff:ff:0{i}.0": (2, 1) for i in (1, 2, 3, 4)}),
        ("azure-nd-a100-v4", {f"ffff:ff:0{i}.0": (2, 2) for i in (1, 2, 3, 4)}),
        ("azure-nd-h100-v5", {f"ffff:ff:0{i}.0": (1, 1) for i in range(1, 9)}),
        ("rccl-16p1h", {f"0000:{bus}:00.0": (2, 1) for bus in ("49", "52", "09", "12", "ca", "d3", "8a", "93")}),
        ("rccl-4p4h", {"0000:c5:00.0": (8, 8), "0000:e6:00.0": (8, 8)}),
        ("rccl-8p_90a", {}),
        ("rccl-8p_pcie_2nic", {"0000:18:00.0": (4, 1), "0000:3b:00.0": (4, 1)}),
        ("rccl-8p_rome_4nics", {f"0000:{bus}:00.0": (2, 1) for bus in ("43", "03", "c4", "83")}),
        ("rccl-8p_ts1_n4", {}),
    ],
)
def test_gpus_share_their_nearest_switch_with_nics(name: str, switches: dict[str, tuple[int, int]]) -> None:
    inventory = real(name)
    below: dict[str, tuple[int, int]] = {}
    for is_nic, devices in enumerate((inventory.gpus, inventory.nics)):
        for device in devices:
            if device.pcie.switch is not None:
                gpus, nics = below.get(device.pcie.switch, (0, 0))
                below[device.pcie.switch] = (gpus + (not is_nic), nics + is_nic)
    assert below == switches


def test_a_chain_of_switches_is_kept_without_those_of_the_card() -> None:
    gpu = real("rccl-16p1h").gpus[0]
    assert gpu.address == "0000:4e:00.0"
    assert gpu.pcie.switches == ("0000:41:00.0", "0000:49:00.0")  # not 0000:4c:00.0, the MI250's own
    assert gpu.pcie.root == "pci0000:41"
    assert gpu.pcie.root_port is None
    assert gpu.pcie.numa_node == 0


@pytest.mark.parametrize(
    ("name", "root"),
    [
        pytest.param("azure-nd-h100-v5", "pci0001:00", id="below-a-virtual-switch-the-devices-own-bus"),
        pytest.param("aws-p4d.24xlarge", "pci0000:10", id="devices-of-one-bus-share-it"),
        pytest.param("rccl-8p_90a", "pci0000:c1", id="without-switches-the-devices-own-bus"),
        pytest.param("rccl-8p_ts1_n4", "pci0000:41", id="a-switch-of-the-card-still-tells-the-bus"),
    ],
)
def test_the_root_is_named_after_the_topmost_physical_bus(name: str, root: str) -> None:
    inventory = real(name)
    assert inventory.gpus[0].pcie.root == root
    assert any("records no PCIe roots" in note for note in inventory.notes)


def test_links_are_read_with_their_peers() -> None:
    gpu = real("rccl-16p1h").gpus[0]
    assert gpu.links == (
        GpuLink(kind=LinkKind.XGMI, peer=PciAddress("0000:0e:00.0"), count=2),
        GpuLink(kind=LinkKind.XGMI, peer=PciAddress("0000:51:00.0"), count=4),
        GpuLink(kind=LinkKind.XGMI, peer=PciAddress("0000:56:00.0"), count=1),
    )


def test_nics_are_described() -> None:
    nic = real("rccl-16p1h").nics[6]
    assert (nic.address, nic.rdma_device, nic.vendor, nic.model) == ("0000:8c:00.0", "mlx5_7", "nvidia", "ConnectX-6")
    (port,) = nic.ports
    assert (port.number, port.link_layer, port.speed_gbps) == (1, LinkLayer.INFINIBAND, 200)


def test_alike_nics_take_rails_in_pci_order() -> None:
    assert {nic.rdma_device: nic.rail for nic in real("rccl-8p_rome_4nics").nics} == {
        "mlx5_3": 0,
        "mlx5_1": 1,
        "mlx5_7": 2,
        "mlx5_5": 3,
    }
    assert [nic.rail for nic in real("azure-nd-h100-v5").nics] == list(range(8))


def test_a_file_with_bus_ids_alone_is_described_by_its_platform() -> None:
    inventory = real("aws-g5.48xlarge")
    assert {gpu.model for gpu in inventory.gpus} == {"NVIDIA A10G"}
    assert [nic.address for nic in inventory.nics] == ["0000:00:15.0"]
    assert any("AWS g5.48xlarge" in note for note in inventory.notes)


def test_entries_without_a_class_are_taken_as_gpus_and_that_is_said(tmp_path: Path) -> None:
    inventory = written(tmp_path, cpu(pci("0000:00:16.0") + pci("0000:00:17.0")))
    assert len(inventory.gpus) == 2
    assert any("no class for 0000:00:16.0, 0000:00:17.0: taken as GPUs" in note for note in inventory.notes)


def test_a_switch_without_a_class_is_known_by_what_is_below_it(tmp_path: Path) -> None:
    inventory = written(tmp_path, cpu(pci("0000:01:00.0", inside=pci("0000:03:00.0", GPU) + pci("0000:04:00.0", IB))))
    assert {device.pcie.switch for device in inventory.devices()} == {"0000:01:00.0"}


def test_a_switch_written_several_times_at_one_place_is_one_switch(tmp_path: Path) -> None:
    # As NCCL's AMD port dumps a switch: once for each GPU and NIC below it.
    pairs = ((f"0000:c{i}:00.0", f"0000:d{i}:00.0") for i in range(8))
    switches = (pci("0000:c5:01.0", BRIDGE, pci(gpu, GPU) + pci(nic, IB)) for gpu, nic in pairs)
    inventory = written(tmp_path, cpu(pci("0000:b1:00.0", BRIDGE, "".join(switches))))
    assert {device.pcie.switches for device in inventory.devices()} == {("0000:b1:00.0", "0000:c5:01.0")}
    assert any("0000:c5:01.0 stands 8 times" in note for note in inventory.notes)


def test_a_nic_used_through_sockets_is_left_out_and_that_is_said() -> None:
    inventory = real("rccl-8p_90a")
    assert inventory.nics == ()
    assert any("eth0 of 0000:94:00.0" in note for note in inventory.notes)


def test_a_nic_without_a_pci_device_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    inventory = written(tmp_path, cpu(pci("0000:03:00.0", GPU) + '<nic><net name="eth0" dev="0" port="0"/></nic>'))
    assert inventory.nics == ()
    assert any("no PCI device of their own" in note and "eth0" in note for note in inventory.notes)


def test_the_functions_of_a_card_that_nccl_writes_as_one_device_are_told_apart(tmp_path: Path) -> None:
    # As NCCL dumps a DGX A100's dual-port ConnectX-6: one guid, ports counted over both functions.
    nets = (
        '<nic><net name="mlx5_4" dev="4" speed="200000" port="1" guid="0x64774a0003a1420c"/>'
        '<net name="mlx5_5" dev="5" speed="100000" port="2" guid="0x64774a0003a1420c"/></nic>'
    )
    inventory = written(tmp_path, cpu(pci("0000:61:00.0", IB, nets, vendor="0x15b3", device="0x101b")))
    assert [(nic.address, nic.rdma_device, nic.ports[0].speed_gbps) for nic in inventory.nics] == [
        ("0000:61:00.0", "mlx5_4", 200),
        ("0000:61:00.1", "mlx5_5", 100),
    ]
    assert any("mlx5_5 is taken as function 0000:61:00.1" in note for note in inventory.notes)


def test_a_further_function_never_takes_another_devices_address(tmp_path: Path) -> None:
    two = '<nic><net name="a" port="1"/><net name="b" port="2"/></nic>'
    inventory = written(tmp_path, cpu(pci("0000:61:00.0", IB, two) + pci("0000:61:00.1", IB, two)))
    assert [nic.address for nic in inventory.nics] == ["0000:61:00.0", "0000:61:00.2", "0000:61:00.1", "0000:61:00.3"]


def test_two_ports_of_one_rdma_device_are_one_nic(tmp_path: Path) -> None:
    nets = '<nic><net name="mlx4_0" speed="56000" port="1"/><net name="mlx4_0" speed="56000" port="2"/></nic>'
    (nic,) = written(tmp_path, cpu(pci("0000:61:00.0", IB, nets))).nics
    assert [port.number for port in nic.ports] == [1, 2]


def test_efa_nics_of_a_vm_share_a_switch_with_their_gpu(tmp_path: Path) -> None:
    # As AWS writes a p5.48xlarge: a bridge of the VM, RDMA devices named by the plugin, guids counted from 0.
    nic = '<nic><net name="rdmap{0}s0" dev="{1}" speed="100000" port="1" guid="{1}" gdr="1"/></nic>'
    inside = pci("0000:4f:00.0", GPU, '<gpu dev="0" sm="90" rank="0" gdr="1"/>')
    inside += "".join(pci(f"0000:5{i}:00.0", ETHERNET, nic.format(79 + i, i)) for i in range(4))
    inventory = written(tmp_path, cpu(pci("0000:00:00.0", BRIDGE, inside)))
    assert {device.pcie.switch for device in inventory.devices()} == {"0000:00:00.0"}
    assert [(nic.rdma_device, nic.rail, nic.ports[0].link_layer) for nic in inventory.nics] == [
        (f"rdmap{79 + i}s0", i, LinkLayer.ETHERNET) for i in range(4)
    ]


def test_a_merged_nic_stands_for_the_device_it_is_written_in(tmp_path: Path) -> None:
    net = '<nic><net name="mlx5_0+mlx5_1" dev="0" port="1"/></nic>'
    inventory = written(tmp_path, cpu(pci("0000:61:00.0", IB, net)))
    assert [(nic.address, nic.rdma_device) for nic in inventory.nics] == [("0000:61:00.0", None)]
    assert any("mlx5_0+mlx5_1" in note for note in inventory.notes)


def test_links_to_nvswitches_are_added_up(tmp_path: Path) -> None:
    links = (
        '<nvlink target="0000:c4:00.0" count="2" tclass="0x068000"/>'
        '<nvlink target="fffffff:ffff:ff" count="16" tclass="0x068000"/>'
        '<nvlink target="0004:00:00.0" count="3" tclass="0x068001"/>'  # a POWER CPU
        '<nvlink target="0000:99:00.0" count="3" tclass="0x03"/>'  # a GPU that is not in the file
        '<c2c bw="1" count="1"/>'
    )
    (gpu,) = written(tmp_path, cpu(pci("0000:03:00.0", GPU, f'<gpu dev="0" sm="90">{links}</gpu>'))).gpus
    assert gpu.links == (GpuLink(kind=LinkKind.NVLINK, peer=None, count=18),)
    assert (gpu.architecture, gpu.cuda_compute_capability) == ("Hopper", "9.0")


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (pci("0000:03:00.0", "0x030000"), "gpu"),
        (pci("0000:03:00.0", "0x03"), "gpu"),
        (pci("0000:03:00.0", "0x038000"), "gpu"),
        (pci("0000:03:00.0", "0x120000", vendor="0x1002", device="0x74a1"), "gpu"),
        (pci("0000:03:00.0", "0x120000"), "gpu"),
        (pci("0000:03:00.0", "0x120000", vendor="0x10ee", device="0x5000"), "fpga"),
        (pci("0000:03:00.0", "0x120000", vendor="0x8086", device="0x09c4"), "fpga"),
        (pci("0000:03:00.0", "0x058000", vendor="0x1d0f", device="0xf010"), "fpga"),
        (pci("0000:03:00.0", "0x020700"), "rdma"),
        (pci("0000:03:00.0", "0x02"), "rdma"),
        (pci("0000:03:00.0", "0x010802", '<gpu dev="0"/>'), "gpu"),
        (pci("0000:03:00.0", inside="<nic/>"), "rdma"),
    ],
)
def test_the_class_tells_what_a_device_is(tmp_path: Path, entry: str, kind: str) -> None:
    (device,) = written(tmp_path, cpu(entry)).devices()
    assert device.type == kind


def test_an_intel_npu_is_a_processing_accelerator_but_no_fpga(tmp_path: Path) -> None:
    npu = pci("0000:00:0b.0", "0x120000", vendor="0x8086", device="0x7d1d")
    inventory = written(tmp_path, cpu(pci("0000:03:00.0", GPU) + npu))
    assert [device.address for device in inventory.devices()] == ["0000:03:00.0"]


@pytest.mark.parametrize("count", [512, 513])
def test_at_most_512_devices_are_read(tmp_path: Path, count: int) -> None:
    body = cpu("".join(pci(f"{n >> 8:04x}:{n & 0xFF:02x}:00.0", GPU) for n in range(count)))
    if count == 512:
        assert len(written(tmp_path, body).gpus) == 512
    else:
        with pytest.raises(InputError, match=r"topo\.xml:1: .* 513 GPUs, 0 NICs and 0 FPGAs.*at most 512 devices"):
            written(tmp_path, body)


def test_other_devices_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    inventory = written(tmp_path, cpu(pci("0000:03:00.0", GPU) + pci("0000:04:00.0", "0x010802")))
    assert [device.address for device in inventory.devices()] == ["0000:03:00.0"]
    assert any("neither GPU nor NIC nor FPGA: 0000:04:00.0" in note for note in inventory.notes)


@pytest.mark.parametrize(("numaid", "numa_node"), [("-1", None), ("0", 0), ("7", 7)])
def test_numa_minus_one_is_unknown(tmp_path: Path, numaid: str, numa_node: int | None) -> None:
    (gpu,) = written(tmp_path, cpu(pci("0000:03:00.0", GPU), numaid)).gpus
    assert gpu.pcie.numa_node == numa_node


def test_gpus_keep_their_numbers_and_take_pci_order_without(tmp_path: Path) -> None:
    numbered = cpu(pci("0000:03:00.0", GPU, '<gpu dev="5"/>') + pci("0000:04:00.0", GPU, '<gpu dev="2"/>'))
    assert [(gpu.index, gpu.address) for gpu in written(tmp_path, numbered).gpus] == [
        (2, "0000:04:00.0"),
        (5, "0000:03:00.0"),
    ]
    repeated = numbered.replace('dev="5"', 'dev="2"')
    assert [(gpu.index, gpu.address) for gpu in written(tmp_path, repeated).gpus] == [
        (0, "0000:03:00.0"),
        (1, "0000:04:00.0"),
    ]


@pytest.mark.parametrize(
    ("gcn", "architecture"),
    [("906", "gfx906"), ("910", "gfx90a"), ("gfx942:sramecc+:xnack-", "gfx942"), ("21943", None), ("", None)],
)
def test_amd_architectures(tmp_path: Path, gcn: str, architecture: str | None) -> None:
    (gpu,) = written(tmp_path, cpu(pci("0000:03:00.0", "0x038000", f'<gpu dev="0" sm="90" gcn="{gcn}"/>'))).gpus
    assert (gpu.vendor, gpu.architecture, gpu.cuda_compute_capability) == ("amd", architecture, None)


def test_flags_describe_gpus_that_the_file_does_not() -> None:
    inventory = real("azure-nd-h100-v5", HardwareFacts(gpu_model="h100"))
    assert {(gpu.model, gpu.memory_bytes, gpu.architecture) for gpu in inventory.gpus} == {
        ("NVIDIA H100 80GB HBM3", 81559 * MIB, "Hopper")
    }
    assert not any("--gpu" in note for note in inventory.notes)


def test_a_nominal_memory_size_is_one_note_that_says_what_to_do() -> None:
    notes = [note for note in real("rccl-8p_ts1_n4").notes if "nominal" in note]
    (note,) = notes
    assert note.startswith("AMD Instinct MI60: the memory, 32 GiB, is the nominal size; the driver may report less;")
    assert "--gpu-memory" in note
    exact = real("rccl-8p_ts1_n4", HardwareFacts(gpu_memory_bytes=32752 * MIB))
    assert not any("nominal" in note for note in exact.notes)


def test_an_unknown_model_flag_is_an_error() -> None:
    with pytest.raises(InputError, match="not in the catalogue"):
        real("azure-nd-h100-v5", HardwareFacts(gpu_model="no such"))


@pytest.mark.parametrize(
    ("file", "node"),
    [
        ("aws-p4d.24xlarge.xml", "aws-p4d.24xlarge"),
        ("My_Machine (1).XML", "my-machine--1"),
        ("..a..b-.xml", "a.b"),
        ("ünï.xml", "n"),
        ("___.xml", "node"),
        ("a" * 200 + ".b-" + "c" * 40 + ".xml", "a" * 200 + ".b-" + "c" * 40),
    ],
)
def test_the_node_is_named_after_the_file(tmp_path: Path, file: str, node: str) -> None:
    path = tmp_path / file
    path.write_text(f"<system>{pci('0000:03:00.0', GPU)}</system>", encoding="utf-8")
    assert read_topology(path).node == node


def test_a_given_node_name_wins_and_is_checked(tmp_path: Path) -> None:
    assert written(tmp_path, pci("0000:03:00.0", GPU), node="gpu-7.example").node == "gpu-7.example"
    with pytest.raises(InputError, match="node name 'A B' is not a DNS name"):
        written(tmp_path, pci("0000:03:00.0", GPU), node="A B")


def test_unknown_elements_and_attributes_are_ignored(tmp_path: Path) -> None:
    body = cpu(
        '<future a="1">'
        + pci("03:00.0", GPU, '<gpu dev="0" new="x"><c2c/></gpu><pcilink/>', link_speed="?")
        + "</future>"
    )
    (gpu,) = written(tmp_path, body).gpus
    assert (gpu.address, gpu.pcie.numa_node) == ("0000:03:00.0", 0)


def test_reading_is_deterministic() -> None:
    assert real("rccl-16p1h") == real("rccl-16p1h")


@pytest.mark.parametrize(
    ("name", "model", "is_noted"),
    [
        ("azure-nd-h100-v5", None, True),
        ("azure-nd-h100-v5", "H100", True),
        ("aws-p4d.24xlarge", None, True),
        ("azure-nd-h100-v5", "H100 NVL", True),
        ("azure-nd-h100-v5", "H100 PCIe", True),
        ("azure-nd-h100-v5", "A30", True),
        ("azure-nd-h100-v5", "L40S", False),
        ("aws-g5.48xlarge", None, False),
        ("rccl-8p_pcie_2nic", None, False),
    ],
)
def test_that_no_nvlinks_are_recorded_is_noted_where_the_gpus_may_have_some(
    name: str, model: str | None, is_noted: bool
) -> None:
    notes = real(name, HardwareFacts(gpu_model=model)).notes
    assert any(note.startswith("The file records no NVLinks") for note in notes) is is_noted


def test_a_link_of_a_gpu_to_itself_is_no_link(tmp_path: Path) -> None:
    """Azure's file for the NC A100 v4 series has such ones."""

    def gpu(address: str, target: str) -> str:
        return pci(address, GPU, f'<gpu dev="{address[3]}"><nvlink target="{target}" count="12" tclass="{GPU}"/></gpu>')

    alone = written(tmp_path, cpu(gpu("0000:00:00.0", "0000:00:00.0") + gpu("0001:00:00.0", "0001:00:00.0")))
    assert [each.links for each in alone.gpus] == [(), ()]
    joined = written(tmp_path, cpu(gpu("0000:00:00.0", "0001:00:00.0") + gpu("0001:00:00.0", "0000:00:00.0")))
    assert all(each.links for each in joined.gpus)
