"""A release is made, signed and installed for real: by pip, by pipx, by krew, and its chart by Helm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.cluster.binaries import Binaries, build_krew
from tests.support.helm import Helm
from tests.support.paths import REPO
from tests.support.releases import ADDRESSES, VERSION, Made, make_release

pytestmark = [pytest.mark.slow, pytest.mark.needs_go]

WHEEL = f"rootport-{VERSION}-py3-none-any.whl"
PLUGIN = f"kubectl-rootport-{VERSION}-linux-amd64.tar.gz"
MADE = {
    WHEEL,
    PLUGIN,
    f"rootport-{VERSION}.tar.gz",
    f"rootport-{VERSION}.tgz",
    f"rootport-{VERSION}.cdx.json",
    "rootport.yaml",
    "provenance.intoto.json",
    "SHA256SUMS",
    "SHA256SUMS.asc",
}
NO_TAG = "the commit does not have the tag v9.0.0: git tag --sign v9.0.0"
DUMP = REPO / "examples" / "explain"
PYTHONS = sorted(
    {
        minor: str(program)
        for minor in (11, 12, 13)
        for program in (
            shutil.which(f"python3.{minor}", path="/usr/local/bin:/usr/bin"),
            *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"),
        )
        if program
    }.values()
)
"""The interpreters of this machine that Rootport supports; at least the one that runs the tests."""


def clean(home: Path, *first: Path) -> dict[str, str]:
    """An environment with nothing of this machine but how it reaches its package registry."""
    home.mkdir(exist_ok=True)
    registry = {name: text for name, text in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_CA_"))}
    return {"HOME": str(home), "PATH": ":".join([*map(str, first), "/usr/bin", "/bin"]), **registry}


def run(*command: str | Path, env: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


def test_it_has_every_file_and_says_what_it_left_out(release: Made) -> None:
    assert {path.name for path in release.folder.iterdir()} == MADE
    left_out = [line for line in release.said.splitlines() if line.startswith("left out: ")]
    assert left_out == [
        "left out: the image and its SBOM: neither docker buildx, buildah nor podman works on this machine"
    ]


def test_the_checksums_are_right_and_signed(release: Made, keyring: Path) -> None:
    checked = run("sha256sum", "--check", "--strict", "SHA256SUMS", env=dict(os.environ), folder=release.folder)
    assert checked.returncode == 0, checked.stderr
    assert len(checked.stdout.splitlines()) == len(MADE) - 2
    env = {**os.environ, "GNUPGHOME": str(keyring)}
    verified = run("gpg", "--verify", "SHA256SUMS.asc", "SHA256SUMS", env=env, folder=release.folder)
    assert verified.returncode == 0, verified.stderr


def test_the_provenance_names_the_commit_and_every_file(release: Made, tagged: Path) -> None:
    told = json.loads((release.folder / "provenance.intoto.json").read_text())
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tagged, capture_output=True, text=True, check=True)
    source = told["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    assert source["digest"]["gitCommit"] == commit.stdout.strip()
    assert {subject["name"] for subject in told["subject"]} == MADE - {
        "provenance.intoto.json",
        "SHA256SUMS",
        "SHA256SUMS.asc",
    }


def test_a_dry_run_elsewhere_gives_the_same_bytes_and_no_signature(
    release: Made, tagged: Path, helm: Helm, keyring: Path, tmp_path: Path
) -> None:
    clone, out = tmp_path / "another" / "clone", tmp_path / "dist"
    former = os.umask(0o002)
    try:
        subprocess.run(["git", "clone", "--quiet", "--no-tags", tagged, clone], check=True)
        made = make_release(clone, out, helm, keyring, "--dry-run", "--gpg-key", "releases@example.com", *ADDRESSES)
    finally:
        os.umask(former)
    assert made.returncode == 0, made.stderr
    assert made.stderr.startswith(f"would be refused: {NO_TAG}\n")
    assert (out / "SHA256SUMS").read_text() == (release.folder / "SHA256SUMS").read_text()
    assert not (out / "SHA256SUMS.asc").exists()


def test_a_commit_without_its_tag_is_refused(tagged: Path, helm: Helm, keyring: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-tags", tagged, clone], check=True)
    refused = make_release(clone, tmp_path / "dist", helm, keyring)
    assert (refused.returncode, refused.stderr) == (1, f"refused: {NO_TAG}\n")
    assert not (tmp_path / "dist").exists()


def test_the_source_distribution_gives_the_same_wheel(release: Made, tagged: Path, tmp_path: Path) -> None:
    with tarfile.open(release.folder / f"rootport-{VERSION}.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    seconds = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=tagged, capture_output=True, text=True, check=True
    ).stdout.strip()
    code = "from setuptools import build_meta; build_meta.build_wheel('..')"
    env = {**os.environ, "ROOTPORT_COMPILE": "no", "SOURCE_DATE_EPOCH": seconds, "PYTHONPATH": ""}
    built = run(sys.executable, "-c", code, env=env, folder=tmp_path / f"rootport-{VERSION}")
    assert built.returncode == 0, built.stderr
    assert (tmp_path / WHEEL).read_bytes() == (release.folder / WHEEL).read_bytes()


def test_the_wheel_has_what_runs_and_nothing_of_the_tests(release: Made) -> None:
    with zipfile.ZipFile(release.folder / WHEEL) as file:
        names = set(file.namelist())
    assert {name.partition("/")[0] for name in names} == {
        "controller",
        "driver",
        "kubeletplugin",
        "resourceclasses",
        f"rootport-{VERSION}.dist-info",
    }
    assert {"driver/adapters/catalogue.yaml", "driver/py.typed", "kubeletplugin/protocol/dra_v1_pb2.py"} <= names
    assert {"controller/dashboard/static/index.html", "resourceclasses/device-classes.yaml"} <= names
    assert not any(name.endswith((".so", ".pyc")) for name in names)


@pytest.mark.parametrize("python", PYTHONS)
def test_pip_installs_it_into_a_clean_environment(release: Made, tmp_path: Path, python: str) -> None:
    env = clean(tmp_path / "home", tmp_path / "venv" / "bin")
    assert run(python, "-m", "venv", "venv", env=env, folder=tmp_path).returncode == 0
    installed = run("pip", "install", "--quiet", release.folder / WHEEL, env=env, folder=tmp_path)
    assert installed.returncode == 0, installed.stderr
    assert run("rootport", "--version", env=env, folder=tmp_path).stdout == f"rootport, version {VERSION}\n"
    explained = run("rootport", "explain", "claim", "ml/train", "--from", DUMP, env=env, folder=tmp_path)
    assert (explained.returncode, explained.stderr) == (1, "")
    assert "does not fit on any of 3 nodes: DevicesInUse" in explained.stdout
    machine = REPO / "examples" / "machines" / "aws-p4d.24xlarge.yaml"
    simulated = run(
        *("rootport", "simulate", "--topology", machine, "--claims", REPO / "examples" / "gpu-nic-pair.yaml"),
        *("--out", tmp_path / "out"),
        env=env,
        folder=tmp_path,
    )
    assert simulated.returncode == 0, simulated.stderr
    for program in ("rootport-controller", "rootport-kubelet-plugin"):
        assert run(program, "--help", env=env, folder=tmp_path).returncode == 0


def test_pipx_runs_it_without_an_installation(release: Made, tmp_path: Path) -> None:
    env = clean(tmp_path / "home")
    pipx = (sys.executable, "-m", "pipx", "run", "--quiet", "--spec", release.folder / WHEEL, "rootport")
    ran = run(*pipx, "--version", env=env, folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, f"rootport, version {VERSION}\n"), ran.stderr
    explained = run(*pipx, "explain", "claim", "ml/train", "--from", DUMP, env=env, folder=tmp_path)
    assert "does not fit on any of 3 nodes: DevicesInUse" in explained.stdout, explained.stderr


def test_krew_takes_the_manifest_and_installs_the_plugin(
    release: Made, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    krew, validator = build_krew(lambda text: print(text, file=sys.__stderr__, flush=True))
    manifest = release.folder / "rootport.yaml"
    env = clean(tmp_path / "home", tmp_path / "home" / ".krew" / "bin", cluster_binaries.folder)
    checked = run(validator, "-skip-install", "-manifest", manifest, env=env, folder=tmp_path)
    assert checked.returncode == 0, checked.stderr
    archive = release.folder / PLUGIN
    installed = run(krew, "install", "--manifest", manifest, "--archive", archive, env=env, folder=tmp_path)
    assert installed.returncode == 0, installed.stderr
    told = run("kubectl", "rootport", "--version", env=env, folder=tmp_path)
    assert (told.returncode, told.stdout) == (0, f"rootport, version {VERSION}\n"), told.stderr
    explained = run("kubectl", "rootport", "explain", "claim", "ml/train", "--from", DUMP, env=env, folder=tmp_path)
    assert "does not fit on any of 3 nodes: DevicesInUse" in explained.stdout, explained.stderr


@pytest.mark.parametrize("python", PYTHONS)
def test_the_plugin_runs_on_each_python(release: Made, tmp_path: Path, python: str) -> None:
    with tarfile.open(release.folder / PLUGIN) as tar:
        tar.extractall(tmp_path / "plugin", filter="data")
    env = clean(tmp_path / "home")
    ran = run(python, tmp_path / "plugin" / "kubectl-rootport", "topo", "--help", env=env, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    explained = run(
        *(python, tmp_path / "plugin" / "kubectl-rootport", "explain", "claim", "ml/train", "--from", DUMP),
        env=env,
        folder=tmp_path,
    )
    assert "does not fit on any of 3 nodes: DevicesInUse" in explained.stdout, explained.stderr


def test_helm_reads_the_chart(release: Made, helm: Helm) -> None:
    package = release.folder / f"rootport-{VERSION}.tgz"
    assert f"version: {VERSION}\n" in helm("show", "chart", package)
    images = {
        container["image"]
        for item in helm.render(chart=package)
        if item["kind"] in {"DaemonSet", "Deployment"}
        for container in item["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"rootport:{VERSION}"}
