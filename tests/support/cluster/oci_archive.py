"""Write container images as OCI archives: a tar with an OCI image layout in it, which ``ctr images import`` reads.

Source: OCI image-spec v1.1 (image-layout.md, config.md, layer.md). The image's name is in the annotation that
containerd's import reads (``io.containerd.image.name``).
"""

import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Entry", "directory", "file", "layer_of", "link", "write_image"]

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # uname's words, and Go's


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member of a layer: a file with content, a symbolic link with a target, or a directory."""

    path: str
    kind: bytes
    mode: int = 0o755
    content: bytes = b""
    target: str = ""


def file(path: str, content: bytes, mode: int = 0o644) -> Entry:
    return Entry(path=path, kind=tarfile.REGTYPE, mode=mode, content=content)


def directory(path: str, mode: int = 0o755) -> Entry:
    return Entry(path=path, kind=tarfile.DIRTYPE, mode=mode)


def link(path: str, target: str) -> Entry:
    return Entry(path=path, kind=tarfile.SYMTYPE, mode=0o777, target=target)


def layer_of(entries: Iterable[Entry]) -> bytes:
    """An uncompressed layer, owned by root and without times: the same entries give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            member = tarfile.TarInfo(entry.path)
            member.type, member.mode, member.linkname, member.size = (
                entry.kind,
                entry.mode,
                entry.target,
                len(entry.content),
            )
            tar.addfile(member, io.BytesIO(entry.content))
    return buffer.getvalue()


def write_image(archive: Path, *, name: str, layers: Iterable[bytes], config: Mapping[str, object]) -> Path:
    """Write an image for this machine's platform, under a full name such as ``docker.io/library/busybox:1.37``.

    ``config`` is the image config's ``config`` object (Entrypoint, Env, User, ...). The archive appears by rename, so
    that one that exists is whole.
    """
    blobs: dict[str, bytes] = {}
    layers = list(layers)
    descriptors = [
        _blob(blobs, gzip.compress(x, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip") for x in layers
    ]
    image = {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(x).hexdigest()}" for x in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _blob(blobs, _json(image), "application/vnd.oci.image.config.v1+json"),
        "layers": descriptors,
    }
    descriptor = _blob(blobs, _json(manifest), "application/vnd.oci.image.manifest.v1+json")
    annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**descriptor, "annotations": annotations}]}
    layout = [file("oci-layout", _json({"imageLayoutVersion": "1.0.0"})), file("index.json", _json(index))]
    layout += [file(f"blobs/sha256/{digest}", content) for digest, content in blobs.items()]
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f".{archive.name}.{os.getpid()}")
    partial.write_bytes(layer_of(layout))
    partial.rename(archive)
    return archive


def _blob(blobs: dict[str, bytes], content: bytes, media_type: str) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
