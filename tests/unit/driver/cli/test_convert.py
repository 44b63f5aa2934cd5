"""`rootport convert`: what it prints is what kubectl apply takes, and nothing of it is lost on the way."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.foreign_workloads import ASKS, foreign_workloads, manifest_of, workload
from tests.support.paths import REPO

Run = Callable[..., Any]

NAMESPACE = "# who pays\napiVersion: v1\nkind: Namespace\nmetadata: {name: ml,   labels: {team: a}} # kept\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {key:  hunter2}\n"
KOORDINATOR = """\
# Source: chart/templates/train.yaml
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml}
spec:
  schedulerName: koord-scheduler
  containers:
  - name: main
    image: busybox
    args: [sh, -c, "echo a\\necho b\\n"]
    env: [{name: BUILD, value: "1e3"}, {name: TOKEN, value: hunter2}]
    resources: {limits: {cpu: 40m, koordinator.sh/gpu-core: "50", koordinator.sh/gpu-memory-ratio: "50"}}
"""
REFUSED = """\
apiVersion: v1
kind: Pod
metadata: {name: odd, namespace: ml}   # left as it is
spec:
  containers:
  - name: main
    image: busybox
    resources: {limits: {koordinator.sh/gpu-core: "150", koordinator.sh/gpu-memory-ratio: "150"}}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(*documents: str, name: str = "all.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("---\n".join(documents))
        return path

    return write


def objects(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def kinds(text: str) -> list[str]:
    return [item["kind"] for item in objects(text)]


def test_documents_keep_their_order_and_a_template_comes_before_what_names_it(
    rootport: Run, write: Callable[..., Path]
) -> None:
    ran = rootport("convert", write(NAMESPACE, KOORDINATOR, SECRET))
    assert ran.code == 0, ran.err
    # Not before the Namespace that it is in.
    assert kinds(ran.out) == ["Namespace", "ResourceClaimTemplate", "Pod", "Secret"]
    _, template, pod, _ = objects(ran.out)
    assert template["metadata"]["namespace"] == "ml"
    [claim] = pod["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "40m"}, "claims": [{"name": claim["name"]}]}


def test_what_does_not_change_keeps_its_bytes(rootport: Run, write: Callable[..., Path]) -> None:
    ran = rootport("convert", write(NAMESPACE, KOORDINATOR, SECRET, REFUSED))
    assert ran.code == 1
    assert ran.out.startswith(f"{NAMESPACE}---\n")
    assert ran.out.endswith(f"---\n{SECRET}---\n{REFUSED}")
    nothing = rootport("convert", write(NAMESPACE, SECRET))
    assert (nothing.code, nothing.out) == (0, f"{NAMESPACE}---\n{SECRET}")
    assert nothing.err == "nothing to convert: 2 other objects passed through\n"


def test_what_changes_keeps_the_comments_above_it_and_its_texts(rootport: Run, write: Callable[..., Path]) -> None:
    out = rootport("convert", write(KOORDINATOR)).out
    assert "# Source: chart/templates/train.yaml\napiVersion: v1\nkind: Pod\n" in out
    assert "- |\n      echo a\n      echo b\n" in out
    assert "value: '1e3'" in out  # kubectl would read it as a number


def test_converting_twice_changes_nothing(rootport: Run, write: Callable[..., Path]) -> None:
    once = rootport("convert", write(NAMESPACE, KOORDINATOR)).out
    twice = rootport("convert", write(once, name="again.yaml"))
    assert (twice.code, twice.out) == (0, once)
    # A template that is there already is not printed again.
    other = KOORDINATOR.replace("name: train,", "name: other,")
    more = rootport("convert", write(once, other, name="more.yaml")).out
    assert kinds(more) == ["Namespace", "ResourceClaimTemplate", "Pod", "Pod"]


def test_equal_requests_share_a_template(rootport: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    write(KOORDINATOR, name="files/a.yaml")
    write(KOORDINATOR.replace("name: train,", "name: other,"), name="files/below/b.yml")
    ran = rootport("convert", tmp_path / "files")
    assert kinds(ran.out) == ["ResourceClaimTemplate", "Pod", "Pod"]


def test_a_list_with_something_to_convert_becomes_its_items(rootport: Run, write: Callable[..., Path]) -> None:
    items = [yaml.safe_load(text) for text in (NAMESPACE, KOORDINATOR, SECRET)]
    wrapped = manifest_of({"apiVersion": "v1", "kind": "List", "items": items})
    assert kinds(rootport("convert", write(wrapped)).out) == ["Namespace", "ResourceClaimTemplate", "Pod", "Secret"]
    unchanged = manifest_of({"apiVersion": "v1", "kind": "List", "items": items[::2]})
    assert rootport("convert", write(unchanged)).out == unchanged


def test_json_is_taken_and_printed(rootport: Run, write: Callable[..., Path]) -> None:
    pod = write(json.dumps(yaml.safe_load(KOORDINATOR)), name="pod.json")
    other = write(json.dumps(yaml.safe_load(SECRET)), name="secret.json")
    assert kinds(rootport("convert", other, pod).out) == ["Secret", "ResourceClaimTemplate", "Pod"]


def test_standard_input_is_read(rootport: Run, monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]) -> None:
    with write(KOORDINATOR).open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        ran = rootport("convert", "-")
    assert kinds(ran.out) == ["ResourceClaimTemplate", "Pod"]
    assert "<stdin>:2: Pod ml/train: converted" in ran.err


def test_the_report_names_each_field_and_no_secret(
    rootport: Run, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = write(NAMESPACE, KOORDINATOR, SECRET, REFUSED)
    ran = rootport("convert", path)
    assert f"{path}:7: Pod ml/train: converted" in ran.err
    assert "  main: koordinator.sh/gpu-core: 50, koordinator.sh/gpu-memory-ratio: 50\n    " in ran.err
    assert "  schedulerName: koord-scheduler\n    " in ran.err
    assert f"{path}:24: Pod ml/odd: not converted\n  main: koordinator.sh/gpu-core: 150\n    " in ran.err
    assert ran.err.endswith(
        "1 of 2 objects converted, 1 with notes; 1 left as it is; 2 other objects passed\nthrough\n"
    )
    assert "hunter2" not in ran.err
    assert ran.out.count("hunter2") == 2
    wide = [line for line in ran.err.splitlines() if len(line) > 80 and not line.startswith(str(path))]
    assert wide == []


def test_the_report_on_many_objects_has_the_reasons(rootport: Run, write: Callable[..., Path]) -> None:
    count = 20 * len(ASKS)
    ran = rootport("convert", write(manifest_of(*foreign_workloads(count))))
    assert len(ran.err.splitlines()) < 60
    assert ran.err.startswith("\nNot converted:\n")
    assert "(Koordinator, 20 objects)\n    " in ran.err
    assert "10 more; --check -o json shows all" in ran.err
    assert f"{count - 40} of {count - 20} objects converted" in ran.err


def test_machine_descriptions_are_not_passed_on(rootport: Run, write: Callable[..., Path]) -> None:
    machine = (REPO / "examples" / "machines" / "azure-nd-h100-v5.yaml").read_text()
    write(machine, name="app/machine.yaml")
    ran = rootport("convert", write(KOORDINATOR, name="app/pod.yaml").parent)
    assert kinds(ran.out) == ["ResourceClaimTemplate", "Pod"]
    assert "machine.yaml is no manifest" in ran.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("a: [1\n", "all.yaml:2: not valid YAML", id="no YAML"),
        pytest.param("- a\n", "expected a Kubernetes object", id="a list"),
        pytest.param("a: 1\n", "not a Kubernetes object: kind and apiVersion must both be there", id="another mapping"),
        pytest.param("{{ if .x }}\na: 1\n", "helm template", id="a template of Helm"),
        pytest.param("", "there is nothing to convert", id="empty"),
        pytest.param("\x00", "not valid YAML", id="binary"),
    ],
)
def test_of_bad_input_nothing_is_printed(rootport: Run, write: Callable[..., Path], text: str, says: str) -> None:
    good = write(KOORDINATOR, name="good.yaml")
    paths = [good, write(text)] if text else [write(text)]
    ran = rootport("convert", *paths)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": 1},
        {"metadata": {"annotations": [1]}},
        {"spec": {"containers": ["x", {"name": "y"}]}},
        {"spec": {"containers": [{"name": "y", "resources": {"limits": {"koordinator.sh/gpu-core": [1]}}}]}},
        {"spec": {"containers": [{"name": 1, "resources": []}], "resourceClaims": "x"}},
    ],
)
def test_odd_shapes_end_with_an_answer(rootport: Run, write: Callable[..., Path], odd: dict[str, Any]) -> None:
    ran = rootport("convert", write(manifest_of(yaml.safe_load(KOORDINATOR) | odd)))
    assert ran.code in (0, 1), ran.err


