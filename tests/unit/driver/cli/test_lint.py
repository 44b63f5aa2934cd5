"""`rootport lint`: findings with file and line like a compiler's, exit codes, and the sources of devices."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.machines.topology import read_topology
from driver.layout.names import slice_name
from driver.layout.slices import resource_slices
from resourceclasses import device_classes_text
from tests.support.paths import REPO
from tests.support.topologies import machine_file

P4D = str(machine_file("aws-p4d.24xlarge"))
H100 = str(machine_file("azure-nd-h100-v5"))
FPGA = str(machine_file("fpga-server"))
Run = Callable[..., Any]

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: {kind}
metadata: {{name: train}}
spec:
{spec}
"""
DEVICES = """\
devices:
  requests:
  - name: gpu
    exactly:
      deviceClassName: gpu.rootport.dev
      count: {count}
      selectors:
      - cel:
          expression: {expression}
"""


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(expression: str = '"true"', *, count: int = 1, template: bool = False) -> Path:
        spec = DEVICES.format(expression=expression, count=count)
        spec = indented("spec:\n" + indented(spec, 2), 2) if template else indented(spec, 2)
        path = tmp_path / "claim.yaml"
        kind = "ResourceClaimTemplate" if template else "ResourceClaim"
        path.write_text(CLAIM.format(kind=kind, spec=spec))
        return path

    return write


EXAMPLES = sorted((REPO / "examples").glob("*.yaml"))
BY_ROLE = REPO / "examples/nic-by-role.yaml"


def test_all_examples_are_clean(rootport: Run) -> None:
    ran = rootport("lint", *(path for path in EXAMPLES if path != BY_ROLE), "--strict")
    assert (ran.code, ran.out) == (0, ""), ran.out
    assert "nothing found" in ran.err


def test_the_example_of_administrators_attributes_is_only_warned_of_without_their_policies(rootport: Run) -> None:
    ran = rootport("lint", BY_ROLE)
    warnings = [line for line in ran.out.splitlines() if not line.startswith(" ")]
    assert [line.rpartition(" ")[2] for line in warnings] == ["[unknown-attribute]", "[constraint-attribute]"]
    assert all(": warning: " in line and "unless the administrator's policies publish it" in line for line in warnings)
    assert ran.code == 0


def test_all_examples_are_clean_on_the_machines_of_make_run(rootport: Run, tmp_path: Path) -> None:
    # One machine with whole NICs and one with VFs: a topology file tells of no VFs.
    with_vfs = tmp_path / "with-vfs.yaml"
    with_vfs.write_text(Path(H100).read_text())
    machines = [option for path in (P4D, H100, FPGA, with_vfs) for option in ("--topology", path)]
    flags = ["--gpu-model", "azure-nd-h100-v5=H100", "--gpu-model", "with-vfs=H100", "--vfs-per-nic", "with-vfs=2"]
    flags += ["--nic-speed", "aws-p4d.24xlarge=100", "--nic-speed", "with-vfs=400"]
    gpu_policies = tmp_path / "policies.yaml"
    strategies = Path("examples/policies/strategies.yaml").read_text()
    gpu_policies.write_text(strategies.replace("azure-nd-h100-v5-4", "with-vfs"))
    policies = ("--gpu-policies", gpu_policies, "--device-policies", "examples/policies/device-policies.yaml")
    ran = rootport("lint", *EXAMPLES, *machines, *flags, *policies, "--strict")
    assert (ran.code, ran.out) == (0, ""), ran.out


@pytest.mark.parametrize(
    ("template", "line", "prefix"), [(False, 13, ""), (True, 14, "spec.")], ids=["claim", "template"]
)
def test_a_finding_names_file_line_and_field(
    rootport: Run,
    write: Callable[..., Path],
    template: bool,
    line: int,
    prefix: str,
) -> None:
    path = write("""'device.attributes["rootport.dev"].gpuModel == "x"'""", template=template)
    ran = rootport("lint", path)
    kind = "ResourceClaimTemplate" if template else "ResourceClaim"
    field = f"{prefix}spec.devices.requests[0].exactly.selectors[0].cel.expression"
    first, hint = ran.out.splitlines()
    assert first == (
        f"{path}:{line}: error: {kind} train: {field}: there is no attribute rootport.dev/gpuModel [unknown-attribute]"
    )
    assert hint == "    did you mean rootport.dev/model?"
    assert ran.code == 1
    assert "1 object checked: 1 error, 0 warnings" in ran.err


