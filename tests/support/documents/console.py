"""The commands of the documents: what follows ``$`` in blocks of the language console, with what they print."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.support.paths import REPO

__all__ = ["PAGES", "Command", "commands", "is_shown_by", "programs"]

PAGES: Final = tuple(
    sorted(
        page.relative_to(REPO).as_posix()
        for page in (
            *REPO.glob("*.md"),
            *(page for folder in ("docs", "examples", "resourceclasses") for page in (REPO / folder).rglob("*.md")),
        )
    )
)

_BLOCK: Final = re.compile(r"^( *)```console\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_HEREDOC: Final = re.compile(r"<<-?'?(\w+)'?$")
_COMMENT: Final = re.compile(r"\s+# .*$")
_CUT: Final = ("…", "...")


@dataclass(frozen=True, slots=True)
class Command:
    """A command on a page.

    Attributes:
        page: The page's path in the repository.
        line: The number of its first line.
        text: What is typed, without the comment behind it.
        output: What the page shows that it prints; empty where it shows nothing.
    """

    page: str
    line: int
    text: str
    output: str


def commands(page: str) -> Iterator[Command]:
    """Yield a page's commands in order.

    Raises:
        ValueError: A block has no command.
    """
    text = (REPO / page).read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start()) + 2
        lines = textwrap.dedent(block[2]).splitlines()
        if not lines or not lines[0].startswith("$ "):
            raise ValueError(f"{page}:{first}: a console block begins with a command; what it prints alone is ```text")
        yield from _block(page, first, lines)


def _block(page: str, first: int, lines: list[str]) -> Iterator[Command]:
    index = 0
    while index < len(lines):
        start, typed = index, [lines[index].removeprefix("$ ")]
        index += 1
        if heredoc := _HEREDOC.search(typed[0]):
            while typed[-1] != heredoc[1]:
                typed.append(lines[index])
                index += 1
        while typed[-1].endswith("\\"):
            typed.append(lines[index])
            index += 1
        shown = []
        while index < len(lines) and not lines[index].startswith("$ "):
            shown.append(lines[index])
            index += 1
        typed[0] = _COMMENT.sub("", typed[0])
        yield Command(page, first + start, "\n".join(typed), "\n".join(shown))


def programs(text: str) -> list[str]:
    """Return the programs that a command runs: the first word of each part of its pipeline or substitution."""
    head = text.partition("<<")[0].replace("\\\n", " ")
    inner = re.findall(r"\$\(([^()]*)\)", head)
    parts = re.split(r"\||&&|;", re.sub(r"'[^']*'|\"[^\"]*\"", "x", head))
    return [shlex.split(part)[0] for part in (*parts, *inner) if part.strip(" &")]


def is_shown_by(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed: line by line, but for ends and lines that it cuts with an ellipsis."""
    pattern = ""
    for line in shown.splitlines():
        if line.strip() in _CUT:
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(map(re.escape, line.split("…"))) + r" *\n"
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n" if printed.strip() else "") is not None
