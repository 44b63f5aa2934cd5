"""The one step of the build that pyproject.toml cannot express: protoc makes the kubelet's gRPC stubs.

It runs in every build: into the wheel for ``pip install .``, beside the ``.proto`` files for an editable install.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from setuptools import Command, setup
from setuptools.command.build import build

PROTOCOL: Final = Path("kubeletplugin", "protocol")
SUFFIXES: Final = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


class BuildProtocol(Command):
    """Make messages, their types and gRPC stubs of every .proto file (setuptools' SubCommand protocol)."""

    description = "make the kubelet's gRPC stubs with protoc"
    user_options: ClassVar[list[tuple[str, str | None, str | None]]] = []

    editable_mode: bool
    build_lib: str | None

    def initialize_options(self) -> None:
        """Set what setuptools fills in."""
        self.editable_mode = False
        self.build_lib = None

    def finalize_options(self) -> None:
        """Take the build folder from ``build_py``, as the rest of the package does."""
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        """Run protoc; a build without its stubs must fail."""
        from grpc_tools import protoc  # noqa: PLC0415 - only a build needs it; reading the metadata does not

        root = self._root()
        root.mkdir(parents=True, exist_ok=True)
        to = [f"--{kind}_out={root}" for kind in ("python", "pyi", "grpc_python")]
        # The include path is the repository's root: it makes the stubs import each other by their full names.
        code = protoc.main(["protoc", "-I.", *to, *self.get_source_files()])
        if code != 0:
            raise SystemExit(f"protoc failed with exit status {code}; its message stands above")

    def get_source_files(self) -> list[str]:
        """Return the files that an sdist needs."""
        return sorted(path.as_posix() for path in PROTOCOL.glob("*.proto"))

    def get_outputs(self) -> list[str]:
        """Return the files that :meth:`run` makes."""
        return [str(self._root() / output) for output in self._made()]

    def get_output_mapping(self) -> dict[str, str]:
        """Return nothing: no output is a copy of a source."""
        return {}

    def _root(self) -> Path:
        return Path() if self.editable_mode or self.build_lib is None else Path(self.build_lib)

    def _made(self) -> list[Path]:
        protos = [Path(source) for source in self.get_source_files()]
        return [proto.with_name(f"{proto.stem}{suffix}") for proto in protos for suffix in SUFFIXES]


class Build(build):
    """The usual build, and the stubs after it: what an earlier run left in the source tree must not win."""

    sub_commands: ClassVar = [*build.sub_commands, ("build_protocol", None)]


setup(cmdclass={"build": Build, "build_protocol": BuildProtocol})
