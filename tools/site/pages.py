"""Decides what the site has: where each file of the repository is on it, and how a page's links lead there.

The documents are written for a reader of the repository: a link is a path from the page to a file or a folder. The site
has the same pages under the same names, less ``docs/``. Files and folders outside ``docs`` that a page links to (an
example, a folder of manifests) become pages as well, which show the file or list the folder, so that the site needs no
other host. No I/O here: the caller reads and writes.
"""

from __future__ import annotations

import os.path
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

__all__ = ["SiteError", "address", "index_page", "linked", "listing", "outside_fences", "rewritten", "source_page"]

HOME: Final = "README.md"
"""The repository's file that becomes the site's first page."""

_FENCE: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_LANGUAGES: Final = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".xml": "xml", ".py": "python", ".sh": "bash"}


class SiteError(Exception):
    """The documents cannot become a site: a page or a link is wrong."""


def address(path: str) -> str:
    """Return where a file of the repository is in the site's source; a folder's path ends with ``/``."""
    if path == HOME:
        return "index.md"
    path = path.removeprefix("docs/") or "docs/"
    folder, name = posixpath.split(path)
    if name in ("", HOME):
        return posixpath.join(folder, "index.md")
    return path if name.endswith(".md") or _is_image(name) else f"{path}.md"


def linked(page: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield a page's relative links: as written, and the path in the repository, without an anchor."""
    for part, is_prose in outside_fences(text):
        if not is_prose:
            continue
        for target in _LINK.findall(part):
            if not re.match(r"[a-z][a-z+.-]*:", target):
                name = target.partition("#")[0]
                yield target, posixpath.normpath(posixpath.join(posixpath.dirname(page), name)) if name else page


def rewritten(page: str, text: str, is_folder: Callable[[str], bool]) -> str:
    """Return a page's text with links to where the site has things.

    Args:
        page: The page's path in the repository.
        text: Its Markdown.
        is_folder: Says whether a path in the repository is a folder.
    """
    here = posixpath.dirname(address(page))
    found = dict(linked(page, text))

    def moved(match: re.Match[str]) -> str:
        target = match[1]
        if target not in found or target.startswith("#"):
            return match[0]
        path = found[target]
        _, hash_sign, anchor = target.partition("#")
        there = address(f"{path}/" if is_folder(path) else path)
        return f"]({os.path.relpath(there, here or '.')}{hash_sign}{anchor})"

    return "".join(_LINK.sub(moved, part) if is_prose else part for part, is_prose in outside_fences(text))


def outside_fences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a Markdown text in order, each with whether it is prose rather than a fenced block."""
    end = 0
    for fence in _FENCE.finditer(text):
        yield text[end : fence.start()], True
        yield fence[0], False
        end = fence.end()
    yield text[end:], True


def source_page(path: str, text: str) -> str:
    """Return a page that shows a file."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    language = _LANGUAGES.get(posixpath.splitext(path)[1], "text")
    return f"---\norphan: true\n---\n\n# {path}\n\n{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def listing(path: str, names: Iterable[tuple[str, str]]) -> str:
    """Return a page that lists a folder.

    Args:
        path: The folder.
        names: Its files and folders, by path in the repository, each with a line about it or an empty string.
    """
    rows = (
        f"| [{posixpath.relpath(name, path)}]({posixpath.relpath(name, path)}) | {_cell(about)} |"
        for name, about in names
    )
    return "\n".join((f"# {path}\n", "| file | |", "|---|---|", *rows, ""))


def index_page(home: str, nav: Mapping[str, Iterable[str]]) -> str:
    """Return the first page: the repository's README, with the navigation."""
    trees = (
        "\n".join(
            (
                f"```{{toctree}}\n:hidden:\n:caption: {caption}\n",
                *(address(page).removesuffix(".md") for page in pages),
                "```",
            )
        )
        for caption, pages in nav.items()
    )
    return "\n\n".join((home.rstrip(), *trees)) + "\n"


def _is_image(name: str) -> bool:
    return name.endswith((".png", ".svg"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