def test_an_empty_folder_and_a_missing_file_are_errors(rootport: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing.yaml"):
        ran = rootport("convert", tmp_path / name)
        assert (ran.code, ran.out) == (2, "")
        assert name in ran.err


def test_two_workloads_of_one_name_are_told(rootport: Run, write: Callable[..., Path]) -> None:
    path = write(KOORDINATOR, KOORDINATOR)
    ran = rootport("convert", path)
    assert kinds(ran.out) == ["ResourceClaimTemplate", "Pod", "Pod"]
    assert f"note: {path}:15: Pod ml/train is already defined at {path}:2: kubectl applies the last" in ran.err


def test_a_kustomization_is_built_first(rootport: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    write("resources: [pod.yaml]\npatches: [{path: patch.yaml}]\n", name="app/kustomization.yaml")
    write(KOORDINATOR, name="app/pod.yaml")
    write(KOORDINATOR, name="app/patch.yaml")
    ran = rootport("convert", tmp_path / "app")
    assert (ran.code, ran.out) == (2, "")
    assert f"kustomize build {tmp_path / 'app'} | rootport convert -" in ran.err


def test_files_that_are_no_manifests_are_named(rootport: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    write(KOORDINATOR, name="chart/pod.yaml")
    write("replicas: 2\n", name="chart/values.yaml")
    ran = rootport("convert", tmp_path / "chart")
    assert kinds(ran.out) == ["ResourceClaimTemplate", "Pod"]
    assert "note: 1 file in the folders without an object of Kubernetes" in ran.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "name files or folders, or - for standard input"),
        (("-o", "json", "FILE"), "are for --check"),
        (("-n", "ml", "FILE"), "are for --check"),
        (("--kubeconfig", "x", "FILE"), "name a kubeconfig file"),
        (("--context", "x", "--live", "FILE"), "which one has the devices?"),
        (("--check", "FILE", "--from", "dump"), "which of them?"),
        (("--check", "FILE", "-n", "ml"), "which of them?"),
        (("--path", "Fleet", "FILE"), "expected KIND=PATH"),
        (("--path", "Fleet=a b", "FILE"), "expected KIND=PATH"),
        (("--path", "Fleet=a[0]", "FILE"), "expected KIND=PATH"),
        (("--chek", "FILE"), "--check"),
    ],
)
def test_wrong_options_are_explained(
    rootport: Run, write: Callable[..., Path], options: tuple[str, ...], says: str
) -> None:
    path = write(KOORDINATOR)
    ran = rootport("convert", *(path if option == "FILE" else option for option in options))
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


