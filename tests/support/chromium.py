"""A Chromium for tests, taken from Debian's packages into a cache outside the repository; nothing is installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tests.support.cluster.binaries import cache_folder
from tests.support.needed_tools import require_tool

__all__ = ["chromium"]

_PACKAGES: Final = ("chromium-headless-shell", "fonts-dejavu-core")
_BINARY: Final = "usr/lib/chromium/chromium-headless-shell"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium, driven by Playwright; without apt-get the test is skipped, or in CI fails."""
    for tool in ("apt-get", "dpkg-deb"):
        require_tool(tool)
    root = _unpacked()
    libraries = [str(path) for path in sorted(root.glob("usr/lib/*-linux-gnu"))]
    libraries += [str(path) for path in sorted(root.glob("usr/lib/*-linux-gnu/pulseaudio"))]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(libraries),
        # Fontconfig looks for fonts below the XDG data folder.
        "XDG_DATA_HOME": str(root / "usr/share"),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=root / _BINARY,
            # The sandbox wants user namespaces, which containers and root seldom have; the pages are our own.
            args=["--no-sandbox"],
            env=dict(environment),
        )
        try:
            yield browser
        finally:
            browser.close()


def _unpacked() -> Path:
    """The folder that has Chromium and the libraries that this machine lacks; downloaded the first time (100 MB)."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    root = cache / "chromium"
    with (cache / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / _BINARY).exists():
            shutil.rmtree(root, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".chromium.") as text:
                scratch = Path(text)
                _download(scratch / "archives")
                for archive in sorted((scratch / "archives").glob("*.deb")):
                    subprocess.run(["dpkg-deb", "--extract", archive, scratch / "root"], check=True)
                (scratch / "root").rename(root)
    return root


def _download(archives: Path) -> None:
    (archives / "partial").mkdir(parents=True)
    download = [
        *("apt-get", "--quiet", "--quiet", "--yes", "--no-install-recommends", "--download-only"),
        # Nothing is installed, so that neither root nor dpkg's lock is needed.
        *("-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User=root", "-o", f"Dir::Cache::archives={archives}"),
        *("install", "--reinstall", *_PACKAGES),
    ]
    if subprocess.run(download, capture_output=True, check=False).returncode != 0:
        subprocess.run(["apt-get", "--quiet", "--quiet", "update"], stdout=sys.stderr, check=True)
        subprocess.run(download, stdout=sys.stderr, check=True)
