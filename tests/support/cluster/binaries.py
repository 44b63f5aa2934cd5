"""Builds what a cluster is made of, once, into a cache outside the repository.

Kubernetes, etcd, containerd and Helm come from Go modules, pinned with their hashes in ``modules/*/go.sum``; runc, the
CNI plugins and busybox are Debian's. The cache is ``${XDG_CACHE_HOME:-~/.cache}/rootport/cluster/<key>``; the key says
what it was built from, so a changed version never meets an old binary. Each file appears by rename: a build that was
cut short goes on where it stopped.

``KUBERNETES=v1.36.3`` in the environment builds and runs another version of Kubernetes than the default; each version
has a folder with its pinned modules in ``modules/kubernetes``, and a cache of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "KUBERNETES_MINOR",
    "KUBERNETES_VERSION",
    "KUBERNETES_VERSIONS",
    "MAIN_VERSION",
    "Binaries",
    "ToolMissingError",
    "build",
    "build_helm",
    "build_krew",
    "build_kueue",
    "build_peer",
    "cache_folder",
    "module_source",
    "promtool",
]

CONTAINERD_VERSION: Final = "v2.2.3"
HELM_VERSION: Final = "v4.3.1"
KREW_VERSION: Final = "v0.4.3"
KUEUE_VERSION: Final = "v0.19.0"

_MODULES: Final = Path(__file__).parent / "modules"


KUBERNETES_VERSIONS: Final = tuple(sorted(folder.name for folder in (_MODULES / "kubernetes").glob("v*")))
"""Those that can be built and run, oldest first."""


MAIN_VERSION: Final = "v1.37.2"
"""The one that Rootport is developed with."""


def _version() -> str:
    version = os.environ.get("KUBERNETES") or MAIN_VERSION
    if version not in KUBERNETES_VERSIONS:
        raise SystemExit(
            f"KUBERNETES={version}: tests/support/cluster/modules/kubernetes has {' and '.join(KUBERNETES_VERSIONS)};"
            " another version needs a folder there, made as its README says"
        )
    return version


KUBERNETES_VERSION: Final = _version()
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
KUBERNETES_MINOR: Final = int(_MINOR)
"""Such as 37, for the few expectations that differ between the versions that the tests run on."""

_VERSION_PACKAGE: Final = "k8s.io/component-base/version"
# Without these the server calls itself v0.0.0-master, and kubectl and the feature gates' emulation version go wrong.
_KUBERNETES_FLAGS: Final = (
    f"-s -w -X {_VERSION_PACKAGE}.gitVersion={KUBERNETES_VERSION} -X {_VERSION_PACKAGE}.gitMajor={_MAJOR}"
    f" -X {_VERSION_PACKAGE}.gitMinor={_MINOR} -X {_VERSION_PACKAGE}.gitTreeState=clean"
)
_CONTAINERD_FLAGS: Final = f"-s -w -X github.com/containerd/containerd/v2/version.Version={CONTAINERD_VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoProgram:
    name: str
    module: str
    package: str
    flags: str
    tags: str = ""


_GO: Final = (
    *(
        _GoProgram(name=name, module="kubernetes", package=f"k8s.io/kubernetes/cmd/{name}", flags=_KUBERNETES_FLAGS)
        for name in ("kube-apiserver", "kubelet", "kube-controller-manager", "kube-scheduler", "kubectl")
    ),
    _GoProgram(name="etcd", module="kubernetes", package="go.etcd.io/etcd/server/v3", flags="-s -w"),
    *(
        _GoProgram(
            name=name,
            module="containerd",
            package=f"github.com/containerd/containerd/v2/cmd/{name}",
            flags=_CONTAINERD_FLAGS,
            tags="no_btrfs,no_devmapper,no_zfs",
        )
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
)

_PEER: Final = _GoProgram(
    name="dra-test-driver", module="kubernetes", package="k8s.io/kubernetes/test/e2e/dra/test-driver", flags="-s -w"
)

_HELM: Final = _GoProgram(
    name="helm",
    module="helm",
    package="helm.sh/helm/v4/cmd/helm",
    flags=f"-s -w -X helm.sh/helm/v4/internal/version.version={HELM_VERSION}",
)
_KUEUE: Final = _GoProgram(name="kueue", module="kueue", package="sigs.k8s.io/kueue/cmd/kueue", flags="-s -w")

_KREW: Final = tuple(
    _GoProgram(name=name, module="krew", package=f"sigs.k8s.io/krew/cmd/{name}", flags="-s -w")
    for name in ("krew", "validate-krew-manifest")
)

_DEBIAN: Final = {
    "runc": ("usr/sbin/runc",),
    "containernetworking-plugins": tuple(f"usr/lib/cni/{name}" for name in ("bridge", "host-local", "loopback")),
    "busybox-static": ("bin/busybox",),
}


class ToolMissingError(Exception):
    """Something that the build needs is not on this machine; the text says what."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The folder of the built programs; ``binaries["kubelet"]`` is a path."""

    folder: Path

    def __getitem__(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise KeyError(name)
        return path


def build_peer(say: Callable[[str], None] = lambda _: None) -> Path:
    """Kubernetes' own DRA test driver (test/e2e/dra/test-driver): the Go peer that ``make bench`` measures beside ours.

    It uses the same Go library as the drivers of GPU makers do (k8s.io/dynamic-resource-allocation/kubeletplugin).
    """
    folder = cache_folder() / "cluster" / _key()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        if not (folder / _PEER.name).exists():
            with _timed(say, _PEER.name):
                _build_go(_PEER, folder)
    return folder / _PEER.name


def build_helm(say: Callable[[str], None] = lambda _: None) -> Path:
    """Helm, which installs the chart; no cluster needs it, so that another version of it builds no cluster anew.

    Raises:
        ToolMissingError: Go is missing.
        subprocess.CalledProcessError: The build failed; its output went to standard error.
    """
    return _built_apart(_HELM, HELM_VERSION, say)


def build_kueue(say: Callable[[str], None] = lambda _: None) -> Path:
    """Kueue's manager, which only the tests of the examples for it run.

    Raises:
        ToolMissingError: Go is missing.
        subprocess.CalledProcessError: The build failed; its output went to standard error.
    """
    return _built_apart(_KUEUE, KUEUE_VERSION, say)


def module_source(module: str, path: str) -> Path:
    """The folder with the source of a Go module that one of ``modules`` pins, fetched where it is not there.

    Args:
        module: The folder in ``modules``.
        path: The module's path, such as ``sigs.k8s.io/jobset``.

    Raises:
        ToolMissingError: Go is missing.
        subprocess.CalledProcessError: It cannot be had.
    """
    if shutil.which("go") is None:
        raise ToolMissingError("Go is not installed: it fetches the module (https://go.dev/dl/)")
    told = subprocess.run(
        ["go", "mod", "download", "-json", path],
        cwd=_module_folder(module),
        env={**os.environ, "GOFLAGS": ""},
        stdout=subprocess.PIPE,
        check=True,
    )
    return Path(json.loads(told.stdout)["Dir"])


def build_krew(say: Callable[[str], None] = lambda _: None) -> tuple[Path, Path]:
    """Krew, which installs plugins of kubectl, and its checker of manifests; no cluster needs them.

    Raises:
        ToolMissingError: Go is missing.
        subprocess.CalledProcessError: A build failed; its output went to standard error.
    """
    krew, validator = (_built_apart(program, KREW_VERSION, say) for program in _KREW)
    return krew, validator


def promtool(say: Callable[[str], None] = lambda _: None) -> Path:
    """Prometheus' own checker of rules and metrics, of Debian's package ``prometheus``; no cluster needs it.

    Raises:
        ToolMissingError: Debian's apt-get is missing.
        subprocess.CalledProcessError: The package could not be had; why went to standard error.
    """
    folder = cache_folder() / "prometheus"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        if not (folder / "promtool").exists():
            with _timed(say, "promtool"):
                _unpack_debian("prometheus", ("usr/bin/promtool",), folder)
    return folder / "promtool"


def cache_folder() -> Path:
    """Where everything big is kept: ``${XDG_CACHE_HOME:-~/.cache}/rootport``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rootport"


def build(say: Callable[[str], None] = lambda _: None) -> Binaries:
    """Every program a cluster needs, built where the cache has it not.

    Args:
        say: Told what is being built and how long it took, for a person who waits: the first time takes minutes.

    Raises:
        ToolMissingError: Go, or Debian's apt-get, is missing.
        subprocess.CalledProcessError: A build failed; its output went to standard error.
    """
    folder = cache_folder() / "cluster" / _key()
    folder.mkdir(parents=True, exist_ok=True)
    binaries = Binaries(folder)
    with _locked(folder / ".lock"):
        for program in _GO:
            if not (folder / program.name).exists():
                with _timed(say, program.name):
                    _build_go(program, folder)
        for package, files in _DEBIAN.items():
            if not all((folder / Path(file).name).exists() for file in files):
                with _timed(say, package):
                    _unpack_debian(package, files, folder)
    return binaries


def _key() -> str:
    return f"kubernetes-{KUBERNETES_VERSION}-{_digest(_GO, ('containerd', 'kubernetes'))}"


def _digest(programs: tuple[_GoProgram, ...], modules: tuple[str, ...]) -> str:
    """Twelve digits that say what programs are built from."""
    digest = hashlib.sha256()
    for program in programs:
        digest.update(repr(program).encode())
    for module in modules:
        for file in sorted(_module_folder(module).glob("go.*")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _built_apart(program: _GoProgram, version: str, say: Callable[[str], None]) -> Path:
    """A program that is in no cluster, in a folder of its own."""
    folder = cache_folder() / program.name / f"{version}-{_digest((program,), (program.module,))}"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        if not (folder / program.name).exists():
            with _timed(say, program.name):
                _build_go(program, folder)
    return folder / program.name


def _module_folder(module: str) -> Path:
    folder = _MODULES / module
    return folder / KUBERNETES_VERSION if module == "kubernetes" else folder


def _build_go(program: _GoProgram, folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise ToolMissingError("Go is not installed: Kubernetes is built from source (https://go.dev/dl/)")
    fresh = folder / f".{program.name}.new"
    command = [go, "build", "-trimpath", "-mod=readonly", f"-ldflags={program.flags}", f"-tags={program.tags}"]
    subprocess.run(
        [*command, "-o", fresh, program.package],
        cwd=_module_folder(program.module),
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""},
        stdout=sys.stderr,
        check=True,
    )
    fresh.rename(folder / program.name)


def _unpack_debian(package: str, files: tuple[str, ...], folder: Path) -> None:
    """The files of a Debian package, without installing it."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ToolMissingError(f"apt-get and dpkg-deb are not there: {package} is taken from Debian's package")
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{package}.") as text:
        scratch = Path(text)
        download = ["apt-get", "--quiet", "--quiet", "-o", "APT::Sandbox::User=root", "download", package]
        if subprocess.run(download, cwd=scratch, capture_output=True, check=False).returncode != 0:
            subprocess.run(["apt-get", "--quiet", "--quiet", "update"], stdout=sys.stderr, check=True)
            subprocess.run(download, cwd=scratch, stdout=sys.stderr, check=True)
        (archive,) = scratch.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", archive, scratch / "root"], check=True)
        for file in files:
            (scratch / "root" / file).rename(folder / Path(file).name)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One build at a time, whoever else (another test process) wants the same."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _timed(say: Callable[[str], None], name: str) -> Iterator[None]:
    say(f"building {name} (once; kept in {cache_folder()})")
    began = time.monotonic()
    yield
    say(f"built {name} in {time.monotonic() - began:.0f} s")
