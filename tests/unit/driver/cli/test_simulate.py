"""`rootport simulate`: the main job in one command, and every mistake one clear message that leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.api.quantity import Quantity
from tests.support.topologies import machine_file

P4D = str(machine_file("aws-p4d.24xlarge"))
H100 = str(machine_file("azure-nd-h100-v5"))
Run = Callable[..., Any]

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim-one}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.rootport.dev
"""


@pytest.fixture
def claims(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "claims.yaml"
        path.write_text(text)
        return path

    return write


def test_every_example_finds_room_on_the_machines_of_make_run(rootport: Run, tmp_path: Path) -> None:
    """What a new user sees first."""
    recipe = Path("Makefile").read_text().partition("rootport simulate")[2].partition("--out")[0]
    options = recipe.replace("\\\n", " ").replace("$(MACHINES)", "examples/machines").split()
    ran = rootport("simulate", *options, "--out", tmp_path / "out", "-o", "json")
    assert ran.code == 0, ran.out

    claims = {claim["name"]: claim for claim in json.loads(ran.out)["claims"]}
    attributes = published_attributes(tmp_path / "out")

    def values(claim: str, attribute: str) -> dict[str, object]:
        return {
            device["request"]: attributes[device["pool"], device["device"]].get(attribute)
            for device in claims[claim]["devices"]
        }

    of_pods = ("training-job-0-pairs", "training-job-1-pairs")
    for claim in of_pods:
        of_pod = values(claim, "pcieSwitch")
        assert (of_pod["gpu-0"], of_pod["gpu-1"]) == (of_pod["nic-0"], of_pod["nic-1"])
        assert values(claim, "rail") == {"nic-0": 0, "gpu-0": None, "nic-1": 1, "gpu-1": None}
    assert len({claims[claim]["node"] for claim in of_pods}) == 2
    assert len(set(values("half-gpu-vf", "pcieSwitch").values())) == 1
    assert values("half-gpu-vf", "type") == {"gpu": "gpu", "vf": "rdma-vf"}
    of_two = values("two-nics-per-gpu", "pcieSwitch")
    assert of_two["gpu"] == of_two["nic-0"]
    assert len(set(values("two-nics-per-gpu", "numaNode").values())) == 1
    assert claims["nic-bandwidth"]["devices"][0]["consumedCapacity"] == {"bandwidth": "25G"}
    assert values("fpga", "type") == {"fpga": "fpga"}
    assert any("CNI plugin" in note for note in claims["vf-interface"]["notes"])


def test_the_examples_are_allocated_as_their_comments_say(rootport: Run, tmp_path: Path) -> None:
    both = ("--topology", P4D, "--topology", H100)
    names = ("eight-gpu-nic-pairs", "four-gpus", "gpu-nic-pair", "gpu")  # of whole devices; the others are shares
    files = [part for name in names for part in ("--claims", f"examples/{name}.yaml")]
    ran = rootport("simulate", *both, *files, "--out", tmp_path / "out", "-o", "json")
    assert ran.code == 0, ran.err
    claims = {claim["name"]: claim for claim in json.loads(ran.out)["claims"]}
    assert set(claims) == set(names)
    assert {name: len(claim["devices"]) for name, claim in claims.items()} == {
        "gpu": 1,
        "four-gpus": 4,
        "gpu-nic-pair": 2,
        "eight-gpu-nic-pairs": 16,
    }
    assert claims["eight-gpu-nic-pairs"]["node"] == "azure-nd-h100-v5"

    attributes = published_attributes(tmp_path / "out")
    values = {
        name: [attributes[device["pool"], device["device"]] for device in claim["devices"]]
        for name, claim in claims.items()
    }
    assert len({device["numaNode"] for device in values["four-gpus"]}) == 1
    assert len({device["pcieSwitch"] for device in values["gpu-nic-pair"]}) == 1
    pairs = values["eight-gpu-nic-pairs"]
    assert [gpu["pcieSwitch"] for gpu in pairs[::2]] == [nic["pcieSwitch"] for nic in pairs[1::2]]
    assert len({gpu["pcieSwitch"] for gpu in pairs[::2]}) == 8


def test_the_best_linked_gpus_are_given_where_a_machine_has_such_and_linked_ones_elsewhere(
    rootport: Run, tmp_path: Path
) -> None:
    for machine, pairs in (("dgx-1-v100", 1), ("dgx-2", 0)):
        topology, out = machine_file(machine), tmp_path / machine
        claims = ("--claims", "examples/best-linked-gpus.yaml")
        ran = rootport("simulate", "--topology", topology, *claims, "--out", out, "-o", "json")
        assert ran.code == 0, ran.err
        ((device, other),) = [claim["devices"] for claim in json.loads(ran.out)["claims"]]
        attributes = published_attributes(out)
        values = [attributes[found["pool"], found["device"]] for found in (device, other)]
        assert len({value["nvlinkDomain"] for value in values if "nvlinkDomain" in value}) == 1
        assert len({value["nvlinkPair"] for value in values if "nvlinkPair" in value}) == pairs
        assert device["request"] == ("gpus/pair" if pairs else "gpus/linked")


def published_attributes(out: Path) -> dict[tuple[str, str], dict[str, object]]:
    return {
        (resource_slice["spec"]["pool"]["name"], device["name"]): {
            name: next(iter(value.values())) for name, value in device["attributes"].items()
        }
        for path in out.glob("nodes/*/resourceslices.json")
        for resource_slice in json.loads(path.read_text())["items"]
        for device in resource_slice["spec"].get("devices", ())
    }


def test_out_holds_what_a_cluster_would_hold(rootport: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = rootport("simulate", "--topology", P4D, "--claims", "examples/gpu.yaml", "--out", out, "-o", "json")
    [claim] = json.loads(ran.out)["claims"]
    spec = json.loads((out / claim["cdi"]).read_text())
    assert spec["devices"][0]["name"].startswith(claim["uid"])
    [stored] = yaml.safe_load_all((out / "claims.yaml").read_text())
    assert (stored["apiVersion"], stored["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")
    assert stored["status"]["allocation"]["devices"]["results"][0]["device"] == claim["devices"][0]["device"]
    assert (out / "nodes/aws-p4d.24xlarge/resourceslices.json").is_file()


def test_the_same_input_gives_the_same_bytes(rootport: Run, tmp_path: Path) -> None:
    def result(name: str) -> dict[str, bytes]:
        out = tmp_path / name
        rootport("simulate", "--topology", P4D, "--topology", H100, "--claims", "examples", "--out", out)
        return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}

    assert result("first") == result("second")


def test_the_table_shows_claims_trees_and_what_is_left(rootport: Run) -> None:
    ran = rootport("simulate", "--topology", P4D, "--claims", "examples/gpu-nic-pair.yaml")
    assert ran.code == 0
    assert "default/gpu-nic-pair" in ran.out
    assert ran.out.count("◀ default/gpu-nic-pair") == 2
    assert "1 of 1 claim allocated" in ran.out


@pytest.mark.parametrize("columns", ["60", "80", "140"])
def test_no_line_ends_with_a_space(rootport: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for ran in (
        rootport("simulate", "--topology", H100, "--gpu-model", "H100", "--claims", "examples"),
        rootport("topo", H100, "--gpu-model", "H100"),
    ):
        assert [line for line in ran.out.splitlines() if line != line.rstrip()] == []


def test_nodes_are_repeated_and_no_device_is_given_twice(rootport: Run, claims: Callable[[str], Path]) -> None:
    text = "---\n".join(CLAIM.replace("claim-one", f"c{i}") for i in range(24))
    ran = rootport("simulate", "--topology", H100, "--nodes", 3, "--claims", claims(text), "-o", "json")
    data = json.loads(ran.out)
    given = [(device["pool"], device["device"]) for claim in data["claims"] for device in claim["devices"]]
    assert len(set(given)) == 24
    assert [node["name"] for node in data["nodes"]] == [f"azure-nd-h100-v5-{i}" for i in (1, 2, 3)]
    assert [len(node["allocated"]) for node in data["nodes"]] == [8, 8, 8]


def test_a_claim_that_fits_nowhere_is_told_and_the_others_go_on(rootport: Run, claims: Callable[[str], Path]) -> None:
    text = CLAIM.replace("claim-one", "big") + "        count: 9\n---\n" + CLAIM.replace("claim-one", "small")
    ran = rootport("simulate", "--topology", H100, "--claims", claims(text))
    assert ran.code == 1
    assert "default/big: no node fits" in ran.out
    assert "1 of 2 claims allocated" in ran.out


def test_without_claims_the_nodes_are_shown(rootport: Run) -> None:
    ran = rootport("simulate", "--topology", H100)
    assert ran.code == 0
    assert "azure-nd-h100-v5" in ran.out


def test_a_model_may_be_given_for_one_node(rootport: Run) -> None:
    ran = rootport("simulate", "--topology", P4D, "--topology", H100, "--gpu-model", "azure-nd-h100-v5=H100",
                   "--claims", "examples")  # fmt: skip
    assert "H100" in ran.out
    assert "A100" in ran.out


SELECTOR = "        selectors: [{cel: {expression: 'EXPRESSION'}}]\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(
            CLAIM.replace("gpu.rootport.dev", "gpu.rootport.de"),
            "claims.yaml:9: ResourceClaim claim-one: spec.devices.requests[0].exactly.deviceClassName: there is no "
            "DeviceClass 'gpu.rootport.de'; did you mean gpu.rootport.dev?",
            id="unknown class",
        ),
        pytest.param(CLAIM + SELECTOR.replace("EXPRESSION", "device.driver =="), "claims.yaml:10: ", id="CEL syntax"),
        pytest.param(CLAIM + SELECTOR.replace("EXPRESSION", "gpu.model"), "gpu", id="CEL name"),
        pytest.param(CLAIM.replace("exactly", "exactlly"), "did you mean exactly?", id="unknown field"),
        pytest.param(CLAIM.replace("name: gpu", "name: GPU!"), "requests[0].name", id="bad request name"),
        pytest.param(
            CLAIM + "    config:\n    - opaque: {driver: rootport.dev, parameters: {kind: GpuConfig}}\n",
            "claims.yaml:11: ResourceClaim claim-one: spec.devices.config[0].opaque.parameters",
            id="config",
        ),
    ],
)
def test_bad_claims_are_told_by_line_and_field(
    rootport: Run, claims: Callable[[str], Path], tmp_path: Path, text: str, says: str
) -> None:
    out = tmp_path / "out"
    ran = rootport("simulate", "--topology", H100, "--claims", claims(text), "--out", out)
    assert ran.code == 2
    assert says in ran.err
    assert not out.exists()