def test_findings_as_json(rootport: Run, write: Callable[..., Path]) -> None:
    path = write(count=40)
    ran = rootport("lint", path, "-o", "json")
    (found,) = json.loads(ran.out)
    assert found.pop("message").startswith("asks for 40 devices")
    assert found == {
        "file": str(path),
        "line": 6,
        "kind": "ResourceClaim",
        "name": "train",
        "path": "spec.devices.requests",
        "severity": "error",
        "code": "too-many-devices",
        "hint": "split it into several claims of the pod",
    }


def test_warnings_are_errors_only_when_strict(rootport: Run, write: Callable[..., Path]) -> None:
    path = write("""'device.attributes["rootport.dev"].pcieSwitch == "x"'""")
    assert rootport("lint", path).code == 0
    ran = rootport("lint", path, "--strict")
    assert ran.code == 1
    assert "warning" in ran.out


def test_a_machine_tells_what_can_never_fit(rootport: Run, write: Callable[..., Path]) -> None:
    path = write(count=9)
    assert rootport("lint", path).code == 0
    ran = rootport("lint", path, "--topology", H100)
    assert ran.code == 1
    assert "no node has more than 8 [selects-too-few]" in ran.out


def objects_of(*nodes: str) -> list[dict[str, Any]]:
    """What a cluster of such nodes has."""
    slices = [part.to_wire() for node in nodes for part in resource_slices(read_topology(Path(H100), node=node))]
    named = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}} for node in nodes]
    return [*named, *slices, *yaml.safe_load_all(device_classes_text())]


