"""Run a Dockerfile where there is no container engine: Debian's buildah on a base made by debootstrap.

Both are unpacked into a cache; nothing is installed on the machine. Needed: Debian 12 (or another whose packages have
the names below), root, and the package mirrors that the machine's own apt and pip are set up for.
"""

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ImageBuilder", "image_builder", "unpack_debian", "unpacked_whole"]

_BUILDAH = ("buildah", "libgpgme11", "libassuan0", "libdevmapper1.02.1", "libgpg-error0", "libseccomp2", "patchelf")
_SUITE = "bookworm"  # its Python is 3.11, as in the Dockerfile's own base
_MIRROR = "http://deb.debian.org/debian"
_TIME = 315532800  # 1980-01-01; any will do
_BASE = "localhost/python-base:latest"
_LEFT_OUT = (
    "dev",
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
)
_PIP_OPTIONS = ("index-url", "extra-index-url", "trusted-host", "proxy")
_APT_OPTIONS = tuple(f"Acquire::{x}" for x in ("http", "https", "Retries", "Check-Valid-Until", "Check-Date"))
_CA_IN_BUILD = "/etc/ssl/certs/build-ca.pem"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuilder:
    """Buildah with a store of its own under ``home``: built layers stay there, and a next build starts from them."""

    buildah: Path
    driver: str
    home: Path

    def build(self, context: Path, name: str, *arguments: str) -> None:
        """Build the Dockerfile in ``context`` and give the image a name."""
        self._run("bud", "--isolation", "chroot", "--layers", *self._policy(), *arguments, "--tag", name, str(context))

    def build_with_python(self, context: Path, name: str, *arguments: str) -> None:
        """As ``build``, on a Python made here; this machine's pip and apt settings reach the build, not the image.

        All files in the layers that this build makes have one time. Layers of an earlier build are taken as they are,
        also where that one had another ``--timestamp`` or other volumes, for which buildah leaves empty files in /etc:
        who compares layers must give ``--no-cache``.
        """
        volumes = [
            f"--volume={self._pip_settings()}:/etc/pip.conf:ro",
            f"--volume={self._apt_settings()}:/etc/apt/apt.conf.d/90build:ro",
        ]
        authorities = _certificate_authorities()
        if authorities:
            volumes.append(f"--volume={authorities}:{_CA_IN_BUILD}:ro")
        self._make_base()
        self.build(context, name, f"--build-arg=BASE={_BASE}", f"--timestamp={_TIME}", *volumes, *arguments)

    def save(self, name: str, archive: Path, stored_name: str) -> None:
        """Write the image as an OCI archive, under the name it shall have at the node."""
        partial = archive.with_name(f".{archive.name}.{os.getpid()}")
        self._run("push", *self._policy(), name, f"oci-archive:{partial}:{stored_name}")
        partial.rename(archive)

    def remove(self, name: str) -> None:
        """Forget the image, and what only it needs."""
        self._run("rmi", name)

    def _make_base(self) -> None:
        if self._has(_BASE):
            return
        with tempfile.TemporaryDirectory(dir=self.home) as scratch:
            context = Path(scratch)
            _debootstrap(self.home.parent, context / "rootfs")
            left_out = [f"--exclude=./{x}/*" for x in _LEFT_OUT]
            _run(["tar", "-C", context / "rootfs", "-cf", context / "rootfs.tar", *left_out, "."])
            (context / ".dockerignore").write_text("rootfs\n")
            (context / "Dockerfile").write_text("FROM scratch\nADD rootfs.tar /\n")
            self.build(context, _BASE)

    def _has(self, name: str) -> bool:
        return (
            subprocess.run(self._command("inspect", "--type=image", name), capture_output=True, check=False).returncode
            == 0
        )

    def _pip_settings(self) -> Path:
        """A pip.conf with this machine's index, and the authorities that its TLS connections need."""
        found = {}
        listed = _run([sys.executable, "-m", "pip", "config", "list"])
        for line in listed.splitlines():
            key, _, value = line.partition("=")
            found[key.rpartition(".")[2]] = value.strip("'\"")
        settings = {key: found[key] for key in _PIP_OPTIONS if key in found}
        if _certificate_authorities():
            settings["cert"] = _CA_IN_BUILD
        path = self.home / "pip.conf"
        path.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
        return path

    def _apt_settings(self) -> Path:
        """An apt.conf with how this machine fetches: proxies, checks of dates, retries."""
        path = self.home / "apt.conf"
        path.write_text(_run(["apt-config", "dump", "--format", '%F "%v";%n', *_APT_OPTIONS]))
        return path

    def _policy(self) -> tuple[str, str]:
        path = self.home / "policy.json"
        path.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        return "--signature-policy", str(path)

    def _command(self, *arguments: str) -> list[str]:
        store = [
            f"--storage-driver={self.driver}",
            f"--root={self.home / self.driver}",
            f"--runroot={self.home / 'run'}",
        ]
        return [str(self.buildah), *store, *arguments]

    def _run(self, *arguments: str) -> None:
        _run(self._command(*arguments))


