"""A wheel has a compiled allocator where that works, and Python files where it does not."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from driver import __version__
from tests.support.paths import REPO

needs_cc = pytest.mark.needs_cc

MODULE = """
def double(number: int) -> int:
    return 2 * number
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Just enough of the source tree to build, with an allocator of one small module."""
    folder = tmp_path / "source"
    for name in ("driver/allocator", "kubeletplugin/protocol"):
        (folder / name).mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(REPO / name, folder / name)
    for path in (REPO / "kubeletplugin" / "protocol").glob("*.proto"):
        shutil.copy(path, folder / "kubeletplugin" / "protocol")
    for name in ("driver", "driver/allocator", "kubeletplugin", "kubeletplugin/protocol"):
        (folder / name / "__init__.py").touch()
    (folder / "driver" / "allocator" / "module.py").write_text(MODULE)
    return folder


def build(source: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel into ../built as pip does, by setuptools' PEP 517 hooks."""
    code = "from setuptools import build_meta; build_meta.build_wheel('../built')"
    inherited: Mapping[str, str] = {name: text for name, text in os.environ.items() if name != "ROOTPORT_COMPILE"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=source,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def built(source: Path) -> tuple[str, set[str]]:
    """The wheel's name, and the files of the allocator and of the top folder in it."""
    (wheel,) = (source.parent / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    return wheel.name, {name for name in names if name.startswith("driver/allocator/") or "/" not in name}


PURE = {"driver/allocator/__init__.py", "driver/allocator/module.py"}


def test_it_is_python_alone_on_demand(source: Path) -> None:
    done = build(source, ROOTPORT_COMPILE="no")
    assert done.returncode == 0, done.stderr
    assert built(source) == (f"rootport-{__version__}-py3-none-any.whl", PURE)


def test_without_a_c_compiler_it_is_python_alone_with_a_warning(source: Path) -> None:
    done = build(source, CC="/bin/false")
    assert done.returncode == 0, done.stderr
    assert "the allocator is not compiled, and runs as Python" in done.stdout + done.stderr
    assert built(source) == (f"rootport-{__version__}-py3-none-any.whl", PURE)


def test_what_mypyc_cannot_compile_stays_python(source: Path) -> None:
    (source / "driver" / "allocator" / "module.py").write_text("number: int = 'text'\n")
    done = build(source)
    assert done.returncode == 0, done.stderr
    assert built(source) == (f"rootport-{__version__}-py3-none-any.whl", PURE)


def test_the_build_fails_where_compiling_is_required_and_fails(source: Path) -> None:
    assert build(source, ROOTPORT_COMPILE="required", CC="/bin/false").returncode != 0


def test_another_choice_is_refused(source: Path) -> None:
    done = build(source, ROOTPORT_COMPILE="yes")
    assert done.returncode != 0
    assert "ROOTPORT_COMPILE=yes: must be auto, required or no" in done.stderr


@needs_cc
def test_it_has_extension_modules_beside_the_python_files(source: Path) -> None:
    done = build(source, ROOTPORT_COMPILE="required")
    assert done.returncode == 0, done.stderr
    name, files = built(source)
    assert not name.endswith("-none-any.whl")
    assert files > PURE
    (wheel,) = (source.parent / "built").glob("*.whl")
    unpacked = source.parent / "unpacked"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(unpacked)
    code = "from driver.allocator import module; print(module.__file__, module.double(21))"
    done = subprocess.run([sys.executable, "-c", code], cwd=unpacked, capture_output=True, text=True, check=True)
    where, answer = done.stdout.split()
    assert Path(where).suffix == ".so"
    assert answer == "42"


@pytest.mark.parametrize("choice", ["no", pytest.param("required", marks=needs_cc)])
def test_it_is_the_same_whoever_builds_it_and_where(source: Path, tmp_path: Path, choice: str) -> None:
    other = tmp_path / "elsewhere" / "a much longer path than the other" / "source"
    shutil.copytree(source, other, copy_function=shutil.copyfile)
    digests = set()
    for folder, mask, written in ((source, 0o022, 1_600_000_000), (other, 0o002, 1_700_000_000)):
        for path in folder.rglob("*"):
            os.utime(path, (written, written))
            path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
        former = os.umask(mask)
        try:
            done = build(folder, ROOTPORT_COMPILE=choice, SOURCE_DATE_EPOCH="1800000000")
        finally:
            os.umask(former)
        assert done.returncode == 0, done.stderr
        (wheel,) = (folder.parent / "built").glob("*.whl")
        digests.add((wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()))
    assert len(digests) == 1
