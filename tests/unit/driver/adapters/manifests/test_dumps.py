"""A cluster from the files that kubectl wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.files.yaml_values import read_values
from driver.adapters.manifests.dumps import read_dumps
from driver.allocator.ledger import Holding
from driver.api.resource_v1 import ResourceSlice
from driver.errors import InputError
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from tests.support.paths import REPO
from tests.support.slice_validation import validate_slices

EXAMPLE = REPO / "examples" / "explain"


def objects() -> list[dict[str, Any]]:
    return [
        item
        for file in sorted(EXAMPLE.glob("*.yaml"))
        for item in yaml.safe_load(file.read_text().replace("2026-01-01T00:00:00Z", "then"))["items"]
    ]


def as_json_list(folder: Path) -> None:
    (folder / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects()}))


def as_documents(folder: Path) -> None:
    (folder / "all.yml").write_text("---\n" + "---\n".join(yaml.safe_dump(item) for item in objects()) + "---\n")


def as_single_files(folder: Path) -> None:
    for number, item in enumerate(objects()):
        (folder / f"{number}.json").write_text(json.dumps(item, indent=1))


def as_joined_json(folder: Path) -> None:
    (folder / "all.json").write_text("\n".join(map(json.dumps, objects())))


def as_folders(folder: Path) -> None:
    for item in objects():
        below = folder / item["metadata"].get("namespace", "_cluster") / item["kind"]
        below.mkdir(parents=True, exist_ok=True)
        (below / f"{item['metadata']['name']}.yaml").write_text(yaml.safe_dump(item))


def as_typed_lists(folder: Path) -> None:
    """As the API server answers a list: its items do not say what they are."""
    kinds = {(item["apiVersion"], item["kind"]) for item in objects()}
    for version, kind in kinds:
        items = [
            {key: part for key, part in item.items() if key not in ("apiVersion", "kind")}
            for item in objects()
            if item["kind"] == kind
        ]
        (folder / f"{kind}.json").write_text(
            json.dumps({"apiVersion": version, "kind": f"{kind}List", "metadata": {}, "items": items})
        )


@pytest.mark.parametrize(
    "write", [as_json_list, as_documents, as_single_files, as_joined_json, as_folders, as_typed_lists]
)
def test_every_form_of_a_dump_is_the_same_cluster(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    state, expected = read_dumps(tmp_path), read_dumps(EXAMPLE)
    assert state.notes == expected.notes == []
    assert state.pending() == expected.pending() == ("ml/train", "ml/typo")
    assert sorted(state.claim_keys()) == sorted(expected.claim_keys())
    assert sorted(state.pod_keys()) == sorted(expected.pod_keys())
    assert dict(state.nodes) == dict(expected.nodes)
    assert sorted(state.classes) == ["gpu.rootport.dev", "rdma.rootport.dev"]
    assert _held(state) == _held(expected)
    assert any(_held(state).values())


def _held(state: ClusterState) -> dict[str, tuple[Holding, ...]]:
    return {key: claim.holds for key in state.claim_keys() if (claim := state.claim(key))}


def test_one_file_is_a_dump_as_well(tmp_path: Path) -> None:
    as_json_list(tmp_path)
    assert read_dumps(tmp_path / "all.json").pending() == ("ml/train", "ml/typo")


def test_the_slices_of_the_example_are_what_the_api_server_takes() -> None:
    slices = [ResourceSlice.model_validate(item) for item in objects() if item["kind"] == "ResourceSlice"]
    assert len(slices) == 3
    assert validate_slices(slices) == ()


def test_other_kinds_are_passed_over(tmp_path: Path) -> None:
    as_json_list(tmp_path)
    (tmp_path / "others.yaml").write_text(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {}\n"
        "---\napiVersion: example.com/v1\nkind: ResourceClaim\nmetadata: {name: not-ours, namespace: ml}\n"
    )
    (tmp_path / "notes.txt").write_text("{not read")
    state = read_dumps(tmp_path)
    assert state.notes == []
    assert state.claim("ml/not-ours") is None


def test_what_cannot_be_used_is_told_once_for_each_kind(tmp_path: Path) -> None:
    old = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    nameless = {"apiVersion": "v1", "kind": "Node", "metadata": {}}
    more = [old, old, nameless, {"metadata": {"name": "what"}}]
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects() + more}))
    notes = "\n".join(read_dumps(tmp_path).notes)
    command = "kubectl get resourceclaims.v1.resource.k8s.io -A -o json"
    assert f"ResourceClaim of resource.k8s.io/v1beta1, which is not read: {command} (2)" in notes
    assert "Node without a name (1)" in notes
    assert "no kind or apiVersion (1)" in notes


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_v1beta2_is_read_for_it_has_the_fields_of_v1(tmp_path: Path, version: str) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects()})
    (tmp_path / "a.json").write_text(text.replace("resource.k8s.io/v1", f"resource.k8s.io/{version}"))
    state = read_dumps(tmp_path)
    train = state.claim("ml/train")
    assert train is not None
    assert (train.unreadable, state.notes) == ("", [])


@pytest.mark.parametrize("order", [1, -1], ids=["the old one first", "the old one last"])
def test_an_object_that_is_there_in_two_versions_is_read_in_the_one_that_can_be(tmp_path: Path, order: int) -> None:
    claims = [item for item in objects() if item["kind"] == "ResourceClaim"]
    old = [item | {"apiVersion": "resource.k8s.io/v1beta1"} for item in claims]
    for name, items in zip(("a", "b")[::order], (old, claims), strict=True):
        (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    state = read_dumps(tmp_path)
    assert state.claim("ml/train") is not None
    assert state.left_out.why(Kind.CLAIM, "ml/train") == ""


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("DeviceClass", "kubectl get deviceclasses.v1.resource.k8s.io -o json"),
        ("ResourceSlice", "kubectl get resourceslices.v1.resource.k8s.io -o json"),
        ("NodeInventory", "kubectl get nodeinventories.v1alpha1.rootport.dev -o json"),
    ],
)
def test_an_object_of_an_old_version_is_left_out_with_what_dumps_it_anew(
    tmp_path: Path, kind: str, command: str
) -> None:
    group = "rootport.dev" if kind == "NodeInventory" else "resource.k8s.io"
    old = {"apiVersion": f"{group}/v1alpha2", "kind": kind, "metadata": {"name": "x"}}
    (tmp_path / "a.json").write_text(json.dumps(old))
    why = read_dumps(tmp_path).left_out.why(Kind(kind), "x")
    assert why == f"the dump has it as {group}/v1alpha2, which is not read: {command}"


def test_of_a_template_the_name_alone_is_read_in_any_version(tmp_path: Path) -> None:
    old = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaimTemplate"}
    (tmp_path / "a.json").write_text(json.dumps(old | {"metadata": {"namespace": "ml", "name": "t"}}))
    assert read_dumps(tmp_path).templates == {"ml/t"}


@pytest.mark.parametrize("kind", ["ResourceSlice", "DeviceClass", "Node", "Pod"])
def test_a_kind_that_was_forgotten_is_told(tmp_path: Path, kind: str) -> None:
    items = [item for item in objects() if item["kind"] != kind]
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    assert any(f"has no {kind}" in note and "was it dumped?" in note for note in read_dumps(tmp_path).notes)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no object of a cluster"),
        ("kind: Secret\napiVersion: v1\n", "no object of a cluster"),
        ("- 1\n", "document 1 is no Kubernetes object"),
        ("a: [1\nb: 2\n", "a.yaml:2: not valid YAML"),
        ("{" * 3000, "nested deeper than 64 levels"),
        ("[" * 100_000, "nested deeper than 64 levels"),
        ("a: &x [1]\nb: *x\n", "a.yaml:2: an alias"),
        ("a: !!python/object:os.system [ls]\n", "a.yaml:1: the tag"),
        ("? [a]\n: 1\n", "a field's name must be a string"),
        ("a: \x01\n", "not valid YAML"),
        ("\xff", "a.yaml:1: not UTF-8 text"),
    ],
    ids=[
        "empty",
        "nothing of ours",
        "no object",
        "cut",
        "deep",
        "very deep",
        "alias",
        "tag",
        "key",
        "control",
        "bytes",
    ],
)
def test_a_file_that_is_no_dump_is_one_error(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "a.yaml").write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError) as refused:
        read_dumps(tmp_path)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"kind": "List",\n "items": [', "a.json:2: not valid JSON: it ends in the middle"),
        ('{"kind": "List",\n "items": [{"kind": "Po', "a.json:2: not valid JSON: it ends in the middle"),
        ("{'kind': 'List'}", "a.json:1: not valid JSON: Expecting property name"),
        ("error: no such resource\n", "a.json:1: not valid JSON: Expecting value"),
        ("[" * 100_000, "nested deeper than 64 levels"),
    ],
    ids=["cut", "cut in a text", "python", "a message of kubectl", "very deep"],
)
def test_a_mistake_in_a_file_of_json_is_told_as_one(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError) as refused:
        read_dumps(tmp_path)
    assert says in str(refused.value)


DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize("join", [", ", "\n"], ids=["list", "one after the other"])
@pytest.mark.parametrize("hostile", [DEEP, "9" * 5000, '"\\ud800"'], ids=["deep", "digits", "surrogate"])
def test_what_somebodys_object_holds_costs_the_dump_of_a_cluster_nothing_else(
    tmp_path: Path, join: str, hostile: str
) -> None:
    metadata = f'{{"name": "x", "namespace": "ml", "managedFields": [{{"fieldsV1": {{"f": {hostile}}}}}]}}'
    claim = f'{{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {metadata}}}'
    whole = join.join((claim, *map(json.dumps, objects())))
    is_list = join == ", "
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [{whole}]}}' if is_list else whole
    (tmp_path / "a.json").write_text(text)
    state = read_dumps(tmp_path)
    assert {"ml/x", "ml/train", "batch/sweep-7"} <= set(state.claim_keys())
    assert any("a.json: left out: " in note for note in state.notes)


def test_json_nested_as_deeply_as_is_allowed_is_kept_whole(tmp_path: Path) -> None:
    deep = json.loads("[" * 180 + "]" * 180)
    (tmp_path / "a.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [*objects(), {"x": deep}]})
    )
    assert not any("hundreds of levels" in note for note in read_dumps(tmp_path).notes)


def test_a_dump_of_one_namespace_is_told_to_know_no_other_claims(tmp_path: Path) -> None:
    items = [item for item in objects() if item["metadata"].get("namespace") != "batch"]
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    (note,) = read_dumps(tmp_path).notes
    assert "namespace ml alone" in note
    assert "-A" in note


@pytest.mark.parametrize("namespace", [{}, {"namespace": ""}, {"namespace": None}])
def test_what_names_no_namespace_is_in_the_default_one(tmp_path: Path, namespace: dict[str, str | None]) -> None:
    items = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **namespace}, "spec": {}},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", **namespace},
            "spec": {},
        },
    ]
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    state = read_dumps(tmp_path)
    assert (list(state.pod_keys()), list(state.claim_keys())) == (["default/p"], ["default/c"])


def test_no_folder_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_dumps(tmp_path / "missing")
    with pytest.raises(InputError, match=r"no \.yaml, \.yml or \.json file"):
        read_dumps(tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\n", {"a": 1}),
        ("a: 1.5\n", {"a": 1.5}),
        ('a: "1"\n', {"a": "1"}),
        ("a: '1'\n", {"a": "1"}),
        ("a: true\n", {"a": True}),
        ("a: 'true'\n", {"a": "true"}),
        ("a: null\n", {"a": None}),
        ("a:\n", {"a": None}),
        ("a: ''\n", {"a": ""}),
        ("a: {}\nb: []\n", {"a": {}, "b": []}),
        ("a: 2026-01-01T00:00:00Z\n", {"a": "2026-01-01T00:00:00Z"}),
        ("a: 0000:03:00.0\n", {"a": "0000:03:00.0"}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
        ("1: x\n", {"1": "x"}),
        ("- {a: [b, {c: d}]}\n", [{"a": ["b", {"c": "d"}]}]),
        ('{"a": [1, "2", null]}', {"a": [1, "2", None]}),
        ("{a: b}", {"a": "b"}),
    ],
    ids=str,
)
def test_values(text: str, value: object) -> None:
    assert list(read_values(text, "x", notes=[])) == [value]


def test_values_are_those_of_the_yaml_library() -> None:
    for file in sorted(EXAMPLE.glob("*.yaml")):
        text = file.read_text()
        assert _as_texts(list(read_values(text, "x", notes=[]))) == list(yaml.load_all(text, Loader=yaml.BaseLoader))


def _as_texts(value: Any) -> Any:
    match value:
        case dict():
            return {key: _as_texts(part) for key, part in value.items()}
        case list():
            return [_as_texts(part) for part in value]
        case None | bool():
            return {None: "", True: "true", False: "false"}[value]
    return str(value)
