"""`rootport pairs`: the claim that nobody should write by hand, valid for the API, and what cannot be told at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from driver.api.validation.claims import validate_claim, validate_claim_template
from driver.lint import check_claim
from tests.support.sysfs_tree import ROOT_PORT, SysfsTree
from tests.support.topologies import machine_file, nccl_file

H100 = str(machine_file("azure-nd-h100-v5"))
TS1 = str(machine_file("rccl-8p_ts1_n4"))
G5 = str(machine_file("aws-g5.48xlarge"))
Run = Callable[..., Any]

WISHES = [
    pytest.param([], id="one pair"),
    pytest.param(["--gpus", 8], id="eight pairs"),
    pytest.param(["--gpus", 4, "--scope", "ladder"], id="four pairs by the ladder"),
    pytest.param(["--gpus", 5, "--farthest", "numa"], id="five pairs by the ladder to the NUMA node"),
    pytest.param(["--gpus", 8, "--nics", 4, "--scope", "ladder"], id="two GPUs with each NIC by the ladder"),
    pytest.param(["--gpus", 16, "--scope", "switch"], id="sixteen pairs"),
    pytest.param(["--gpus", 8, "--nics", 4], id="two GPUs with each NIC"),
    pytest.param(["--gpus", 4, "--nics", 8, "--scope", "numa"], id="two NICs with each GPU"),
    pytest.param(["--gpus", 2, "--gpu-core", 50, "--gpu-memory", "40Gi", "--vf"], id="half GPUs and VFs"),
    pytest.param(["--gpus", 2, "--bandwidth", "100G", "--scope", "root"], id="shares of NICs"),
    pytest.param(["--gpus", 4, "--rails", "0,1,2,3", "--name", "job", "--namespace", "training"], id="rails"),
]


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
@pytest.mark.parametrize("arguments", WISHES)
def test_what_it_prints_is_what_the_api_takes(rootport: Run, arguments: list[object], kind: str) -> None:
    ran = rootport("pairs", *arguments, *(["--template"] if kind == "ResourceClaimTemplate" else []))
    assert ran.code == 0, ran.err
    document = yaml.safe_load(ran.out)
    assert document["kind"] == kind
    if kind == "ResourceClaim":
        claim = ResourceClaim.model_validate(document)
        assert validate_claim(claim) == ()
        classes = ("gpu", "rdma", "rdma-vf")
        names = {
            error.message.split("'")[1] for error in check_claim(claim, {})
        }  # each is of a class that is not there
        assert names <= {f"{name}.rootport.dev" for name in classes}
    else:
        assert validate_claim_template(ResourceClaimTemplate.model_validate(document)) == ()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--gpus 5 --nics 2", "5 GPUs with 2 NICs cannot be put into equal groups: for 2 NICs, ask for 4 or 6 GPUs"),
        ("--gpus 0", "at least one of each is needed"),
        ("--gpus 20 --scope switch", "40 devices: a claim can have 32"),
        ("--gpus 9 --scope ladder", "take 72 constraints: a claim can have 32, enough for 4 groups"),
        ("--gpus 5 --scope ladder", "or use --farthest numa, or --scope switch, root or numa"),
        ("--gpus 4 --gpu-core 50 --scope ladder", "take 33 constraints"),
        ("--gpus 4 --rails 0,1,2,3 --scope ladder", "take 33 constraints"),
        ("--scope numa --farthest numa", "--farthest numa with --scope numa: only a ladder has a last rung"),
        ("--gpus 2 --rails 0", "--rails names 1 rail for 2 NICs"),
        ("--gpus 2 --rails 1,1", "--rails names rail 1 twice"),
        ("--rails one", "'one' is not a rail"),
        ("--gpu-core 200", "--gpu-core: 200 is not a percentage"),
        ("--gpu-memory lots", "--gpu-memory: "),
        ("--gpu-memory 40", "--gpu-memory 40: that is 40 bytes; did you mean 40Gi?"),
        ("--bandwidth 100", "did you mean 100G?"),
        ("--bandwidth 0", "--bandwidth: "),
        ("--vf --bandwidth 1G", "a VF has none"),
        ("--name UPPER", "metadata.name"),
        ("--topology no-such.xml", "no-such.xml"),
        (f"--topology {H100} --topology {H100}", "both make a node named azure-nd-h100-v5"),
    ],
    ids=str,
)
def test_what_cannot_be_is_told(rootport: Run, arguments: str, says: str) -> None:
    ran = rootport("pairs", *arguments.split())
    assert ran.code == 2
    assert says in ran.err
    assert ran.out == ""


def test_all_mistakes_are_told_at_once(rootport: Run) -> None:
    ran = rootport("pairs", "--gpus", 5, "--nics", 2, "--gpu-core", 0, "--vf", "--bandwidth", "1G")
    assert len(ran.err.splitlines()) == 3


ALTERNATIVES = ["switch", "root", "root-no-numa", "numa", "node", "node-no-numa"]


@pytest.mark.parametrize(
    ("flags", "alternatives", "constraints"),
    [
        pytest.param("", ALTERNATIVES, 8, id="to-the-node"),
        pytest.param("--farthest numa", ALTERNATIVES[:4], 6, id="to-the-numa-node"),
        pytest.param("--farthest root", ALTERNATIVES[:3], 5, id="to-the-root"),
        pytest.param("--gpus 4 --scope ladder", ALTERNATIVES[:5], 7, id="two-gpus-with-a-nic"),
    ],
)
def test_the_gpu_stands_before_its_nic_and_both_have_all_rungs(
    rootport: Run, flags: str, alternatives: list[str], constraints: int
) -> None:
    devices = yaml.safe_load(rootport("pairs", "--gpus", 2, "--nics", 2, *flags.split()).out)["spec"]["devices"]
    assert [request["name"] for request in devices["requests"]] == ["gpu-0", "nic-0", "gpu-1", "nic-1"]
    for request in devices["requests"]:
        assert [rung["name"] for rung in request["firstAvailable"]] == alternatives
    assert len(devices["constraints"]) == 2 * constraints


def test_a_long_ladder_says_what_it_costs(rootport: Run) -> None:
    assert "a ladder of 4 groups: " in rootport("pairs", "--gpus", 4, "--scope", "ladder").err
    assert "a ladder of 5 groups: " in rootport("pairs", "--gpus", 5, "--farthest", "numa").err
    assert rootport("pairs", "--gpus", 3).err == ""
    assert rootport("pairs", "--gpus", 4, "--farthest", "numa").err == ""
    assert rootport("pairs", "--gpus", 5, "--scope", "switch").err == ""


def test_four_groups_end_at_the_numa_node_and_say_so(rootport: Run) -> None:
    ran = rootport("pairs", "--gpus", 4)
    assert "note: --farthest numa: " in ran.err
    assert ran.out == rootport("pairs", "--gpus", 4, "--farthest", "numa").out
    assert "anywhere on the node" not in ran.out
    assert "else anywhere on the node" in rootport("pairs", "--gpus", 3).out


def matched(ran: Any) -> set[str]:
    constraints = yaml.safe_load(ran.out)["spec"]["devices"]["constraints"]
    return {constraint["matchAttribute"] for constraint in constraints if "matchAttribute" in constraint}


def test_many_pairs_are_written_so_that_the_scheduler_is_quick(rootport: Run, tmp_path: Path) -> None:
    ran = rootport("pairs", "--gpus", 8)
    assert matched(ran) == {"rootport.dev/pcieSwitch"}
    assert "note: --scope switch, " in ran.err
    (tmp_path / "claim.yaml").write_text(ran.out)
    linted = rootport("lint", tmp_path / "claim.yaml", "--topology", nccl_file("azure-nd-h100-v5"))
    assert (linted.code, linted.out) == (0, "")


def below_root(tree: SysfsTree, bridge: str, number: int, *, link_layer: str = "InfiniBand") -> None:
    """A GPU and a NIC directly below a host bridge, as machines without switches have them."""
    bus = bridge.rpartition(":")[2]
    ports = [tree.bridge(bridge, f"0000:{bus}:{2 * number + at:02x}.0", ROOT_PORT) for at in (0, 1)]
    tree.nvidia_gpu(ports[0], f"0000:{0x81 + 2 * number:02x}:00.0", numa_node=0, minor=number)
    nic = tree.rdma_nic(ports[1], f"0000:{0x82 + 2 * number:02x}:00.0", numa_node=0)
    tree.rdma_device(nic, f"mlx5_{number}", number=number, interfaces=[f"net{number}"], link_layer=link_layer)


def test_many_pairs_have_the_nearest_scope_that_the_machine_has(rootport: Run, tmp_path: Path) -> None:
    tree = SysfsTree(tmp_path)
    for number in range(8):
        below_root(tree, tree.host_bridge(f"pci0000:{0x10 * number:02x}"), number)
    ran = rootport("pairs", "--gpus", 8, "--sysfs", tmp_path)
    assert ran.code == 0, ran.err
    assert "note: --scope root, the nearest that the machine has room for" in ran.err
    assert matched(ran) == {"resource.kubernetes.io/pcieRoot"}


def test_few_pairs_keep_the_ladder(rootport: Run) -> None:
    ran = rootport("pairs", "--gpus", 4, "--topology", H100)
    assert len(matched(ran)) > 1
    assert "note: --scope" not in ran.err


def test_a_machine_with_fewer_nics_says_what_to_ask_for(rootport: Run) -> None:
    ran = rootport("pairs", "--gpus", 8, "--topology", nccl_file("aws-p4d.24xlarge"))
    assert ran.code == 1
    assert "no room: this machine has 8 GPUs and 4 RDMA NICs; use --nics 4" in ran.err
    assert rootport("pairs", "--gpus", 8, "--nics", 4, "--topology", nccl_file("aws-p4d.24xlarge")).code == 0


@pytest.mark.parametrize("scope", ["switch", "ladder"])
def test_nics_on_rails_are_of_one_fabric(rootport: Run, scope: str) -> None:
    wish = ("pairs", "--gpus", 2, "--scope", scope)
    (constraint,) = [
        constraint
        for constraint in yaml.safe_load(rootport(*wish, "--rails", "0,1").out)["spec"]["devices"]["constraints"]
        if constraint.get("matchAttribute") == "rootport.dev/linkType"
    ]
    assert constraint["requests"] == ["nic-0", "nic-1"]
    assert "rootport.dev/linkType" not in matched(rootport(*wish))
    assert "rootport.dev/linkType" not in matched(rootport("pairs", "--rails", 0))


def test_a_claim_on_rails_is_never_given_a_nic_of_another_fabric(rootport: Run, tmp_path: Path) -> None:
    tree = SysfsTree(tmp_path)
    bridge = tree.host_bridge("pci0000:10")
    for number, layer in enumerate(("Ethernet", "InfiniBand", "InfiniBand")):  # the first in PCI order is for storage
        below_root(tree, bridge, number, link_layer=layer)
    ran = rootport("pairs", "--gpus", 2, "--rails", "0,1", "--sysfs", tmp_path)
    assert ran.code == 0, ran.err
    given = {word for word in ran.err.split() if word.startswith("rdma-")}
    assert given == {"rdma-0000-84-00-0", "rdma-0000-86-00-0"}


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--gpu-core 50", "without --gpu-memory each share takes all memory of its GPU"),
    ],
)
def test_a_share_of_one_amount_says_that_it_takes_all_of_the_other(rootport: Run, flag: str, says: str) -> None:
    assert says in rootport("pairs", *flag.split()).err
    assert rootport("pairs", "--gpu-core", 50, "--gpu-memory", "40Gi").err == ""


def test_a_machine_with_pairs_under_switches_gives_them(rootport: Run) -> None:
    ran = rootport("pairs", "--gpus", 4, "--topology", H100)
    assert ran.code == 0
    assert "--scope switch  yes" in ran.err
    assert ran.err.count("PIX") == 4
    assert yaml.safe_load(ran.out)["kind"] == "ResourceClaim", "stdout is the claim alone"


def test_a_machine_that_shows_no_switch_says_so(rootport: Run) -> None:
    ran = rootport("pairs", "--topology", G5)
    assert ran.code == 0
    assert "--scope switch  no: no PCIe switch is visible\n" in ran.err
    assert "PHB" in ran.err, "the GPU of the NIC's own socket"


def test_a_machine_without_room_is_told_and_the_claim_is_printed_all_the_same(rootport: Run) -> None:
    ran = rootport("pairs", "--gpus", 2, "--farthest", "numa", "--topology", H100, "--topology", TS1)
    assert ran.code == 1
    assert "this claim: no room" in ran.err
    assert yaml.safe_load(ran.out)["kind"] == "ResourceClaim"


def test_a_machine_that_has_nothing_nearer_gives_devices_from_anywhere_and_it_is_told(rootport: Run) -> None:
    ran = rootport("pairs", "--gpus", 2, "--topology", TS1)
    assert ran.code == 0
    assert ran.err.count("SYS") == 2
    assert "2 groups are not aligned" in ran.err
    assert "not aligned" not in rootport("pairs", "--gpus", 2, "--topology", H100).err


def test_vfs_are_assumed_where_they_are_asked_for(rootport: Run) -> None:
    wish = ("pairs", "--gpus", 2, "--vf", "--gpu-core", 50, "--topology", H100)
    assert rootport(*wish).code == 1
    ran = rootport(*wish, "--vfs-per-nic", 4, "--gpu-model", "H100")
    assert ran.code == 0, ran.err
    assert ran.err.count("rdma-vfs-") == 2


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--vf", "no VFs are known: assume some with --vfs-per-nic"),
        ("--vfs-per-nic 2", "given by its VFs alone: use --vf"),
        ("--bandwidth 100G", "no link speed is known: give it with --nic-speed"),
        ("--gpu-memory 40Gi", "name their model with --gpu-model"),
        ("--gpus 2 --rails 9,10", "no: no NIC is on rail 9 or 10: the rails are taken to be 0, 1, 2, 3, 4, 5, 6, 7"),
        ("--gpus 2 --rails 0,10", "no: no NIC is on rail 10: the rails are taken to be 0, "),
    ],
)
def test_what_the_topology_file_does_not_tell_is_said(rootport: Run, flags: str, told: str) -> None:
    ran = rootport("pairs", "--topology", H100, *flags.split())
    assert ran.code == 1
    assert ran.err.count(told) == 3


FLAT = """\
apiVersion: rootport.dev/v1alpha1
kind: Machine
kinds:
  gpu: {class: 3d, id: "10de:2331"}
  nic: {class: infiniband, id: "15b3:1021"}