def test_pod_templates_of_other_kinds_are_found_where_the_path_says(rootport: Run, write: Callable[..., Path]) -> None:
    pod = yaml.safe_load(KOORDINATOR)["spec"]
    fleet = {
        "apiVersion": "x.example/v1",
        "kind": "Fleet",
        "metadata": {"name": "f"},
        "spec": {"workers": [{"p": {"spec": pod}}]},
    }
    ran = rootport("convert", "--path", "Fleet=spec.workers[*].p", write(manifest_of(fleet)))
    assert (ran.code, kinds(ran.out)) == (0, ["ResourceClaimTemplate", "Fleet"]), ran.err
    assert objects(ran.out)[1]["spec"]["workers"][0]["p"]["spec"]["resourceClaims"]
    other = rootport("convert", "--path", "Flet=spec.workers[*].p", write(manifest_of(fleet)))
    assert "note: --path Flet: no object of that kind was read; did you mean Fleet?" in other.err


@pytest.mark.parametrize("path", ["spec.workers.p", "spec.wrkers[*].p", "spec"])
def test_a_path_without_a_pod_is_told(rootport: Run, write: Callable[..., Path], path: str) -> None:
    pod = yaml.safe_load(KOORDINATOR)["spec"]
    fleet = {
        "apiVersion": "x.example/v1",
        "kind": "Fleet",
        "metadata": {"name": "f"},
        "spec": {"workers": [{"p": {"spec": pod}}]},
    }
    files = write(manifest_of(fleet))
    told = f"note: --path Fleet={path}: no pod there in 1 object of that kind (lists need [*])"
    ran = rootport("convert", "--path", f"Fleet={path}", "--path", "Fleet=spec.workers[*].p", files)
    assert [line for line in ran.err.splitlines() if line.startswith("note: ")] == [told]
    assert told in rootport("convert", "--check", "--path", f"Fleet={path}", files).err


