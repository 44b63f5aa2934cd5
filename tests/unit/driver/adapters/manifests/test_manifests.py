"""Reading claims and classes from files: everything a user can get wrong is one clear message with its line."""

import errno
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.adapters.manifests import claims as manifests
from driver.adapters.manifests import files as manifest_files
from driver.adapters.manifests.claims import (
    MAX_FILE_BYTES,
    Manifests,
    read_all_manifests,
    read_manifest_text,
    read_manifests,
)
from driver.api.validation.errors import FieldError
from driver.errors import InputError

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: one
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.rootport.dev
"""


def error_of(text: str) -> str:
    with pytest.raises(InputError) as caught:
        read_manifest_text(text, "claim.yaml")
    return str(caught.value)


def test_a_claim_gets_the_api_defaults_and_the_default_namespace() -> None:
    [manifest] = read_manifest_text(CLAIM, "claim.yaml").claims
    request = manifest.claim.spec.devices.requests[0].exactly
    assert request is not None
    assert (request.allocation_mode, request.count) == ("ExactCount", 1)
    assert manifest.claim.metadata.namespace == "default"
    assert manifest.document.where == "claim.yaml:1"
    assert not manifest.from_template


def test_a_template_becomes_a_claim_of_its_name() -> None:
    text = """\
# a comment first
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t, namespace: ml}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.rootport.dev}}]}}}
"""
    [manifest] = read_manifest_text(text, "t.yaml").claims
    assert manifest.from_template
    assert (manifest.claim.metadata.namespace, manifest.claim.metadata.name) == ("ml", "t")
    assert manifest.document.where == "t.yaml:2"


def test_a_list_is_read_item_by_item() -> None:
    items = "\n".join("- " + CLAIM.replace("\n", "\n  ").rstrip().replace("name: one", f"name: c{i}") for i in range(2))
    manifests = read_manifest_text(f"apiVersion: v1\nkind: List\nitems:\n{items}\n", "list.yaml")
    assert [manifest.claim.metadata.name for manifest in manifests.claims] == ["c0", "c1"]


def test_what_is_a_string_for_kubectl_is_a_string() -> None:
    text = "kind: Pod\napiVersion: v1\na: [2026-01-01, 1:30, 1:30.5, =]\nb: [1, 0x1F, 1.5, 0777]\n"
    [document] = read_manifest_text(text, "pod.yaml").documents
    assert document.data["a"] == ["2026-01-01", "1:30", "1:30.5", "="]
    assert document.data["b"] == [1, 31, 1.5, 511]


def test_json_is_read_as_well() -> None:
    text = '{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {}}'
    [device_class] = read_manifest_text(text, "class.json").classes
    assert device_class.device_class.metadata.name == "c"


def test_other_kinds_are_counted_and_passed_over() -> None:
    text = f"{CLAIM}---\napiVersion: v1\nkind: Pod\n---\napiVersion: batch/v1\nkind: Job\n---\n# nothing\n"
    manifests = read_manifest_text(text, "all.yaml")
    assert manifests.ignored == {"Pod": 1, "Job": 1}
    assert len(manifests.claims) == 1


def test_a_date_stays_a_string() -> None:
    manifests = read_manifest_text(CLAIM.replace("name: one", "name: one\n  labels: {day: 2026-01-01}"), "claim.yaml")
    assert manifests.claims[0].claim.metadata.labels == {"day": "2026-01-01"}


def test_an_anchor_may_be_used() -> None:
    text = CLAIM.replace("- name: gpu", "- &first\n      name: gpu").replace(
        "gpu.rootport.dev\n", "gpu.rootport.dev\n    - {<<: *first, name: other}\n"
    )
    assert [r.name for r in read_manifest_text(text, "x").claims[0].claim.spec.devices.requests] == ["gpu", "other"]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        pytest.param(
            CLAIM.replace("deviceClassName", "deviceClasName"),
            10,
            "spec.devices.requests[0].exactly.deviceClasName: unknown field; did you mean deviceClassName?",
            id="typo",
        ),
        pytest.param(
            CLAIM.replace("deviceClassName", "device_class_name"), 10, "unknown field", id="Python's spelling"
        ),
        pytest.param(
            CLAIM.replace("exactly:\n        ", ""),
            9,
            "requests[0].deviceClassName: unknown field; in resource.k8s.io/v1 it belongs in exactly: write"
            " exactly.deviceClassName",
            id="the form of v1beta1",
        ),
        pytest.param(
            CLAIM.replace("  devices:\n", "  requests: []\n  devices:\n"),
            6,
            "write devices.requests",
            id="one level up",
        ),
        pytest.param(CLAIM + "        count: many\n", 11, "exactly.count", id="wrong type"),
        pytest.param(CLAIM + "        count: '2'\n", 11, "exactly.count", id="number in quotes"),
        pytest.param(CLAIM + "        count: -1\n", 11, "exactly.count", id="negative count"),
        pytest.param(CLAIM.replace("resource.k8s.io/v1", "resource.k8s.io/v1beta1"), 1, "v1beta1", id="old version"),
        pytest.param(CLAIM.replace("kind: ResourceClaim", "kund: x"), 1, "kind and apiVersion", id="no kind"),
        pytest.param(CLAIM.replace("  name: one", "  name: one\n  name: two"), 5, "twice", id="duplicate field"),
        pytest.param("- a\n- b\n", 1, "expected a Kubernetes object", id="a list at the top"),
        pytest.param("just words\n", 1, "expected a Kubernetes object", id="prose"),
        pytest.param("a: [1, 2\nb: 3\n", 2, "not valid YAML", id="syntax"),
        pytest.param("a: b\n\tc: d\n", 2, "not valid YAML", id="tab"),
        pytest.param("a: !!python/object/apply:os.system [id]\n", 1, "not valid YAML", id="python tag"),
        pytest.param("x: 1\nz: !!bool foo\n", 2, "'foo' cannot be read as bool", id="bool that is none"),
        pytest.param("x: 1\nz: !!int foo\n", 2, "'foo' cannot be read as int", id="int that is none"),
        pytest.param("x: 1\nz: !!int ''\n", 2, "'' cannot be read as int", id="empty int"),
        pytest.param("x: 1\nz: !!float foo\n", 2, "'foo' cannot be read as float", id="float that is none"),
        pytest.param("x: 1\nz: 0b_\n", 2, "'0b_' cannot be read as int", id="digits that are none"),
        pytest.param("x: 1\nz: !!float 1" + ":1" * 999 + ".0\n", 2, "cannot be read as float", id="endless clock"),
        pytest.param("x: 1\nz: " + "9" * 5000 + "\n", 2, "9...' cannot be read as int", id="5,000 digits"),
        pytest.param("x: 1\nz: 0x" + "f" * 5000 + "\n", 2, "f...' cannot be read as int", id="5,000 hex digits"),
        pytest.param("x: 1\nz: !!timestamp foo\n", 2, "timestamp' has no JSON type", id="timestamp"),
        pytest.param("x: 1\nz: !!binary foo\n", 2, "binary' has no JSON type", id="binary"),
        pytest.param("x: 1\nz: !!set {a}\n", 2, "set' has no JSON type", id="set"),
        pytest.param("x: 1\nz: !!map foo\n", 2, "not valid YAML", id="map that is none"),
        pytest.param("apiVersion: v1\nkind: List\nitems: {a: b}\n", 3, "expected a list of objects", id="items a map"),
        pytest.param("apiVersion: v1\nkind: List\nitems:\n- a\n", 4, "items[0]: expected an object", id="item a word"),
        pytest.param(
            CLAIM.replace("name: one", "generateName: one-"),
            3,
            "metadata.name: is required (generateName gives a name only when the object is created; "
            "write a name to simulate it)",
            id="generateName",
        ),
        pytest.param("a: \x07\n", 1, "not valid YAML", id="control character"),
        pytest.param("{1: 2}\n", 1, "must be a string", id="number as a field"),
        pytest.param("x: &a [*a]\n", 1, "part of", id="cyclic alias"),
        pytest.param("[" * 10_000 + "]" * 10_000, 1, "nested deeper", id="10,000 deep"),
        pytest.param(
            "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{n}: &{n} [{','.join([f'*{p}'] * 10)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)),
            6,
            "expands to more than",
            id="alias bomb",
        ),
    ],
)
def test_bad_input_is_one_message_with_its_line(text: str, line: int, says: str) -> None:
    message = error_of(text)
    assert message.startswith(f"claim.yaml:{line}: "), message
    assert says in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("x: !!int 1" + ":59" * 200_000 + "\n", "cannot be read as int", id="a number of base 60"),
        pytest.param(
            CLAIM + "".join(f"        unknown{number}: 1\n" for number in range(20_000)),
            "and 19980 more errors",
            id="20,000 unknown fields",
        ),
    ],
)
def test_what_takes_long_to_be_told_is_told_soon(text: str, says: str) -> None:
    """It took 10 s and more, quadratic in the file's length."""
    begin = time.process_time()
    assert says in error_of(text)
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CLAIM.replace("resource.k8s.io/v1", "resource.k8s.io/v" + "1" * 100_000), id="version"),
        pytest.param(CLAIM.replace("deviceClassName", "d" * 100_000), id="field"),
        pytest.param(CLAIM.replace("name: one", f"name: {'o' * 100_000}"), id="name"),
    ],
)
def test_a_message_about_something_endless_is_short(text: str) -> None:
    assert len(error_of(text)) < 2000