numaNodes:
- id: 0
  devices: [gpu 3b:00.0, nic 5e:00.0]
- id: 1
  devices: [gpu 9b:00.0]
"""


def test_roots_that_a_topology_file_does_not_record_are_not_known(rootport: Run, tmp_path: Path) -> None:
    flat = tmp_path / "flat.yaml"
    flat.write_text(FLAT)
    ran = rootport("pairs", flat, "--scope", "root")
    assert ran.code == 1
    assert "--scope root    not known: a topology file does not record PCIe roots" in ran.err
    assert "this claim: not known" in ran.err
    assert "no room" not in ran.err
    assert "use --scope" not in ran.err, "each other scope has its own line"
    two = rootport("pairs", flat, "--scope", "root", "--gpus", 2, "--nics", 1)
    assert "this claim: no room" in two.err, "one root is of one NUMA node"


def test_a_nic_for_each_switch_is_counted_on_the_machine(rootport: Run) -> None:
    p4d = nccl_file("aws-p4d.24xlarge")
    ran = rootport("pairs", "--gpus", 8, "--nic-per", "switch", "--topology", p4d)
    assert ran.code == 0, ran.err
    assert ran.out == rootport("pairs", "--gpus", 8, "--nics", 4, "--scope", "switch").out
    assert "--scope switch  yes" in ran.err


def test_a_nic_for_each_switch_of_an_unknown_machine_is_a_share_for_each_gpu(rootport: Run) -> None:
    refused = rootport("pairs", "--gpus", 8, "--nic-per", "switch")
    assert refused.code == 2
    assert "add --bandwidth" in refused.err
    ran = rootport("pairs", "--gpus", 8, "--nic-per", "switch", "--bandwidth", "25G")
    assert ran.out == rootport("pairs", "--gpus", 8, "--scope", "switch", "--bandwidth", "25G").out
    assert "--nics" in rootport("pairs", "--nic-per", "switch", "--nics", 2).err