def test_entries_of_the_resource_map_that_no_pod_asks_for_are_told(rootport: Run, write: Callable[..., Path]) -> None:
    asked = 'openshift.io/mlxnics: "1", rdma/shared_a: "1"'
    pod = KOORDINATOR.replace('koordinator.sh/gpu-core: "50", koordinator.sh/gpu-memory-ratio: "50"', asked)
    names = ("openshift.io/mlnxnics", "rdma/shared*", "rdma/hca")
    resources = [{"name": name} for name in names]
    mapped = {"apiVersion": "rootport.dev/v1alpha1", "kind": "ResourceMap", "resources": resources}
    ran = rootport("convert", "--resources", write(yaml.safe_dump(mapped), name="nics.yaml"), write(pod))
    assert "note: --resources: no pod that was read asks for openshift.io/mlnxnics and rdma/hca\n" in ran.err
    assert "did you mean openshift.io/mlnxnics" in ran.err
    assert "--resources" not in rootport("convert", write(pod)).err


_BLOCK = re.compile(r"```console\n\$ rootport (convert [^\n]*examples/\S+)( >\S+)?\n(.*?)```", re.DOTALL)


def test_the_page_shows_what_is_printed(rootport: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    blocks = _BLOCK.findall((REPO / "docs" / "user" / "convert.md").read_text())
    assert len(blocks) == 2
    for command, redirected, shown in blocks:
        ran = rootport(*command.split())
        assert shown == (ran.err if redirected else ran.out)


def test_a_reader_that_ends_early_is_no_error(tmp_path: Path) -> None:
    many = tmp_path / "many.yaml"
    many.write_text(manifest_of(*(workload(number, "Pod", "Koordinator") for number in range(200))))
    rootport = f"{sys.executable} -m driver.cli.entry convert {many}"
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {rootport} | head -1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPO,
        env=os.environ | {"PYTHONPATH": str(REPO)},
    )
    assert (ran.returncode, ran.stdout) == (0, "apiVersion: resource.k8s.io/v1\n")
    assert "Traceback" not in ran.stderr


def test_text_is_utf_8_whatever_the_terminal_is(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(SECRET.replace("hunter2", "é"), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "driver.cli.entry", "convert", str(path)],
        capture_output=True,
        check=True,
        cwd=REPO,
        env=os.environ | {"PYTHONPATH": str(REPO), "PYTHONIOENCODING": "ascii"},
    )
    assert ran.stdout == path.read_bytes()