def test_all_errors_of_a_file_are_told_at_once() -> None:
    text = CLAIM.replace("deviceClassName", "className") + "        count: many\n---\n" + CLAIM.replace("spec", "spek")
    lines = error_of(text).splitlines()
    assert [line.split(":")[1] for line in lines] == ["10", "11", "17"]


def test_an_endless_list_of_errors_is_cut() -> None:
    text = CLAIM + "".join(f"        x{i}: 1\n" for i in range(500))
    lines = error_of(text).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 480 more errors"


def test_the_same_claim_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CLAIM)
    (tmp_path / "b.yaml").write_text(CLAIM)
    with pytest.raises(InputError, match=r"b\.yaml:1: ResourceClaim default/one is already defined at .*a\.yaml:1"):
        read_manifests([tmp_path])


def test_a_folder_gives_its_files_in_order(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.json"):
        (tmp_path / name).write_text(CLAIM.replace("name: one", f"name: {name[0]}") if name != "c.json" else "{}\n")
    (tmp_path / "notes.txt").write_text("not a manifest")
    with pytest.raises(InputError, match=r"c\.json:1"):
        read_manifests([tmp_path])
    (tmp_path / "c.json").unlink()
    assert [manifest.claim.metadata.name for manifest in read_manifests([tmp_path]).claims] == ["a", "b"]


def test_unreadable_files_are_told_by_name(tmp_path: Path) -> None:
    def message(path: Path) -> str:
        with pytest.raises(InputError) as caught:
            read_manifests([path])
        return str(caught.value)

    assert "missing.yaml: cannot be read" in message(tmp_path / "missing.yaml")
    (tmp_path / "empty").mkdir()
    assert "no .yaml, .yml or .json file" in message(tmp_path / "empty")
    (tmp_path / "binary.yaml").write_bytes(b"kind: a\n\xff\xfe\n")
    assert "binary.yaml:2: not UTF-8" in message(tmp_path / "binary.yaml")
    (tmp_path / "big.yaml").write_bytes(b"# " + b"x" * 10 * 1024**2)
    assert f"larger than {MAX_FILE_BYTES // 1024**2} MiB" in message(tmp_path / "big.yaml")


def test_an_empty_file_holds_nothing() -> None:
    assert read_manifest_text("", "empty.yaml") == Manifests()


def test_a_list_that_is_merged_keeps_its_own_items() -> None:
    own = CLAIM.replace("\n", "\n  ").rstrip()
    text = f"apiVersion: v1\nkind: List\n<<: {{items: [{{a: b}}, {{c: d}}]}}\nitems:\n- {own}\n"
    [manifest] = read_manifest_text(text, "list.yaml").claims
    assert manifest.document.where == "list.yaml:5"
    wrong = text.replace("kind: ResourceClaim", "kind: ResourceClaim\n  typo: 1")
    assert error_of(wrong).startswith("claim.yaml:7: items[0]: ResourceClaim one: typo: unknown field")


def test_merged_items_are_read() -> None:
    text = f"apiVersion: v1\nkind: List\n<<: {{items: [{CLASS}]}}\n"
    assert len(read_manifest_text(text, "list.yaml").classes) == 1


CLASS = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: c}, spec: {}}"
SPEC = "{devices: {requests: [{name: r, exactly: {deviceClassName: gpu.rootport.dev}}]}}"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("ResourceClaim", SPEC), ("ResourceClaimTemplate", f"{{spec: {SPEC}}}"), ("DeviceClass", "{}")],
)
def test_items_of_a_typed_list_need_no_kind(kind: str, spec: str) -> None:
    text = f"apiVersion: resource.k8s.io/v1\nkind: {kind}List\nitems:\n- metadata: {{name: a}}\n  spec: {spec}\n"
    manifests = read_manifest_text(text, "list.yaml")
    found = [claim.document for claim in manifests.claims] + [each.document for each in manifests.classes]
    assert [(document.kind, document.where) for document in found] == [(kind, "list.yaml:4")]


