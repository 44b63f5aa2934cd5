"""The reference of a program's command line, from what its ``--help`` is made of (click)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from tools.reference.tables import cell, escaped

__all__ = ["command_page", "group_pages"]


def group_pages(group: click.Group, name: str) -> str:
    """Return the sections of a program with commands: its own, and one for each command."""
    context = click.Context(group, info_name=name, **group.context_settings)
    parts = [command_page(group, name, level=2)]
    for command_name in group.list_commands(context):
        command = group.get_command(context, command_name)
        if command is None:
            raise KeyError(command_name)
        parts.append(command_page(command, f"{name} {command_name}", level=2, parent=context))
    return "\n".join(parts)


def command_page(command: click.Command, name: str, *, level: int, parent: click.Context | None = None) -> str:
    """Return the section of a command: usage, what it does, its options, examples and exit codes."""
    info_name = name.rpartition(" ")[2] if parent else name
    context = click.Context(command, info_name=info_name, parent=parent, **command.context_settings)
    lines = [f"{'#' * level} {name}\n"]
    lines += [f"{paragraph}\n" for paragraph in _paragraphs(command.help or "")]
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    lines.append(f"```text\n{usage}\n```\n")
    found = (param.get_help_record(context) for param in command.get_params(context))
    records = [record for record in found if record is not None and record[1]]
    lines.append("| option | |\n|---|---|")
    lines += [f"| {_names(names)} | {cell(_escaped(text))} |" for names, text in records]
    lines.append("")
    lines += _epilog(command.epilog or "")
    return "\n".join(lines)


def _names(names: str) -> str:
    return cell(f"`{names}`")


def _escaped(text: str) -> str:
    return escaped(text).replace("*", "\\*").replace("_", "\\_")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            block = paragraph.removeprefix("\b").strip()
            yield f"```text\n{block}\n```"
        else:
            yield _escaped(" ".join(paragraph.split()))


def _epilog(text: str) -> Iterator[str]:
    """Yield the parts of an epilog: under a line that ends with a colon an indented block, all else as paragraphs."""
    prose: list[str] = []
    block: list[str] = []
    title = ""

    def ended() -> Iterator[str]:
        nonlocal title
        if block:
            margin = min(len(line) - len(line.lstrip()) for line in block)
            yield f"{_escaped(title)}\n\n```text\n" + "\n".join(line[margin:] for line in block) + "\n```\n"
        elif prose:
            yield _escaped(" ".join(prose)) + "\n"
        prose.clear()
        block.clear()
        title = ""

    for line in text.replace("\b", "").splitlines():
        if title and line.startswith(" "):
            block.append(line)
        elif not line.strip():
            yield from ended()
        elif line.endswith(":") and not line.startswith(" "):
            yield from ended()
            title = line
        else:
            if block:
                yield from ended()
            prose.append(line.strip())
    yield from ended()
