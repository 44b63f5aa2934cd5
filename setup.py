"""The two steps of the build that pyproject.toml cannot express.

- protoc makes the kubelet's gRPC stubs, in every build: into the wheel for ``pip install .``, beside the ``.proto``
  files for an editable install.
- mypyc compiles the allocator, for a wheel only; its Python files are in the wheel as well, and do the same, slower.
  ``ROOTPORT_COMPILE`` in the environment decides: ``auto`` (the default) warns where it cannot be compiled, for example
  without a C compiler, and leaves it at the Python files; ``required`` fails there; ``no`` does not try.

With ``SOURCE_DATE_EPOCH`` in the environment the wheel is the same, byte for byte, whoever builds it and where, as
long as Python, the compiler and the build's own packages are the same (tests/unit/test_wheel.py).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Final

from setuptools import Command, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

PROTOCOL: Final = Path("kubeletplugin", "protocol")
SUFFIXES: Final = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
COMPILED: Final = Path("driver", "allocator")


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


class Wheel(bdist_wheel):
    """The usual wheel, with the allocator compiled where that is wanted and works."""

    def run(self) -> None:
        """Compile first: whether there are extensions decides where everything else is built, and the wheel's name."""
        choice = os.environ.get("ROOTPORT_COMPILE", "auto")
        if choice not in {"auto", "required", "no"}:
            raise SystemExit(f"ROOTPORT_COMPILE={choice}: must be auto, required or no")
        if choice != "no":
            try:
                self.distribution.ext_modules = _extensions()
                self.run_command("build_ext")
                self.root_is_pure = False
            except (Exception, SystemExit) as error:
                if choice == "required":
                    raise
                self.warn(f"the allocator is not compiled, and runs as Python: {type(error).__name__}: {error}")
                for output in self.get_finalized_command("build_ext").get_outputs():
                    Path(output).unlink(missing_ok=True)
                self.distribution.ext_modules = []
        super().run()

    def write_wheelfile(self, *arguments: Any, **settings: Any) -> None:
        """Write the last file before all are packed; then set modes, which must not depend on who builds."""
        super().write_wheelfile(*arguments, **settings)
        for path in Path(self.bdist_dir).rglob("*"):
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _extensions() -> list[Extension]:
    from mypyc.build import mypycify  # noqa: PLC0415 - only a wheel needs it

    # `make check` has checked the types, with the dependencies at hand; a build need not have them.
    options = ["--config-file=", "--no-incremental", "--ignore-missing-imports", "--follow-imports=silent"]
    sources = [path.as_posix() for path in sorted(COMPILED.glob("*.py"))]
    return mypycify([*options, *sources], debug_level="0", group_name="rootport")


setup(cmdclass={"build": Build, "build_protocol": BuildProtocol, "bdist_wheel": Wheel})