def test_a_list_in_a_list_is_read() -> None:
    inner = f"{{apiVersion: v1, kind: List, items: [{CLASS}]}}"
    assert len(read_manifest_text(f"{{apiVersion: v1, kind: List, items: [{inner}]}}", "list.yaml").classes) == 1


@pytest.mark.parametrize("items", ["", "items:\n", "items: []\n"], ids=["absent", "null", "empty"])
def test_a_list_without_items_is_empty(items: str) -> None:
    assert read_manifest_text(f"apiVersion: v1\nkind: List\n{items}", "list.yaml") == Manifests()


def test_nameless_claims_are_told_so_and_are_no_duplicates() -> None:
    nameless = CLAIM.replace("name: one", "labels: {}")
    lines = error_of(f"{nameless}---\n{nameless}").splitlines()
    assert [line.split(":")[1] for line in lines] == ["3", "14"]
    assert all("name or generateName is required" in line for line in lines)


def test_two_claims_of_one_uid_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CLAIM.replace("name: one", "name: one\n  uid: u"))
    (tmp_path / "b.yaml").write_text(CLAIM.replace("name: one", "name: two\n  uid: u"))
    says = r"b\.yaml:5: ResourceClaim two: metadata\.uid: uid u is already that of default/one at .*a\.yaml:1"
    with pytest.raises(InputError, match=says):
        read_manifests([tmp_path])


