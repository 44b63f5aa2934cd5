"""The first process of a :class:`machine.Machine`: makes its file system view, then reaps until it is killed.

Started in new mount, network, process, host name and IPC namespaces; writes ``ready`` when the view is made.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "kmsg": (1, 11),
    "tty": (5, 0),
}
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}


def main(folder: Path, host_name: str) -> None:
    """Make the view, say so, and wait for orphans until the end."""
    for name in ("var", "etc", "opt"):
        _overlay(folder, name)
    dev = folder / "dev"
    dev.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", dev)
    for name, (major, minor) in _DEVICES.items():
        os.mknod(dev / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        (dev / name).chmod(0o666)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    for name, kind, options in (("pts", "devpts", "newinstance,ptmxmode=0666"), ("shm", "tmpfs", "mode=1777")):
        (dev / name).mkdir()
        _mount("-t", kind, "-o", options, kind, dev / name)
    (dev / "mqueue").mkdir()
    _mount("-t", "mqueue", "mqueue", dev / "mqueue")
    _mount("--move", dev, Path("/dev"))
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", Path("/run"))
    # The kubelet wants volumes to be shared between mount namespaces (mountPropagation).
    _mount("--make-rshared", Path("/"))
    subprocess.run(["hostname", host_name], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for setting in ("net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"):
        path = Path("/proc/sys") / setting
        if path.exists():
            path.write_text("1" if "forward" in setting else "0")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        try:
            os.wait()
        except ChildProcessError:
            signal.pause()


def _overlay(folder: Path, name: str) -> None:
    """The host's folder with the machine's changes on top of it, which only the machine sees."""
    upper, work = folder / f"{name}.changes", folder / f"{name}.work"
    upper.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    _mount("-t", "overlay", "overlay", "-o", f"lowerdir=/{name},upperdir={upper},workdir={work}", Path("/") / name)


def _mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True)


main(Path(sys.argv[1]), sys.argv[2])
