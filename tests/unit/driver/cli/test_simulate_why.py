"""`rootport simulate` says why a claim has no node, as `rootport explain` says it of what `--out` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.topologies import machine_file, nccl_file

H100 = nccl_file("azure-nd-h100-v5")
ARGUMENTS = ("--topology", H100, "--gpu-model", "H100", "--gpu-memory", "80Gi")
Run = Callable[..., Any]


def claim(name: str, device_class: str = "gpu", **request: object) -> str:
    exactly = {"deviceClassName": f"{device_class}.rootport.dev"} | request
    requests = [{"name": "gpu", "exactly": exactly}]
    return json.dumps(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": requests}},
        }
    )


WRONG_NAMES = claim("typo", capacity={"requests": {"cores": "50", "mem": "40Gi"}})


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(*objects: str) -> Path:
        path = tmp_path / "claims.yaml"
        path.write_text("\n---\n".join(objects))
        return path

    return write


def claims_of(ran: Any) -> dict[str, dict[str, Any]]:
    return {claim["name"]: claim for claim in json.loads(ran.out)["claims"]}


def test_a_slip_in_a_capacitys_name_ends_with_the_name_that_was_meant(
    rootport: Run, write: Callable[..., Path]
) -> None:
    ran = rootport("simulate", *ARGUMENTS, "--claims", write(WRONG_NAMES), "-o", "json")
    assert ran.code == 1
    told = claims_of(ran)["typo"]
    assert told["reason"] == "CapacityUnknown"
    assert told["message"].startswith("claim default/typo, request gpu asks for 1 device")
    assert "did you mean core and memory?" in told["message"]
    table = rootport("simulate", *ARGUMENTS, "--claims", write(WRONG_NAMES)).out
    assert "default/typo: no node fits: CapacityUnknown" in table
    assert "did you mean core and memory?" in " ".join(table.split())


def test_the_nearest_miss_is_told(rootport: Run, write: Callable[..., Path]) -> None:
    nine = write(claim("nine", count=9))
    told = claims_of(rootport("simulate", *ARGUMENTS, "--claims", nine, "-o", "json"))["nine"]
    assert "8 devices" in told["nearestMiss"]
    assert f"nearest miss: {told['nearestMiss']}"[:60] in rootport("simulate", *ARGUMENTS, "--claims", nine).out


def test_one_why_is_printed_once_for_all_claims_that_it_holds_for(rootport: Run, write: Callable[..., Path]) -> None:
    claims = write(*(claim(f"fpga-{number}", "fpga") for number in range(12)))
    out = rootport("simulate", *ARGUMENTS, "--claims", claims).out
    assert out.count("the class selects 0 of the 224 devices") == 1
    assert "default/fpga-0, default/fpga-1, " in out
    assert "and 6 more: no node fits: ClassSelectsTooFew" in " ".join(out.split())


def test_how_many_are_asked_for_is_told_where_all_of_a_paragraph_ask_for_as_many(
    rootport: Run, write: Callable[..., Path]
) -> None:
    def told(*counts: int) -> str:
        claims = write(*(claim(f"c{number}", count=count) for number, count in enumerate(counts)))
        return " ".join(rootport("simulate", *ARGUMENTS, "--claims", claims).out.split())

    assert "9 devices are asked for; on node azure-nd-h100-v5, the class selects 8 of the" in told(9, 9)
    assert "ClassSelectsTooFew on node azure-nd-h100-v5, the class selects 8 of the" in told(9, 10)


def test_claims_that_ask_for_the_same_share_an_answer_and_say_whose(rootport: Run, write: Callable[..., Path]) -> None:
    claims = write(claim("one", "fpga"), claim("two", "fpga"), claim("other", "fpga", count=2))
    told = claims_of(rootport("simulate", *ARGUMENTS, "--claims", claims, "-o", "json"))
    assert {name: claim["reason"] for name, claim in told.items()} == dict.fromkeys(told, "ClassSelectsTooFew")
    assert told["two"]["sameAs"] == "default/one"
    assert told["two"]["message"] == told["one"]["message"]
    assert "sameAs" not in told["one"] | told["other"]


def test_explain_says_the_same_of_what_out_wrote(rootport: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = rootport("simulate", "--topology", H100, "--nodes", 2, "--claims", "examples", "--out", out, "-o", "json")
    told = json.loads(ran.out)["claims"]
    pending = [claim for claim in told if claim["node"] is None]
    assert "half-gpu" in {claim["name"] for claim in pending}
    for claim in told:
        name = f"{claim['namespace']}/{claim['name']}"
        explained = rootport("explain", "claim", name, "--from", out, "-o", "json")
        answer = json.loads(explained.out)
        if claim in pending:
            assert explained.code == 1
            assert answer["reason"] == claim["reason"], name
            if "sameAs" not in claim:
                assert answer["findings"][0]["message"] == claim["message"]
        else:
            assert (explained.code, answer["reason"]) == (0, "Allocated"), name
        assert answer["notes"] == []


def test_out_has_a_pod_for_a_claim_that_no_pod_uses(rootport: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    rootport("simulate", *ARGUMENTS, "--claims", write(claim("nine", count=9), claim("one")), "--out", out)
    nine = rootport("explain", "pod", "nine", "--from", out, "-o", "json")
    assert json.loads(nine.out)["reason"] == "ClassSelectsTooFew"
    one = json.loads(rootport("explain", "pod", "one", "--from", out, "-o", "json").out)
    assert (one["fits"], one["reason"]) == (True, "Allocated")


def test_what_out_wrote_is_a_whole_cluster_and_no_dump_that_lacks_something(
    rootport: Run, write: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "what came out"
    rootport("simulate", *ARGUMENTS, "--claims", write(claim("nine", count=9)), "--out", out)
    pending = rootport("explain", "--from", out)
    assert (pending.code, "note:" in pending.out) == (1, False)
    assert f"`rootport explain pod default/nine --from '{out}'` tells more" in pending.out
    rootport("simulate", *ARGUMENTS, "--out", out)
    nothing = rootport("explain", "--from", out)
    assert (nothing.code, nothing.out.startswith("Nothing is pending: ")) == (0, True)


def test_a_claim_that_no_node_can_prepare_is_told_so_by_both(
    rootport: Run, write: Callable[..., Path], tmp_path: Path
) -> None:
    wrong = json.loads(claim("wrong"))
    parameters = {"apiVersion": "rootport.dev/v1alpha1", "kind": "RdmaConfig"}
    wrong["spec"]["devices"]["config"] = [
        {"requests": ["gpu"], "opaque": {"driver": "rootport.dev", "parameters": parameters}}
    ]
    out = tmp_path / "out"
    ran = rootport("simulate", *ARGUMENTS, "--claims", write(json.dumps(wrong)), "--out", out, "-o", "json")
    told = claims_of(ran)["wrong"]
    assert (told["reason"], told["node"]) == ("PrepareFails", "azure-nd-h100-v5")
    explained = json.loads(rootport("explain", "claim", "default/wrong", "--from", out, "-o", "json").out)
    assert explained["reason"] == "PrepareFails"
    assert told["message"].removeprefix("cannot be prepared: ") in explained["findings"][0]["message"]


def test_pods_that_name_what_is_not_there_share_a_paragraph_with_the_name_that_was_meant(
    rootport: Run, write: Callable[..., Path]
) -> None:
    template = json.loads(claim("pairs"))
    template |= {"kind": "ResourceClaimTemplate", "spec": {"spec": template["spec"]}}

    def deployment(name: str, **wanted: str) -> str:
        pod = {"containers": [{"name": "main", "image": "x"}], "resourceClaims": [{"name": "gpu", **wanted}]}
        spec = {"replicas": 17, "selector": {}, "template": {"spec": pod}}
        return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})

    given = write(
        json.dumps(template),
        claim("shared"),
        deployment("one", resourceClaimTemplateName="piars"),
        deployment("two", resourceClaimName="share"),
    )
    out = rootport("simulate", *ARGUMENTS, "--claims", given).out
    told = " ".join(out.split())
    assert out.count("ClaimTemplateMissing") == out.count("ClaimMissing") == 1
    assert "and 11 more: ClaimTemplateMissing makes its claim gpu of ResourceClaimTemplate default/piars" in told
    assert "which is not there (did you mean pairs?)" in told
    assert "names claim default/share, which is not there (did you mean shared?)" in told


def test_what_a_node_cannot_prepare_is_told_within_the_terminals_width(
    rootport: Run, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = json.loads(claim("wrong"))
    parameters = {"apiVersion": "rootport.dev/v1alpha1", "kind": "RdmaConfig"}
    wrong["spec"]["devices"]["config"] = [
        {"requests": ["gpu"], "opaque": {"driver": "rootport.dev", "parameters": parameters}}
    ]
    monkeypatch.setenv("COLUMNS", "80")
    out = rootport("simulate", *ARGUMENTS, "--claims", write(json.dumps(wrong))).out
    told = out[out.index("default/wrong: cannot be prepared:") :]
    assert max(map(len, told.splitlines())) <= 80


def test_an_interface_that_no_topology_file_names_is_assumed_and_a_note_says_so(
    rootport: Run, write: Callable[..., Path]
) -> None:
    moved = json.loads(claim("moved", "rdma"))
    parameters = {"apiVersion": "rootport.dev/v1alpha1", "kind": "RdmaConfig", "interface": {}}
    moved["spec"]["devices"]["config"] = [{"opaque": {"driver": "rootport.dev", "parameters": parameters}}]
    given = write(json.dumps(moved), claim("other", "rdma"))
    ran = rootport("simulate", *ARGUMENTS, "--claims", given)
    assert ran.code == 0, ran.out
    told = "Topology files name no network interfaces: each NIC is taken to have one, to be moved"
    assert told in ran.err
    of_claims = claims_of(rootport("simulate", *ARGUMENTS, "--claims", given, "-o", "json"))
    assert {name: len(one.get("notes", ())) for name, one in of_claims.items()} == {"moved": 3, "other": 1}
    of_vf = write(json.dumps(moved).replace("rdma.rootport.dev", "rdma-vf.rootport.dev"))
    with_vfs = rootport("simulate", *ARGUMENTS, "--vfs-per-nic", "2", "--claims", of_vf)
    assert (with_vfs.code, "name no network interfaces" in with_vfs.err) == (0, False)


@pytest.mark.parametrize("kind", ["gpu-ratio", "mig"])
def test_parts_of_gpus_of_unknown_model_end_with_the_option_that_names_it(
    rootport: Run, write: Callable[..., Path], kind: str
) -> None:
    given = write(claim("part", kind))
    ran = claims_of(rootport("simulate", "--topology", H100, "--claims", given, "-o", "json"))["part"]
    assert ran["reason"] == "ClassSelectsTooFew"
    assert "--gpu-model" in ran["nearestMiss"]
    too_many = write(claim("part", kind, count=99))
    known = claims_of(rootport("simulate", *ARGUMENTS, "--claims", too_many, "-o", "json"))["part"]
    assert "--gpu-model" not in known.get("nearestMiss", "")


def test_a_note_on_the_topology_file_is_printed_once(rootport: Run) -> None:
    ran = rootport("simulate", "--topology", H100, "--nodes", 4)
    assert ran.err.count("The file does not tell the GPUs' model") == 1
    assert "nodes)" not in ran.err
    assert "note:" not in ran.out


@pytest.mark.parametrize(
    ("wanted", "option", "told"),
    [
        (claim("part", "rdma-vf"), "--vfs-per-nic", "2"),
        (claim("part", "rdma", capacity={"requests": {"bandwidth": "25G"}}), "--nic-speed", "400"),
    ],
    ids=["VFs", "bandwidth"],
)
def test_what_of_nics_no_file_tells_ends_with_the_option_that_does(
    rootport: Run, write: Callable[..., Path], wanted: str, option: str, told: str
) -> None:
    given = ("simulate", *ARGUMENTS, "--claims", write(wanted), "-o", "json")
    assert option in claims_of(rootport(*given))["part"]["nearestMiss"]
    assert claims_of(rootport(*given, option, told))["part"]["node"] is not None


def test_notes_stand_behind_the_result(rootport: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("driver.cli.simulate.print_report", lambda *_: told.append("result"))
    monkeypatch.setattr("driver.cli.simulate.print_note", told.append)
    rootport("simulate", *ARGUMENTS, "--claims", "examples/gpu.yaml")
    assert told[0] == "result"
    assert len(told) > 2


def test_the_rest_of_a_long_list_is_told_in_plain_english(rootport: Run, write: Callable[..., Path]) -> None:
    claims = write(*(claim(f"all-{number}", count=8) for number in range(6)))
    assert "... and 2 more nodes with claims;" in rootport("simulate", *ARGUMENTS, "--nodes", 6, "--claims", claims).out


@pytest.mark.parametrize(
    ("kind", "expression", "unrecorded"),
    [
        ("rdma", 'OWN.linkState == "active"', "linkState"),
        ("rdma", 'OWN.rdmaDevice == "mlx5_0"', "names of the RDMA devices"),
        ("gpu", 'OWN.uuid == "GPU-1"', "driver"),
        ("gpu", 'OWN.driverVersion.isGreaterThan(semver("550.0.0"))', "driver"),
        ("gpu", 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"', "PCIe roots"),
    ],
)
def test_what_a_topology_file_does_not_record_leaves_it_unknown_whether_a_claim_fits(
    rootport: Run, write: Callable[..., Path], kind: str, expression: str, unrecorded: str
) -> None:
    selector = {"cel": {"expression": expression.replace("OWN", 'device.attributes["rootport.dev"]')}}
    given = write(claim("one", kind, selectors=[selector]))
    ran = rootport("simulate", *ARGUMENTS, "--claims", given, "-o", "json")
    [answer] = claims_of(ran).values()
    assert (ran.code, answer["known"]) == (1, False)
    assert unrecorded in answer["unrecorded"]
    assert "nearestMiss" not in answer, "it may fit as it is"
    shown = rootport("simulate", *ARGUMENTS, "--claims", given).out
    assert "default/one: not known whether a node fits: Selector" in shown
    assert "0 of 1 claim allocated, not known of 1 whether it fits" in shown
    assert "rootport explain" not in shown, "which does not know what the file leaves out"


def test_a_constraint_on_what_is_not_recorded_is_not_known_either(rootport: Run, write: Callable[..., Path]) -> None:
    wanted = json.loads(claim("two", count=2))
    wanted["spec"]["devices"]["constraints"] = [{"matchAttribute": "rootport.dev/nvlinkDomain"}]
    ran = rootport("simulate", *ARGUMENTS, "--claims", write(json.dumps(wanted)), "-o", "json")
    assert claims_of(ran)["two"]["unrecorded"] == "no NVLinks are recorded"
    cards = ("--topology", H100, "--gpu-model", "L40S", "--claims", write(json.dumps(wanted)), "-o", "json")
    assert "known" not in claims_of(rootport("simulate", *cards))["two"], "an L40S has none"


def test_a_quad_that_is_not_free_is_told_by_what_it_lacks_and_behind_nvswitches_what_to_ask_for(
    rootport: Run, write: Callable[..., Path]
) -> None:
    quad = json.loads(claim("quad", count=4))
    quad["spec"]["devices"]["constraints"] = [{"matchAttribute": "rootport.dev/nvlinkQuad"}]
    of_the_other = {"cel": {"expression": 'device.attributes["rootport.dev"].index == 6'}}
    singles = (claim("any"), claim("other", selectors=[of_the_other]))
    given = write("\n---\n".join([*singles, json.dumps(quad)]))
    ran = rootport("simulate", "--topology", machine_file("dgx-1-v100"), "--claims", given, "-o", "json")
    said = claims_of(ran)["quad"]["message"]
    assert 'the best is "0000:06:00.0": request gpu needs 4, of which 3 are free and 4 are there; in use by' in said
    assert "claim default/any" in said

    ran = rootport("simulate", "--topology", machine_file("dgx-2"), "--claims", given, "-o", "json")
    assert "(match rootport.dev/nvlinkDomain for GPUs that any links join)" in claims_of(ran)["quad"]["message"]


def test_mig_mode_of_old_gpus_is_not_recorded(rootport: Run) -> None:
    old = ("simulate", "--topology", nccl_file("aws-p4d.24xlarge"), "--gpu-model", "A100-SXM4-40GB")
    answer = claims_of(rootport(*old, "--claims", "examples/mig.yaml", "-o", "json"))["mig"]
    assert (answer["reason"], answer["known"]) == ("ClassSelectsTooFew", False)
    assert "MIG mode is not recorded" in answer["unrecorded"]


def test_a_mistake_beside_what_is_not_recorded_stays_a_mistake(rootport: Run, write: Callable[..., Path]) -> None:
    wanted = json.loads(claim("one", "rdma"))
    more = {"name": "many", "exactly": {"deviceClassName": "gpu.rootport.dev", "count": 9}}
    selector = {"cel": {"expression": '"linkState" in device.attributes["rootport.dev"]'}}
    wanted["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [selector]
    wanted["spec"]["devices"]["requests"].append(more)
    ran = rootport("simulate", *ARGUMENTS, "--claims", write(json.dumps(wanted)), "-o", "json")
    assert "known" not in claims_of(ran)["one"]


@pytest.mark.parametrize(
    ("wanted", "says", "option"),
    [
        (claim("one", "rdma", capacity={"requests": {"bandwidth": "25G"}}),
         "; they have bandwidthRatio; a NIC has one of the two, by its policy", "--nic-speed"),
        (claim("one", capacity={"requests": {"core": "50", "memory": "39Gi"}}),
         "; gpu devices have it where it is known", "--gpu-memory"),
    ],
    ids=["bandwidth", "memory"],
)  # fmt: skip
def test_a_capacity_that_is_not_known_of_these_devices_is_not_said_to_be_of_others(
    rootport: Run, write: Callable[..., Path], wanted: str, says: str, option: str
) -> None:
    ran = rootport("simulate", "--topology", H100, "--claims", write(wanted), "-o", "json")
    answer = claims_of(ran)["one"]
    assert says in answer["message"]
    assert option in answer["nearestMiss"]


def test_explain_shows_all_of_why_a_claim_cannot_be_prepared_and_says_it_once(
    rootport: Run, write: Callable[..., Path], tmp_path: Path
) -> None:
    name = "w" * 200
    wrong = json.loads(claim(name))
    parameters = {"apiVersion": "rootport.dev/v1alpha1", "kind": "RdmaConfig"}
    wrong["spec"]["devices"]["config"] = [
        {"requests": ["gpu"], "opaque": {"driver": "rootport.dev", "parameters": parameters}}
    ]
    out = tmp_path / "out"
    ran = rootport("simulate", *ARGUMENTS, "--claims", write(json.dumps(wrong)), "--out", out, "-o", "json")
    problem = claims_of(ran)[name]["message"].removeprefix("cannot be prepared: ")
    shown = " ".join(rootport("explain", "pod", name, "--from", out).out.split())
    assert len(shown) > 700
    assert f"which cannot prepare its claims: {problem}" in shown