@pytest.mark.parametrize(
    ("version", "kind", "line", "meant"),
    [
        pytest.param("resource.k8s.io/v1", "ResourceClam", 2, "ResourceClaim", id="kind"),
        pytest.param("resource.k8s.io/v1", "resourceclaim", 2, "ResourceClaim", id="case"),
        pytest.param("resource.k8s.io/v1", "DeviceClassLst", 2, "DeviceClassList", id="list"),
        pytest.param("resource.k8s/v1", "ResourceClaimTemplate", 1, "ResourceClaimTemplate", id="short group"),
        pytest.param("resource.k8.io/v1", "DeviceClass", 1, "DeviceClass", id="group"),
        pytest.param("v1", "ResourceClaim", 1, "ResourceClaim", id="no group"),
        pytest.param("v1", "ResourceClaimList", 1, "ResourceClaimList", id="list in no group"),
    ],
)
def test_a_slip_in_kind_or_group_is_not_passed_over(version: str, kind: str, line: int, meant: str) -> None:
    message = error_of(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n")
    assert message.startswith(f"claim.yaml:{line}: {kind} x: ")
    assert message.endswith(f"is not known; did you mean kind {meant} of apiVersion resource.k8s.io/v1?")


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("resource.k8s.io/v1", "ResourceSlice"),
        ("resource.k8s.io/v1", "ResourceSliceList"),
        ("vendor.example/v1", "DeviceClass"),
        ("storage.k8s.io/v1", "StorageClass"),
        ("node.k8s.io/v1", "RuntimeClass"),
        ("v1", "PersistentVolumeClaim"),
        ("v1", "ResourceQuota"),
    ],
)
def test_kinds_that_only_resemble_ours_are_passed_over(version: str, kind: str) -> None:
    assert read_manifest_text(f"{{apiVersion: {version}, kind: {kind}}}", "x.yaml").ignored == {kind: 1}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("name: one", 'name: "a\\e[2J"', id="name"),
        pytest.param("deviceClassName", '"a\\e[2J"', id="field"),
        pytest.param("kind: ResourceClaim", 'kind: "ResourceClaim\\e[2J"', id="kind"),
        pytest.param("resource.k8s.io/v1", '"resource.k8s.io/v\\e[2J"', id="version"),
        pytest.param("ResourceClaim\n", '"a\\e"\nz: !!int "\\e"\n', id="scalar"),
    ],
)
def test_control_characters_reach_the_terminal_escaped(old: str, new: str) -> None:
    message = error_of(CLAIM.replace(old, new))
    assert message.replace("\n", " ").isprintable()
    assert r"\x1b" in message


