"""Trees that lie, leak, loop or block: one bad entry costs itself and nothing else, and blocks nobody."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.discovery import discover
from driver.errors import InputError, NodeError
from driver.model.inventory import Inventory
from tests.support.sysfs_tree import SysfsTree, dgx

SECRET = "the-secret-outside-the-root"
GPU = "devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0"
NIC = "devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0"


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "root").mkdir()
    return dgx(tmp_path / "root", switches=1, pairs=2, vfs=1)


def discovered(tree: SysfsTree) -> Inventory:
    inventory = discover(HostRoot(tree.root), node="n")
    assert SECRET not in repr(inventory)
    return inventory


def replace(tree: SysfsTree, path: str) -> Path:
    """The place of a file or folder, emptied for something else."""
    place = tree.root / "sys" / path
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    return place


def write_garbage(place: Path) -> None:
    place.write_bytes(b"\x00\xff garbage \n\n garbage")


def write_nothing(place: Path) -> None:
    place.write_bytes(b"")


def make_pipe(place: Path) -> None:
    os.mkfifo(place)


def make_huge(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1024**3)


def make_folder(place: Path) -> None:
    place.mkdir()


def link_to_secret(place: Path) -> None:
    secret = next(folder / "secret" for folder in place.parents if (folder / "secret").exists())
    place.symlink_to(os.path.relpath(secret, place.parent))
    assert place.read_text() == SECRET


def link_to_itself(place: Path) -> None:
    place.symlink_to(place.name)


def leave_out(place: Path) -> None:
    """Nothing is there."""


BAD_FILES = [
    write_garbage,
    write_nothing,
    make_pipe,
    make_huge,
    make_folder,
    link_to_secret,
    link_to_itself,
    leave_out,
]


@pytest.mark.parametrize("spoil", BAD_FILES)
@pytest.mark.parametrize("attribute", ["class", "vendor", "device"])
def test_a_function_that_cannot_be_identified_is_left_out_and_named(
    tree: SysfsTree, attribute: str, spoil: Callable[[Path], None]
) -> None:
    spoil(replace(tree, f"{GPU}/{attribute}"))
    inventory = discovered(tree)
    assert [gpu.minor for gpu in inventory.gpus] == [1]
    assert len(inventory.nics) == 2
    assert inventory.notes == (f"0000:13:00.0: its {attribute} cannot be read as a PCI {attribute}; it was left out",)


def test_a_copy_of_sysfs_without_an_attribute_gives_one_note(tree: SysfsTree) -> None:
    for file in (tree.root / "sys/devices").rglob("vendor"):
        file.unlink()
    inventory = discovered(tree)
    assert tuple(inventory.devices()) == ()
    [of_functions] = [note for note in inventory.notes if "vendor" in note]
    assert of_functions.startswith("12 PCI functions were left out: the file vendor of each is missing")
    assert "0000:12:01.0 and 8 more" in of_functions
    assert not any("no PCI function was found" in note for note in inventory.notes)


@pytest.mark.parametrize("spoil", BAD_FILES)
def test_a_numa_node_that_cannot_be_read_is_unknown(tree: SysfsTree, spoil: Callable[[Path], None]) -> None:
    spoil(replace(tree, f"{GPU}/numa_node"))
    inventory = discovered(tree)
    assert [gpu.pcie.numa_node for gpu in inventory.gpus] == [None, 0]


@pytest.mark.parametrize("value", ["garbage", "1024", "9" * 30, "-5", "0x1"])
def test_a_numa_node_that_cannot_be_is_unknown(tree: SysfsTree, value: str) -> None:
    tree.write(f"{GPU}/numa_node", value)
    assert discovered(tree).gpus[0].pcie.numa_node is None


@pytest.mark.parametrize("spoil", [write_garbage, make_pipe, make_folder, link_to_secret])
@pytest.mark.parametrize(
    "path",
    [
        f"{NIC}/infiniband/mlx5_0/ports/1/state",
        f"{NIC}/infiniband/mlx5_0/ports/1/rate",
        f"{NIC}/infiniband/mlx5_0/ports/1/link_layer",
        f"{NIC}/infiniband/mlx5_0/ports/1/gids/0",
        f"{NIC}/infiniband/mlx5_0/ports",
        f"{NIC}/infiniband/mlx5_0/node_desc",
        f"{NIC}/infiniband_verbs/uverbs0/ibdev",
        f"{NIC}/infiniband_verbs",
        f"{NIC}/infiniband_mad",
        f"{NIC}/net",
        f"{NIC}/sriov_totalvfs",
        f"{NIC}/config",
        "module/nvidia/version",
    ],
    ids=lambda path: path.removeprefix(f"{NIC}/"),
)
def test_a_detail_that_cannot_be_read_costs_no_device(
    tree: SysfsTree, path: str, spoil: Callable[[Path], None]
) -> None:
    spoil(replace(tree, path))
    inventory = discovered(tree)
    assert (len(inventory.gpus), len(inventory.nics), sum(len(nic.vfs) for nic in inventory.nics)) == (2, 2, 2)


@pytest.mark.parametrize("spoil", BAD_FILES)
def test_an_entry_of_the_pci_bus_that_leads_nowhere_is_left_out_and_named(
    tree: SysfsTree, spoil: Callable[[Path], None]
) -> None:
    spoil(replace(tree, "bus/pci/devices/0000:13:00.0"))
    inventory = discovered(tree)
    assert [gpu.minor for gpu in inventory.gpus] == [1]
    if spoil is make_folder:  # a folder in the link's place is taken for the function's own, and it has no attributes
        assert inventory.notes == ("0000:13:00.0: its class cannot be read as a PCI class; it was left out",)
    elif spoil is not leave_out:
        assert inventory.notes == (
            "0000:13:00.0: its link does not lead to its folder inside the tree; it was left out",
        )


def test_a_link_to_another_functions_folder_is_not_that_function(tree: SysfsTree) -> None:
    replace(tree, "bus/pci/devices/0000:13:00.0")
    tree.link("bus/pci/devices/0000:13:00.0", NIC)
    inventory = discovered(tree)
    assert "0000:13:00.0" not in {device.address for device in inventory.devices()}
    assert len(inventory.notes) == 1


@pytest.mark.parametrize(
    "name", ["garbage", "0000:13:00.8", "0000:13:20.0", "zz:zz.z", "00000000000:00:00.0", "\x1b[2J"]
)
def test_a_name_that_is_no_address_is_left_out_and_shown_safely(tree: SysfsTree, name: str) -> None:
    tree.link(f"bus/pci/devices/{name}", GPU)
    inventory = discovered(tree)
    assert len(inventory.gpus) == 2
    assert inventory.notes == (f"{name!r} on the PCI bus is not a PCI address; it was left out",)


@pytest.mark.parametrize("twin", ["0000:AB:00.0", "ab:00.0", "00000000:ab:00.0"])
def test_an_address_that_is_there_twice_is_one_device(tree: SysfsTree, twin: str) -> None:
    bridge = tree.host_bridge("pci0000:a0")
    tree.nvidia_gpu(bridge, "0000:ab:00.0")
    tree.nvidia_gpu(bridge, twin)
    inventory = discovered(tree)
    assert [gpu.address for gpu in inventory.gpus].count(inventory.gpus[-1].address) == 1
    assert inventory.gpus[-1].address == "0000:ab:00.0"
    assert "0000:ab:00.0: the tree has it twice" in inventory.notes[0]


def test_an_address_that_is_there_twice_is_one_device_when_the_bus_is_walked(tree: SysfsTree) -> None:
    shutil.rmtree(tree.root / "sys/bus/pci")
    other = tree.root / "sys" / tree.host_bridge("pci0000:f0") / "0000:13:00.0"
    shutil.copytree(tree.root / "sys" / GPU, other)
    inventory = discovered(tree)
    assert len(inventory.gpus) == 2
    assert "0000:13:00.0: the tree has it twice" in inventory.notes[0]


def test_a_circle_of_links_in_the_devices_is_not_walked(tree: SysfsTree) -> None:
    shutil.rmtree(tree.root / "sys/bus/pci")
    tree.link(f"{GPU}/0000:99:00.0", "devices/pci0000:10")
    tree.link("devices/pci0000:ff", "devices/pci0000:10")
    inventory = discovered(tree)
    assert (len(inventory.gpus), inventory.notes) == (2, ())


@pytest.mark.parametrize("target", ["../../../../..", "/..", "../../../../../../../../.."])
def test_links_of_classes_that_leave_the_root_are_left_out(tree: SysfsTree, target: str) -> None:
    for name in ("class/infiniband/leak", "class/fpga_region/leak", f"{NIC}/virtfn7", f"{NIC}/net/leak"):
        tree.folder(str(Path(name).parent))
        (tree.root / "sys" / name).symlink_to(target)
    inventory = discovered(tree)
    assert len(inventory.nics) == 2
    assert "RDMA device leak: no hardware behind it inside the tree; it was left out" in inventory.notes
    assert "0000:14:00.0: virtfn7 is not a virtual function that points back to it; it was left out" in inventory.notes


def test_two_rdma_devices_of_one_function_are_one_nic(tree: SysfsTree) -> None:
    tree.rdma_device(NIC, "zz_0", number=99)
    inventory = discovered(tree)
    (nic, _) = inventory.nics
    assert (nic.rdma_device, nic.verbs_minor, nic.umad_minors, nic.issm_minors) == ("mlx5_0", 0, (0,), (0,))
    assert inventory.notes == ("RDMA device zz_0: 0000:14:00.0 has mlx5_0 as well; it was left out",)


def test_a_virtual_function_that_two_links_claim_is_one(tree: SysfsTree) -> None:
    tree.link(f"{NIC}/virtfn9", str(Path(NIC).parent / "0000:14:00.1"))
    inventory = discovered(tree)
    assert len(inventory.nics[0].vfs) == 1
    assert inventory.notes == ("0000:14:00.0: virtfn9 is 0000:14:00.1 a second time; it was left out",)


def test_a_virtual_function_belongs_to_the_pf_that_it_names(tree: SysfsTree) -> None:
    other = "devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:03.0/0000:16:00.0"
    tree.link(f"{other}/virtfn9", str(Path(NIC).parent / "0000:14:00.1"))
    inventory = discovered(tree)
    addresses = [device.address for device in inventory.devices()]
    assert len(addresses) == len(set(addresses)) == 6
    assert [vf.index for vf in inventory.nics[1].vfs] == [0]


@pytest.mark.parametrize(
    "config",
    [
        bytes(256)[:6] + b"\x10" + bytes(249),
        (bytes(6) + b"\x10").ljust(0x34, b"\0") + b"\x40" + bytes(11) + b"\x01\x40" * 96,
        b"\xff" * 256,
        b"\xff" * 4096,
    ],
    ids=["a list without a start", "a circle of capabilities", "a device that fell off the bus", "a long one"],
)
def test_a_bridge_with_a_broken_configuration_space_costs_no_device(tree: SysfsTree, config: bytes) -> None:
    tree.write("devices/pci0000:10/0000:10:01.0/config", config)
    inventory = discovered(tree)
    assert (len(inventory.gpus), inventory.gpus[0].pcie.switches) == (2, ("0000:11:00.0",))


def test_folders_nested_five_thousand_deep_end_the_walk() -> None:
    # Not below pytest's folder, whose clean-up recurses.
    top = Path(tempfile.mkdtemp())
    names = [f"{number % 16:04x}:{number // 256 % 256:02x}:00.0" for number in range(5000)]
    here = os.open(top, os.O_RDONLY)
    try:
        for name in ("sys", "devices", "pci0000:00", *names):
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        (top / "sys/class").mkdir()
        assert list(discover(HostRoot(top), node="n").devices()) == []
    finally:
        os.close(here)
        remove_deep(top)


def remove_deep(top: Path) -> None:
    """Remove a chain of folders: each is emptied by moving its one grandchild up, so that no path gets long."""
    (top / "sys/class").rmdir()
    current = top / "sys" / "devices"
    while children := list(current.iterdir()):
        moved = top / "next"
        children[0].rename(moved)
        if current.parent == top:
            current.rmdir()
        current = moved.rename(top / "current")
    shutil.rmtree(top)


@pytest.fixture
def closed() -> Iterator[Callable[[str], SysfsTree]]:
    """A tree in which one folder may not be listed; root's rights are laid down for the test."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        tree = dgx(Path(name), switches=1, pairs=2)
        tree.root.chmod(0o755)
        shut: list[Path] = []

        def close(path: str) -> SysfsTree:
            shut.append(tree.root / "sys" / path)
            shut[0].chmod(0)
            if user == 0:
                os.seteuid(65534)
            return tree

        try:
            yield close
        finally:
            os.seteuid(user)
            for folder in shut:
                folder.chmod(0o755)


