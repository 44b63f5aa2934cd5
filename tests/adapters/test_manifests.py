"""Reading claims and classes from files: everything a user can get wrong is one clear message with its line."""

from pathlib import Path

import pytest

from driver.adapters.manifests import MAX_FILE_BYTES, Manifests, read_manifest_text, read_manifests
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


def test_all_errors_of_a_file_are_told_at_once() -> None:
    text = CLAIM.replace("deviceClassName", "className") + "        count: many\n---\n" + CLAIM.replace("spec", "spek")
    lines = error_of(text).splitlines()
    assert [line.split(":")[1] for line in lines] == ["10", "11", "17"]


def test_an_endless_list_of_errors_is_cut() -> None:
    text = CLAIM + "".join(f"        x{i}: 1\n" for i in range(500))
    lines = error_of(text).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "claim.yaml: and 480 more errors"


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