def test_a_passed_over_kind_is_escaped() -> None:
    assert list(read_manifest_text('{apiVersion: v1, kind: "a\\e"}', "x.yaml").ignored) == [r"'a\x1b'"]


def test_paths_that_cannot_be_asked_about_are_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"x{300}: cannot be read: File name too long"):
        read_manifests([Path("x" * 300)])

    def refuse(_: Path) -> list[Path]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)  # the tests may run as root, whom no folder refuses
    with pytest.raises(InputError, match=f"{tmp_path}: cannot be read: Permission denied"):
        read_manifests([tmp_path])


def test_a_reader_that_goes_on_keeps_what_it_can_use(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("x: !!bool foo\n---\n" + CLAIM + "---\na: {b: &c [*c]}\n---\n" + CLAIM)
    found = read_all_manifests([tmp_path])
    assert [manifest.document.where.rpartition(":")[2] for manifest in found.claims] == ["3", "16"]
    assert [(problem.kind.value, problem.line) for problem in found.problems] == [
        ("unreadable", 1),
        ("unreadable", 14),
        ("duplicate-object", 16),
    ]
    assert found.problems[2].is_harmless


def test_a_reader_that_goes_on_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CLAIM + "".join(f"        x{i}: 1\n" for i in range(500))
    (tmp_path / "a.yaml").write_text(text)
    found = read_all_manifests([tmp_path]).problems
    assert len(found) == 100
    assert found[-1].message == "and 401 more"
    (tmp_path / "b.yaml").write_text(CLAIM)
    monkeypatch.setattr(manifests, "_MAX_BYTES", len(text))
    found = read_all_manifests([tmp_path]).problems
    assert (found[-1].source, found[-1].message.partition(":")[0]) == (str(tmp_path / "b.yaml"), "not read")
    monkeypatch.setattr(manifest_files, "_MAX_FILES", 1)
    with pytest.raises(InputError, match="more than 1 files"):
        read_all_manifests([tmp_path])


def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text(CLAIM)
    (tmp_path / "closed").mkdir()
    whole = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path.name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied")
        return whole(path)

    monkeypatch.setattr(Path, "iterdir", refuse)  # the tests may run as root, whom no folder refuses
    found = read_all_manifests([tmp_path])
    assert len(found.claims) == 1
    assert [str(problem) for problem in found.problems] == [f"{tmp_path / 'closed'}: cannot be read: Permission denied"]


def test_a_capacitys_name_stands_in_brackets_whoever_refuses_it() -> None:
    text = CLAIM + "        capacity: {requests: {memory: %s}}\n"
    assert "exactly.capacity.requests[memory]: " in error_of(text % "40GB")
    [manifest] = read_manifest_text(text % "40Gi", "x").claims
    path = "spec.devices.requests[0].exactly.capacity.requests[memory]"
    assert manifest.message(FieldError(path, "is wrong")) == f"x:11: ResourceClaim one: {path}: is wrong"
