"""The images that a test node needs, as OCI archives (``ctr images import`` reads them), built without a registry.

Each builder answers from a cache outside the repository, and builds only when what the image is made of has changed.
"""

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from tests.support.cluster.image_builder import image_builder, unpacked_whole
from tests.support.cluster.oci_archive import directory, file, layer_of, link, write_image

__all__ = ["BUSYBOX", "PAUSE", "build_busybox", "build_pause", "build_rootport", "build_rootport_from_nothing"]

BUSYBOX = "docker.io/library/busybox:1.37"
"""The name that examples use. What is in it is Debian's busybox, whatever its version."""
PAUSE = "docker.io/library/pause:test"

_BUILT_FROM = (
    "Dockerfile",
    ".dockerignore",
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "requirements.lock",
    "requirements-dev.lock",
    "driver",
    "resourceclasses",
    "controller",
    "kubeletplugin",
)
_NOT_IN_IT = frozenset({"__pycache__", "chart", "templates", "Chart.yaml", "values.yaml", "values.schema.json"})
"""Names of what .dockerignore leaves out, ``chart`` in 0.1.0: a change there is no other image."""
_KEPT = 4  # archives, the last used ones; one is of the release before this one: 90 MB each


def build_busybox(cache: Path) -> Path:
    """The path of an archive of BUSYBOX: one static binary and a link to it for each of its commands."""
    busybox = _static_busybox(cache)
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    entries = [
        *(directory(x) for x in ("bin", "dev", "etc", "proc", "root", "sys", "var")),
        directory("tmp", 0o1777),
        file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"),
        file("etc/group", b"root:x:0:\nnogroup:x:65534:\n"),
        file("bin/busybox", busybox.read_bytes(), 0o755),
        *(link(f"bin/{x}", "busybox") for x in applets if x != "busybox"),
    ]
    return _written(cache, BUSYBOX, layer_of(entries), {"Cmd": ["sh"], "Env": ["PATH=/bin"]})


def build_pause(cache: Path) -> Path:
    """The path of an archive of PAUSE: what holds a pod's namespaces, and does nothing else."""
    entries = [directory("bin"), file("bin/busybox", _static_busybox(cache).read_bytes(), 0o755)]
    return _written(cache, PAUSE, layer_of(entries), {"Entrypoint": ["/bin/busybox", "sleep", "2147483647"]})


def build_rootport(repo: Path, cache: Path) -> Path:
    """The path of an archive of Rootport's image, built by the repository's own Dockerfile.

    Its name is what the repository's manifests mean to a container runtime.

    Args:
        repo: This repository, or what it was at another commit.
        cache: Outside of it.

    Raises:
        RuntimeError: a tool failed (no root, no network, an error in the Dockerfile); the message is the tool's.
    """
    archive = cache / "images" / f"rootport-{_key_of(repo)}.tar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):  # without waiting for whoever builds another one
        os.utime(archive)
        return archive
    with _alone(cache):
        if archive.exists():
            return archive
        builder, name = image_builder(cache), _name_in_manifests(repo)
        builder.build_with_python(repo, name)
        builder.save(name, archive, name)
        by_age = sorted(archive.parent.glob("rootport-*.tar"), key=lambda x: x.stat().st_mtime)
        for former in by_age[:-_KEPT]:
            former.unlink()
    return archive


def build_rootport_from_nothing(repo: Path, cache: Path, archive: Path, *options: str) -> None:
    """Write an archive of Rootport's image, of which no layer is of an earlier build, and none is left for a later one.

    Args:
        repo: This repository, or a copy of it.
        cache: Outside of it: the builder and the base come from there.
        archive: Where to write.
        options: Of ``buildah build``.
    """
    with _alone(cache):
        builder, name = image_builder(cache), "localhost/rootport-from-nothing:latest"
        builder.build_with_python(repo, name, "--no-cache", "--layers=false", *options)
        builder.save(name, archive, name)
        builder.remove(name)


def _name_in_manifests(repo: Path) -> str:
    (image,) = yaml.safe_load((repo / "resourceclasses/kustomization.yaml").read_text())["images"]
    return f"docker.io/library/{image['name']}:{image['newTag']}"


def _key_of(repo: Path) -> str:
    digest = hashlib.sha256()
    for top in (repo / x for x in _BUILT_FROM):
        found = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in (x for x in found if x.is_file() and not _NOT_IN_IT.intersection(x.parts)):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(repo)}\0{path.stat().st_mode:o}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Two test runs must not build at once: the second finds what the first has built."""
    with (cache / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _written(cache: Path, name: str, layer: bytes, config: dict[str, object]) -> Path:
    key = hashlib.sha256(layer + repr((name, config)).encode()).hexdigest()[:16]
    archive = cache / "images" / f"{name.rpartition('/')[2].replace(':', '-')}-{key}.tar"
    return archive if archive.exists() else write_image(archive, name=name, layers=[layer], config=config)


def _static_busybox(cache: Path) -> Path:
    root = unpacked_whole(("busybox-static",), cache / "debian" / "busybox")
    return next(x for x in (root / "bin/busybox", root / "usr/bin/busybox") if x.exists())