def test_a_function_that_may_not_be_read_costs_itself_only(closed: Callable[[str], SysfsTree]) -> None:
    inventory = discovered(closed(GPU))
    assert (len(inventory.gpus), len(inventory.nics)) == (1, 2)
    assert len(inventory.notes) == 1


def test_a_folder_of_a_nic_that_may_not_be_read_is_noted(closed: Callable[[str], SysfsTree]) -> None:
    inventory = discovered(closed(f"{NIC}/net"))
    assert inventory.nics[0].if_names == ()
    assert "0000:14:00.0/net' cannot be listed: Permission denied; what it holds was left out" in inventory.notes[0]


@pytest.mark.parametrize("path", ["bus/pci/devices", "class/infiniband"])
def test_a_list_of_devices_that_may_not_be_read_is_an_error_and_no_empty_node(
    closed: Callable[[str], SysfsTree], path: str
) -> None:
    with pytest.raises(NodeError, match=rf"sys/{path}' cannot be listed: Permission denied"):
        discovered(closed(path))


@pytest.mark.parametrize("folders", [(), ("sys",), ("proc",), ("devices",), ("sys/power",)])
def test_a_folder_without_sysfs_is_the_users_error(tmp_path: Path, folders: tuple[str, ...]) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(InputError, match="holds no sysfs"):
        discover(HostRoot(tmp_path), node="n")


def test_a_tree_whose_every_entry_is_broken_gives_a_hundred_notes_and_a_count(tmp_path: Path) -> None:
    tree = SysfsTree(tmp_path)
    for number in range(151):
        tree.write(f"bus/pci/devices/broken-{number}/class", "broken")
    inventory = discovered(tree)
    assert inventory.gpus == ()
    assert len(inventory.notes) == 101
    assert inventory.notes[-1] == "51 more notes were left out"
