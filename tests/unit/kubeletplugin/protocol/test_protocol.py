"""Our protocol files say what Kubernetes' own say, and every way of building Rootport makes stubs of them."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.support.paths import REPO
from tests.unit.kubeletplugin.protocol.extract import tables

ROOT = REPO
PROTOCOL = ROOT / "kubeletplugin" / "protocol"
KUBERNETES = json.loads(Path(__file__).with_name("kubernetes.json").read_text())
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


def test_every_protocol_file_has_its_counterpart_in_kubernetes() -> None:
    assert sorted(path.stem for path in PROTOCOL.glob("*.proto")) == sorted(KUBERNETES)


@pytest.mark.parametrize("name", sorted(KUBERNETES))
def test_names_numbers_and_types_are_kubernetes_own(name) -> None:
    description = FileDescriptorProto()
    importlib.import_module(f"kubeletplugin.protocol.{name}_pb2").DESCRIPTOR.CopyToProto(description)
    theirs = {key: value for key, value in KUBERNETES[name].items() if key != "source"}
    assert tables(description) == theirs


@pytest.fixture
def source(tmp_path) -> Path:
    """Just enough of the source tree to build, with stubs in it that are out of date."""
    folder = tmp_path / "source"
    shutil.copytree(PROTOCOL, folder / "kubeletplugin" / "protocol")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "kubeletplugin/__init__.py"):
        shutil.copy(ROOT / name, folder / name)
    for name in KUBERNETES:
        for suffix in SUFFIXES:
            (folder / "kubeletplugin" / "protocol" / f"{name}{suffix}").write_text("out of date\n")
    return folder


def build(source: Path, kind: str) -> Path:
    """Build as pip does, by setuptools' PEP 517 hooks; gives what was built."""
    code = f"from setuptools import build_meta; print(build_meta.build_{kind}('../built'))"
    (source / "../built").mkdir()
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return source.parent / "built" / done.stdout.splitlines()[-1]


def test_a_wheel_has_new_stubs_of_every_protocol_file(source) -> None:
    with zipfile.ZipFile(build(source, "wheel")) as wheel:
        for name in KUBERNETES:
            for suffix in SUFFIXES:
                assert b"out of date" not in wheel.read(f"kubeletplugin/protocol/{name}{suffix}")
            assert b"NodePrepareResources" in wheel.read("kubeletplugin/protocol/dra_v1_pb2.py")


def test_an_editable_install_has_new_stubs_beside_the_protocol_files(source) -> None:
    build(source, "editable")
    for name in KUBERNETES:
        for suffix in SUFFIXES:
            assert "out of date" not in (source / "kubeletplugin" / "protocol" / f"{name}{suffix}").read_text()


def test_a_source_package_has_the_protocol_files_and_no_stubs(source) -> None:
    with tarfile.open(build(source, "sdist")) as package:
        names = {Path(name).name for name in package.getnames()}
    assert {f"{name}.proto" for name in KUBERNETES} <= names
    assert "setup.py" in names
    assert not {name for name in names if "_pb2" in name}


def test_a_broken_protocol_file_breaks_the_build(source) -> None:
    (source / "kubeletplugin" / "protocol" / "dra_v1.proto").write_text("message {")
    with pytest.raises(AssertionError, match="protoc failed"):
        build(source, "editable")
