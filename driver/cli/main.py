"""The entry point of ``rootport``: finds the command, and turns every expected error into one clear message.

Commands are imported when they run, so that ``rootport --help`` stays fast; nothing heavy may be imported here.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from driver import __version__
from driver.adapters.command_line import INTERRUPTED, run_command
from driver.cli import interrupts
from driver.cli.output import print_error
from driver.errors import RootportError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["cli", "main"]

_COMMANDS: Final = {
    "explain": "Say why a claim is pending, and what would make it fit.",
    "status": "Show what is free, allocated and unhealthy, by node; one node as a tree.",
    "top": "Show what the GPUs do now, and who has them.",
    "migrate": "Show how far a node is on its way from device plugins to Rootport, and the next command.",
    "lint": "Check claims before they are applied: what can never fit, typos, what costs the scheduler.",
    "convert": "Write manifests for Koordinator, HAMi, device plugins and others with claims.",
    "simulate": "Allocate claims on simulated nodes and write their CDI files, without a cluster.",
    "place": "Show which node and devices placement would give to pods, and why.",
    "bench-placement": "Replay a trace with every placement policy, beside published results.",
    "pairs": "Print a claim for GPUs and the RDMA NICs next to them.",
    "topo": "Show a machine's PCIe tree and the distance between its devices.",
    "slices": "Print the ResourceSlices of a machine.",
    "allocate": "Answer allocation problems, one JSON line each.",
    "completion": "Print the script that completes commands and options in a shell.",
}

_KUBECTL_PLUGIN: Final = "kubectl-rootport"
_COMPLETE: Final = "_ROOTPORT_COMPLETE"
"""The environment variable with what the script of ``rootport completion`` asks for (click's convention)."""


class _LazyGroup(click.Group):
    """A group whose commands are imported only when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"driver.cli.{cmd_name.replace('-', '_')}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"driver.cli.{cmd_name}.command is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = _near(args[0])
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # click would import every command for its one-line help.
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell that completes needs it

        commands = [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        # click would import every command for its one-line help.
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog="""\b
Examples:
  rootport topo examples/machines/azure-nd-h100-v5.yaml
  rootport simulate --topology topo.xml --claims claim.yaml --out out
  rootport convert all.yaml | kubectl apply -f -
  rootport explain claim ml/train --from examples/explain
  rootport status

A topology file is what any NCCL program writes with NCCL_TOPO_DUMP_FILE=topo.xml, or a machine
description in YAML.
""")  # fmt: skip
@click.version_option(__version__, prog_name="rootport")
def cli() -> None:
    """Rootport: a Kubernetes DRA driver for GPUs, RDMA NICs and FPGAs that knows the PCIe topology.

    status, top, explain, place and migrate ask a cluster, status, explain and place also a dump of one, and lint and
    convert can ask either. The others need none: they show what the driver sees, publishes and prepares.
    """


def main() -> None:
    """Run the command line.

    Exit codes: 0 done; 1 a claim cannot start, or the node is in the way; 2 bad input; 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ◀ gets a ?, not a traceback
    sys.exit(_run())


def _near(name: str) -> str | None:
    from driver.spelling import close_matches  # noqa: PLC0415 - only a mistake needs it

    return next(iter(close_matches(name, _COMMANDS)), None)


def _program() -> str:
    """Return what the user typed: kubectl runs ``kubectl-rootport`` for ``kubectl rootport`` (kubectl's plugins)."""
    return "kubectl rootport" if Path(sys.argv[0]).name == _KUBECTL_PLUGIN else "rootport"


def _run() -> int:
    try:
        code = _exit_code()
    except KeyboardInterrupt:
        return _interrupted()
    except Exception:
        # A library in between may have made its own error of the KeyboardInterrupt, as pydantic's serializer does.
        if interrupts.happened():
            return _interrupted()
        raise
    return _interrupted() if interrupts.happened() or code == INTERRUPTED else code


def _interrupted() -> int:
    click.echo(interrupts.MESSAGE, err=True)
    return interrupts.EXIT_CODE


def _exit_code() -> int:
    if instruction := os.environ.get(_COMPLETE):
        from click.shell_completion import shell_complete  # noqa: PLC0415 - only a shell that completes needs it

        return shell_complete(cli, {}, _program(), _COMPLETE, instruction)
    try:
        return run_command(cli, name=_program(), show_error=_show_error, prints_result=True)
    except OSError as error:
        click.echo(f"rootport: {error}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _show_error(error: RootportError) -> None:
    if interrupts.happened():
        raise error
    print_error(error)


if __name__ == "__main__":
    main()