def dumped(folder: Path, objects: list[dict[str, Any]]) -> Path:
    dump = folder / "dump"
    dump.mkdir()
    (dump / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return dump


def test_a_dump_tells_what_can_never_fit(rootport: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    dump = dumped(tmp_path, objects_of("n"))
    assert rootport("lint", write(count=8), "--from", dump).code == 0
    ran = rootport("lint", write(count=9), "--from", dump)
    assert ran.code == 1
    assert "no node has more than 8 [selects-too-few]" in ran.out
    assert "note" not in ran.err


def old(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"apiVersion": "resource.k8s.io/v1beta1"}


def is_for(item: dict[str, Any], node: str) -> bool:
    return bool(item.get("spec", {}).get("nodeName") == node)


@pytest.mark.parametrize(
    ("objects", "code", "words"),
    [
        pytest.param(
            [old(item) if is_for(item, "m") else item for item in objects_of("n", "m")],
            "selects-too-few", [f"ResourceSlice {slice_name('m', '', 0)} could not be read, so this is not certain"],
            id="slices",
        ),
        pytest.param(
            [item for item in objects_of("n", "m") if (item["kind"], item["metadata"]["name"]) != ("Node", "m")],
            "selects-too-few", ["there are ResourceSlices of nodes without a Node object, such as m"],
            id="node",
        ),
        pytest.param(
            [old(item) if item["metadata"]["name"] == "gpu.rootport.dev" else item for item in objects_of("n")],
            "unknown-class", ["DeviceClass gpu.rootport.dev could not be read, so this is not certain"],
            id="class",
        ),
    ],
)  # fmt: skip
def test_what_a_dump_holds_and_nobody_could_read_may_refute_an_error(
    rootport: Run,
    write: Callable[..., Path],
    tmp_path: Path,
    objects: list[dict[str, Any]],
    code: str,
    words: list[str],
) -> None:
    ran = rootport("lint", write(count=9), "--from", dumped(tmp_path, objects))
    assert (ran.code, ran.out.count(f"[{code}]")) == (0, 1)
    assert "1 object checked: 0 errors, 1 warning" in ran.err
    for word in words:
        assert word in ran.out
    assert ("left out: " in ran.err) == any(item["apiVersion"].endswith("v1beta1") for item in objects)


@pytest.mark.parametrize("kind", ["ResourceSlice", "Node"])
def test_of_a_dump_without_devices_nothing_is_said_but_that(
    rootport: Run, write: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    dump = dumped(tmp_path, [item for item in objects_of("n") if item["kind"] != kind])
    ran = rootport("lint", write(count=9), "--from", dump)
    assert (ran.code, ran.out) == (0, "")
    assert f"has no {kind}, so " in ran.err


def test_classes_of_the_files_count(rootport: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    mine = tmp_path / "class.yaml"
    mine.write_text(device_classes_text().split("---")[0].replace("name: gpu.rootport.dev", "name: mine"))
    claim = write(count=9)
    claim.write_text(claim.read_text().replace("deviceClassName: gpu.rootport.dev", "deviceClassName: mine"))
    assert "[unknown-class]" in rootport("lint", claim).out
    assert rootport("lint", claim, mine).code == 0
    ran = rootport("lint", claim, mine, "--topology", H100)
    assert "no node has more than 8 [selects-too-few]" in ran.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(["no-such-file.yaml"], "no-such-file.yaml", id="no-file"),
        pytest.param(["examples", "--from", "x", "--topology", H100], "name one of them", id="two-sources"),
        pytest.param(["examples", "--topology", "no-such.xml"], "no-such.xml", id="no-topology"),
        pytest.param(["examples", "--from", "docs"], "docs", id="no-dump"),
        pytest.param(["examples", "--kubeconfig", "no-such-config"], "no-such-config", id="no-kubeconfig"),
    ],
)
def test_bad_input_is_one_message(rootport: Run, options: list[str], words: str) -> None:
    ran = rootport("lint", *options)
    assert ran.code == 2
    assert not ran.out
    assert words in ran.err


def findings_of(ran: Any) -> list[tuple[str, int, str]]:
    """The findings of ``-o json``: file, line and code."""
    return [(Path(item["file"]).name, item["line"], item["code"]) for item in json.loads(ran.out)]


def test_an_object_that_the_api_server_would_refuse_is_a_finding(rootport: Run, write: Callable[..., Path]) -> None:
    path = write()
    path.write_text(path.read_text().replace("count:", "cuont:"))
    ran = rootport("lint", path)
    assert ran.code == 1
    assert ran.out == (
        f"{path}:10: error: ResourceClaim train: spec.devices.requests[0].exactly.cuont:"
        " unknown field; did you mean count? [invalid-object]\n"
    )


def test_lint_goes_on_after_bad_files_and_bad_objects(
    rootport: Run, write: Callable[..., Path], tmp_path: Path
) -> None:
    good = write(count=40).read_text()
    folder = tmp_path / "repo"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a.yaml").write_text(good.replace("count:", "cuont:"))
    (folder / "b.yaml").write_text(good.replace("{name: train}", "{name: ["))
    (folder / "c.yaml").write_text(
        "---\n".join(
            [
                good.replace("resource.k8s.io/v1", "resource.k8s.io/v1beta1"),
                good.replace("count: 40", "count: 99999999999999999999"),
                "a: 1\na: 2\n",
                good.replace("name: train", "name: c"),
            ]
        )
    )
    (folder / "d.json").write_text('{"apiVersion": "resource.k8s.io/v1", "kind": "Resour')
    (folder / "deep" / "er" / "e.yml").write_text(good.replace("name: train", "name: e"))
    ran = rootport("lint", folder, "-o", "json")
    assert ran.code == 1
    assert findings_of(ran) == [
        ("a.yaml", 10, "invalid-object"),
        ("b.yaml", 5, "unreadable"),
        ("c.yaml", 1, "old-version"),
        ("c.yaml", 25, "unreadable"),
        ("c.yaml", 32, "unreadable"),
        ("c.yaml", 39, "too-many-devices"),
        ("d.json", 1, "unreadable"),
        ("e.yml", 6, "too-many-devices"),
    ]
    messages = {(item["file"].rpartition("/")[2], item["line"]): item["message"] for item in json.loads(ran.out)}
    assert "it is too large" in messages["c.yaml", 25]
    assert "not valid YAML" not in messages["c.yaml", 25]
    assert messages["d.json", 1] == "not valid JSON: it ends in the middle"


def test_the_hint_for_an_old_version_says_what_moved(rootport: Run, tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text(
        "{apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaim, metadata: {name: a}}\n---\n"
        "{apiVersion: resource.k8s.io/v1alpha2, kind: ResourceClass, metadata: {name: b}}\n---\n"
        "{apiVersion: resource.k8s.io/v1alpha3, kind: DeviceTaintRule, metadata: {name: c}}\n"
    )
    claim, device_class = json.loads(rootport("lint", path, "-o", "json").out)
    assert "requests[].exactly.deviceClassName" in claim["hint"]
    assert "write resource.k8s.io/v1 DeviceClass" in device_class["message"]


def test_the_same_object_twice_is_an_error_where_the_two_differ(
    rootport: Run, write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write()
    for name, count in (("one.yaml", 1), ("two.yaml", 1), ("three.yaml", 2)):
        (tmp_path / name).write_text(path.read_text().replace("count: 1", f"count: {count}"))
    ran = rootport("lint", path, tmp_path / "two.yaml", path)
    assert ran.code == 0
    assert f"warning: ResourceClaim train: ResourceClaim default/train is already defined at {path}:1" in ran.out
    ran = rootport("lint", path, tmp_path / "three.yaml")
    assert ran.code == 1
    assert "with other fields [duplicate-object]" in ran.out


def test_files_of_a_folder_that_hold_no_manifest_are_counted_and_named_ones_are_findings(
    rootport: Run, write: Callable[..., Path], tmp_path: Path
) -> None:
    write()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "broken.yaml").write_text("apiVersion: [")
    for name, text in (
        ("values.yaml", "replicas: 3\n"),
        ("Chart.yaml", "apiVersion: v2\nname: chart\n"),
        ("tsconfig.json", '{ // a comment\n  "files": [] }\n'),
        ("list.yaml", "- a\n"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "circle").symlink_to(tmp_path, target_is_directory=True)
    ran = rootport("lint", tmp_path)
    assert (ran.code, ran.out) == (0, "")
    assert "note: 4 files in the folders without an object of Kubernetes" in ran.err
    ran = rootport("lint", tmp_path / "values.yaml", "-o", "json")
    assert ran.code == 1
    assert findings_of(ran) == [("values.yaml", 1, "not-an-object")]


@pytest.mark.parametrize(
    ("name", "kustomization"),
    [
        ("kustomization.yaml", "patches: [{path: more.yaml}, {path: ../shared/each.yaml, target: {kind: x}}]"),
        ("kustomization.yml", 'patchesStrategicMerge: [more.yaml, ../shared/each.yaml, "{a: 1}\\n", 5]'),
        ("Kustomization", "patchesJson6902: [{path: ./more.yaml}, {path: ../shared/each.yaml}, {patch: x}]"),
    ],
)
def test_patches_of_a_kustomization_are_fragments_and_not_looked_at(
    rootport: Run, write: Callable[..., Path], tmp_path: Path, name: str, kustomization: str
) -> None:
    (tmp_path / "base").mkdir()
    write(count=40).rename(tmp_path / "base" / "claim.yaml")
    for folder, patch in (("overlay", "more.yaml"), ("shared", "each.yaml")):
        (tmp_path / folder).mkdir()
        fragment = "{devices: {requests: [{name: gpu, exactly: {count: 2}}]}}"
        (tmp_path / folder / patch).write_text(CLAIM.format(kind="ResourceClaim", spec=f"  {fragment}"))
    without = rootport("lint", tmp_path, "-o", "json")
    assert {item["code"] for item in json.loads(without.out)} == {"invalid-object", "too-many-devices"}
    (tmp_path / "overlay" / name).write_text(f"resources: [../base]\n{kustomization}\n")
    ran = rootport("lint", tmp_path, "-o", "json")
    assert findings_of(ran) == [("claim.yaml", 6, "too-many-devices")]
    assert ran.err.count("note: 2 patch files of kustomizations not looked at") == 1
    ran = rootport("lint", tmp_path / "overlay" / "more.yaml")
    assert (ran.code, ran.out) == (0, "")
    (tmp_path / "overlay" / name).write_text("patches: [")
    assert rootport("lint", tmp_path).code == 1


def test_what_simulate_wrote_is_left_out_of_a_folder_unless_it_is_named(
    rootport: Run, write: Callable[..., Path], tmp_path: Path
) -> None:
    claim = write()
    assert rootport("simulate", "--topology", P4D, "--claims", claim, "--out", tmp_path / "out").code == 0
    ran = rootport("lint", tmp_path)
    assert (ran.code, ran.out) == (0, "")
    assert f"note: not looked at: what simulate --out wrote in {tmp_path / 'out'}; name such a folder" in ran.err
    assert "1 object checked" in ran.err
    assert "not looked at" not in rootport("lint", tmp_path / "out").err


def test_where_nothing_can_be_checked_the_count_says_so(rootport: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("apiVersion: [")
    assert "no object could be checked: 1 error, 0 warnings" in rootport("lint", tmp_path / "broken.yaml").err
    (tmp_path / "other.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n")
    assert "there is nothing to check" in rootport("lint", tmp_path / "other.yaml").err


@pytest.mark.parametrize(
    "text",
    ["replicas: 3\n", "compilerOptions: {}\n", "apiVersion: v1\nkind: List\nitems: []\n"],
    ids=["values", "settings", "empty-list"],
)
def test_a_folder_without_an_object_is_no_answer(rootport: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "values.yaml").write_text(text)
    ran = rootport("lint", tmp_path)
    assert ran.code == 2
    assert "there is nothing to check" in ran.err


@pytest.mark.parametrize(
    "text",
    ["metadata: {name: x}\nspec: [\n", "kind: Pod\n{{ if .x }}\n", '{"kind": "Pod",'],
    ids=["yaml", "template", "json"],
)
def test_a_broken_object_in_a_folder_is_a_finding(rootport: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "pod.yaml").write_text(text)
    ran = rootport("lint", tmp_path, "-o", "json")
    assert ran.code == 1
    assert findings_of(ran)[0][::2] == ("pod.yaml", "unreadable")


def test_a_helm_template_is_told_as_such(rootport: Run, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Values.name }}}\n")
    ran = rootport("lint", tmp_path)
    assert ran.code == 1
    assert "`helm template`" in ran.out


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_linted(
    rootport: Run, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = write(count=40)
    with path.open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        ran = rootport("lint", name)
    assert ran.code == 1
    assert ran.out.startswith("<stdin>:6: error: ResourceClaim train: ")


@pytest.mark.parametrize(("text", "code"), [("", 2), (" \n---\n# nothing\n", 2), ("apiVersion: v1\nkind: Pod\n", 0)])
def test_empty_standard_input_is_no_answer_for_the_command_before_it_may_have_failed(
    rootport: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, code: int
) -> None:
    (tmp_path / "piped").write_text(text)
    with (tmp_path / "piped").open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        ran = rootport("lint", "-")
    assert (ran.code, "<stdin>: there is no document in it" in ran.err) == (code, code == 2)


def test_the_pipe_of_a_process_substitution_is_linted(rootport: Run, write: Callable[..., Path]) -> None:
    text = write(count=40).read_bytes()
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "wb") as pipe:
        pipe.write(text)
        pipe.close()
        ran = rootport("lint", f"/dev/fd/{reader}")
    assert ran.code == 1
    assert "too-many-devices" in ran.out


def test_a_machines_notes_are_told(rootport: Run, write: Callable[..., Path]) -> None:
    ran = rootport("lint", write(), "--topology", H100)
    assert ran.code == 0
    assert "note: azure-nd-h100-v5: The file records no NVLinks" in ran.err
    assert "model: name it with --gpu-model" in ran.err


def test_a_foreign_class_is_a_note_without_a_cluster(rootport: Run, write: Callable[..., Path]) -> None:
    path = write()
    path.write_text(path.read_text().replace("gpu.rootport.dev", "gpu.nvidia.com"))
    ran = rootport("lint", path, "--strict")
    assert ran.code == 0
    assert "note: ResourceClaim train" in ran.out
    assert "0 errors, 0 warnings, 1 note" in ran.err


def test_files_without_claims_are_told(rootport: Run, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
    ran = rootport("lint", path)
    assert ran.code == 0
    assert "no ResourceClaim" in ran.err


POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      resourceClaims:
      - {name: gpu, resourceClaimTemplateName: trian}
      containers:
      - name: main
        resources:
          claims: [{name: gpuu}]
          limits: {nvidia.com/gpu: 1}
"""


def test_pods_of_the_same_files_are_checked(rootport: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(POD)
    ran = rootport("lint", write(template=True), pod, "-o", "json")
    assert ran.code == 1
    assert findings_of(ran) == [
        ("pod.yaml", 8, "pod-claim-missing"),
        ("pod.yaml", 12, "pod-claim-name"),
        ("pod.yaml", 13, "device-plugin-resource"),
    ]
    paths = [item["path"] for item in json.loads(ran.out)]
    assert paths[1] == "spec.template.spec.containers[0].resources.claims[0].name"
    assert paths[2] == "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]"


def test_a_resource_map_says_what_the_claim_of_a_nic_is(rootport: Run, tmp_path: Path) -> None:
    container = {"name": "main", "image": "x", "resources": {"limits": {"openshift.io/mlnxnics": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    nics = tmp_path / "nics.txt"
    nics.write_text(
        "apiVersion: rootport.dev/v1alpha1\nkind: ResourceMap\n"
        "resources: [{name: openshift.io/mlnxnics, deviceClassName: rdma-vf.rootport.dev}]\n"
    )
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(pod))
    assert "nothing says which NICs openshift.io/mlnxnics is" in rootport("lint", path).out
    ran = rootport("lint", path, "--resources", nics)
    assert (ran.code, "as a claim: deviceClassName: rdma-vf.rootport.dev, count: 1" in ran.out) == (0, True), ran.out
    assert rootport("lint", path, "--resources", tmp_path / "none.yaml").code == 2


def test_mig_partitions_of_gpus_whose_mode_is_not_recorded_are_a_warning(rootport: Run) -> None:
    ran = rootport("lint", "examples/mig.yaml", "--topology", P4D)
    assert (ran.code, "0 errors, 1 warning" in ran.err) == (0, True)
    assert "but MIG mode is not recorded, and a GPU older than Hopper has partitions only where it is on" in ran.out
    named = rootport("lint", "examples/mig.yaml", "--topology", H100, "--gpu-model", "L40S")
    assert named.code == 1, "an L40S has no MIG"


def test_a_machine_description_among_the_files_is_not_ignored_in_silence(rootport: Run) -> None:
    alone = rootport("lint", "examples/machines")
    assert alone.code == 2
    assert "there is nothing to check" in alone.err
    assert "--topology takes them" in alone.err
    forgotten = rootport("lint", "examples/gpu.yaml", H100)
    assert forgotten.code == 0
    assert f"note: machine description {H100} is no manifest: --topology takes it" in forgotten.err


def test_what_simulate_wrote_of_sound_files_has_no_findings(rootport: Run, tmp_path: Path) -> None:
    """Pods are written with the containers that use their claims, of claims that no pod names as well."""
    claim = tmp_path / "claim.yaml"
    claim.write_text(Path("examples/gpu.yaml").read_text().partition("---\napiVersion: v1\nkind: Pod")[0])
    out = tmp_path / "out"
    given = ("--claims", claim, "--claims", "examples/half-gpu.yaml", "--claims", "examples/four-gpus.yaml")
    assert rootport("simulate", "--topology", H100, "--gpu-model", "H100", *given, "--out", out).code == 0
    ran = rootport("lint", out)
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize(
    ("kind", "amount"), [("gpu", "core: 200"), ("rdma", "bandwidthRatio: 120")], ids=["core", "bandwidthRatio"]
)
def test_an_amount_that_is_none_is_told_once(rootport: Run, tmp_path: Path, kind: str, amount: str) -> None:
    path = tmp_path / "claim.yaml"
    exactly = f"{{deviceClassName: {kind}.rootport.dev, capacity: {{requests: {{{amount}}}}}}}"
    requests = f"spec: {{devices: {{requests: [{{name: one, exactly: {exactly}}}]}}}}\n"
    path.write_text(f"apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: train}}\n{requests}")
    ran = rootport("lint", path, "--topology", H100)
    assert "[capacity-invalid]" in ran.out
    assert "[capacity-unavailable]" not in ran.out