def image_builder(cache: Path) -> ImageBuilder:
    """The builder in this cache, with the storage driver that works there: overlay, or else vfs, which is slower."""
    home = cache / "buildah"
    home.mkdir(parents=True, exist_ok=True)
    buildah = _buildah(cache)
    overlay = ImageBuilder(buildah=buildah, driver="overlay", home=home)
    works = subprocess.run(overlay._command("images"), capture_output=True, check=False).returncode == 0
    return overlay if works else ImageBuilder(buildah=buildah, driver="vfs", home=home)


def unpack_debian(packages: Sequence[str], target: Path) -> None:
    """Fetch Debian packages and unpack them under a folder, without installing them.

    Raises:
        RuntimeError: apt-get or dpkg failed; the message is theirs.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        download = ["apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "download", *packages]
        try:
            _run(download, directory=Path(scratch))
        except RuntimeError:
            _run(["apt-get", "--quiet", "update"])  # its lists are old, or there are none yet
            _run(download, directory=Path(scratch))
        for package in sorted(Path(scratch).glob("*.deb")):
            _run(["dpkg", "-x", package, target])


def unpacked_whole(packages: Sequence[str], target: Path) -> Path:
    """The folder with these packages: made once, and there only when it is whole."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=target.parent))
        unpack_debian(packages, scratch)
        scratch.chmod(0o755)
        scratch.rename(target)
    return target


def _buildah(cache: Path) -> Path:
    found = shutil.which("buildah")
    if found:
        return Path(found)
    root = unpacked_whole(_BUILDAH, cache / "debian" / "buildah")
    binary = root / "usr/bin/buildah"
    patched = binary.with_name("buildah-here")
    if not patched.exists():
        # Buildah starts itself again with an empty environment and from a copy in memory, so the place of its
        # libraries must be written in it.
        libraries = ":".join(str(x) for x in sorted({x.parent for x in root.rglob("lib*.so.*")}))
        scratch = binary.with_name(f"buildah-{os.getpid()}")
        _run([root / "usr/bin/patchelf", "--force-rpath", "--set-rpath", libraries, "--output", scratch, binary])
        scratch.rename(patched)
    return patched


def _debootstrap(cache: Path, rootfs: Path) -> None:
    tool = unpacked_whole(("debootstrap",), cache / "debian" / "debootstrap")
    command: list[str | Path] = [
        tool / "usr/sbin/debootstrap",
        "--variant=minbase",
        "--include=python3-venv",
        _SUITE,
        rootfs,
        _MIRROR,
    ]
    _run(command, environment={"DEBOOTSTRAP_DIR": str(tool / "usr/share/debootstrap")})
    (rootfs / "usr/bin/python").symlink_to("python3")


def _certificate_authorities() -> str | None:
    return os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile


def _run(
    command: Sequence[str | Path], *, directory: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-4000:]
        raise RuntimeError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{said}")
    return done.stdout