def test_a_bad_line_in_a_template_is_found(rootport: Run, claims: Callable[[str], Path]) -> None:
    text = Path("examples/gpu.yaml").read_text().replace("gpu.rootport.dev", "gpus.rootport.dev")
    line = text.splitlines().index("          deviceClassName: gpus.rootport.dev") + 1
    assert (
        f"claims.yaml:{line}: ResourceClaimTemplate gpu: spec.spec.devices"
        in rootport("simulate", "--topology", H100, "--claims", claims(text)).err
    )


def test_a_selector_that_a_device_cannot_answer_is_told_per_claim(rootport: Run, claims: Callable[[str], Path]) -> None:
    selector = SELECTOR.replace("EXPRESSION", 'device.attributes["rootport.dev"].modle == "x"')
    text = CLAIM.replace("claim-one", "typo") + selector + "---\n" + CLAIM.replace("claim-one", "fine")
    ran = rootport("simulate", "--topology", H100, "--claims", claims(text))
    assert ran.code == 1
    assert "default/typo: " in ran.out
    assert "modle" in ran.out
    assert "1 of 2 claims allocated" in ran.out


def test_a_former_result_survives_bad_input(rootport: Run, claims: Callable[[str], Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    rootport("simulate", "--topology", H100, "--claims", claims(CLAIM.replace("claim-one", "one")), "--out", out)
    before = (out / "claims.yaml").read_bytes()
    assert rootport("simulate", "--topology", H100, "--claims", claims("kind: ["), "--out", out).code == 2
    assert (out / "claims.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["--topology", "nowhere.xml"], "nowhere.xml: cannot be read", id="no file"),
        pytest.param(["--topology", H100, "--topology", H100], "both make a node named", id="one node twice"),
        pytest.param(["--topology", H100, "--out", "examples"], "rootport did not write", id="somebody else's folder"),
        pytest.param(["--topology", H100, "--gpu-memory", "lots"], "is not a quantity", id="memory"),
        pytest.param(["--topology", H100, "--gpu-memory", "0"], "not a positive amount", id="no memory"),
        pytest.param(["--topology", H100, "--gpu-memory", "80"], "80 bytes; did you mean 80Gi?", id="bytes of memory"),
        pytest.param(["--topology", H100, "--gpu-model", "n1=H100"], "there is no such node", id="model of no node"),
        pytest.param(["--topology", H100, "--gpu-model", "H1000"], "H100", id="unknown model"),
        pytest.param(["--topology", H100, "--nodes", "0"], "--nodes", id="no nodes"),
        pytest.param([], "--topology", id="nothing"),
    ],
)
def test_bad_flags_are_told(rootport: Run, arguments: list[str], says: str) -> None:
    ran = rootport("simulate", *arguments)
    assert ran.code == 2
    assert says in ran.err


def test_a_claim_and_a_template_of_one_name_get_a_cdi_file_each(
    rootport: Run, claims: Callable[[str], Path], tmp_path: Path
) -> None:
    template = Path("examples/gpu.yaml").read_text().replace("name: gpu\n", "name: same\n", 1)
    text = CLAIM.replace("claim-one", "same") + "---\n" + template
    ran = rootport("simulate", "--topology", H100, "--claims", claims(text), "--out", tmp_path / "out", "-o", "json")
    files = {claim["cdi"] for claim in json.loads(ran.out)["claims"]}
    assert len(files) == 2
    assert all((tmp_path / "out" / file).is_file() for file in files)


def test_a_claim_that_cannot_be_prepared_is_told_and_the_others_go_on(
    rootport: Run, claims: Callable[[str], Path], tmp_path: Path
) -> None:
    config = "    config:\n    - requests: [gpu]\n      opaque:\n        driver: rootport.dev\n"
    config += "        parameters: {apiVersion: rootport.dev/v1alpha1, kind: RdmaConfig}\n"
    text = CLAIM.replace("claim-one", "wrong") + config + "---\n" + CLAIM.replace("claim-one", "fine")
    ran = rootport("simulate", "--topology", H100, "--claims", claims(text), "--out", tmp_path / "out")
    assert ran.code == 1
    assert "default/wrong: cannot be prepared: " in ran.out
    assert "RdmaConfig does not fit request gpu" in " ".join(ran.out.split())
    assert len(list(tmp_path.glob("out/nodes/*/cdi/*.json"))) == 1


def test_a_claim_that_is_allocated_keeps_its_device(rootport: Run, claims: Callable[[str], Path]) -> None:
    last = "gpu-000c-00-00-0"
    status = "status: {allocation: {devices: {results: [{request: gpu, driver: rootport.dev, pool: azure-nd-h100-v5, "
    status += f"device: {last}}}]}}}}}}\n"
    text = "---\n".join(
        [*(CLAIM.replace("claim-one", f"c{i}") for i in range(7)), CLAIM.replace("claim-one", "held") + status]
    )
    ran = rootport("simulate", "--topology", H100, "--claims", claims(text), "-o", "json")
    assert ran.code == 0, ran.out
    devices = {claim["name"]: claim["devices"][0]["device"] for claim in json.loads(ran.out)["claims"]}
    assert devices["held"] == last
    assert len(set(devices.values())) == 8


def test_objects_that_are_passed_over_are_told(rootport: Run, claims: Callable[[str], Path]) -> None:
    ran = rootport("simulate", "--topology", H100, "--claims", claims("apiVersion: v1\nkind: Pod\n"))
    assert ran.code == 0
    assert "not used, of the given files: 1 Pod" in ran.err
    assert "no ResourceClaim and no ResourceClaimTemplate" in ran.err


def test_a_long_list_of_errors_is_cut(rootport: Run, claims: Callable[[str], Path]) -> None:
    text = "---\n".join(CLAIM.replace("claim-one", f"c{i}").replace("gpu.root", "gpus.root") for i in range(300))
    ran = rootport("simulate", "--topology", H100, "--claims", claims(text))
    assert len(ran.err.splitlines()) == 21
    assert ran.err.endswith("and 280 more errors\n")


def test_names_are_shown_as_they_are(rootport: Run) -> None:
    ran = rootport("simulate", "--topology", H100, "--gpu-model", "[/x] :smile:", "--gpu-memory", "1Gi",
                   "--claims", "examples/gpu.yaml")  # fmt: skip
    assert ran.code == 0, ran.err
    assert "[/x] :smile:" in ran.out


VF_CLAIM = CLAIM.replace("gpu.rootport.dev", "rdma-vf.rootport.dev")


def test_each_claim_gets_a_vf_of_its_own_until_none_is_left(rootport: Run, claims: Callable[[str], Path]) -> None:
    text = "---\n".join(VF_CLAIM.replace("claim-one", f"c{number}") for number in range(17))
    ran = rootport("simulate", "--topology", H100, "--vfs-per-nic", 2, "--claims", claims(text))
    assert ran.code == 1
    assert "16 of 17 claims allocated" in ran.out
    assert "0 of 16" in ran.out
    assert ran.err.count("Assumed, as you asked: 2 VFs on each RDMA NIC") == 1
    holders = [line.split() for line in ran.out.splitlines() if "◀" in line]
    assert len({next(word for word in line if word.startswith("rdma-vf-")) for line in holders}) == 16


def test_shares_of_a_nic_are_told(rootport: Run, claims: Callable[[str], Path]) -> None:
    asked = "        capacity: {requests: {bandwidth: 30G}}\n"
    text = "---\n".join(
        CLAIM.replace("claim-one", f"c{number}").replace("gpu.rootport", "rdma.rootport") + asked for number in range(4)
    )
    arguments = ("--topology", P4D, "--nic-speed", 100, "--claims", claims(text))
    data = json.loads(rootport("simulate", *arguments, "-o", "json").out)
    given = [Quantity(claim["devices"][0]["consumedCapacity"]["bandwidth"]) for claim in data["claims"]]
    assert given == [Quantity("30G")] * 4
    assert [nic["left"]["bandwidth"] for nic in data["nodes"][0]["sharedNics"].values()] == [10 * 10**9, 70 * 10**9]
    assert "10Gbit/s" in rootport("simulate", *arguments).out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--vfs-per-nic", "0"], "--vfs-per-nic 0: expected a whole number from 1 to 127"),
        (["--vfs-per-nic", "azure-nd-h100-v5-2=4"], "azure-nd-h100-v5-2=...: there is no such node"),
        (["--nic-speed", "fast"], "--nic-speed fast: expected a whole number"),
    ],
    ids=str,
)
def test_bad_assumptions_are_told(rootport: Run, options: list[str], says: str) -> None:
    ran = rootport("simulate", "--topology", H100, *options)
    assert ran.code == 2
    assert says in ran.err
