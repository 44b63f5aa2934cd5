"""``rootport completion``: prints the script that makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["command"]


@click.command("completion", epilog="""\b
Put it where your shell reads it when it starts:
  bash  source <(rootport completion bash)      # in ~/.bashrc; bash 4.4 or later
  zsh   source <(rootport completion zsh)       # in ~/.zshrc, after compinit
  fish  rootport completion fish | source       # in ~/.config/fish/config.fish

Exit codes: 0 printed; 2 no such shell.
""")  # fmt: skip
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and file names in a shell."""
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"no completion is known for {shell}")
    script = made(context.find_root().command, {}, "rootport", "_ROOTPORT_COMPLETE")
    # Not source(): it runs the bash that is found first, which need not be the user's, to ask for its version.
    click.echo(script.source_template % script.source_vars(), nl=False)
