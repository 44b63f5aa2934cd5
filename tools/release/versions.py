"""The version strings of the tree: where they are, whether they agree, and how to change them all.

The version is Python's (PEP 440), such as 0.2.0.dev0; the Helm chart's own is the same as Semantic Versioning writes
it, 0.2.0-dev.0, because Helm takes no other.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "VERSION_HOME",
    "chart_version",
    "current_version",
    "disagreements",
    "is_release",
    "mentions",
    "read_tree",
    "released_versions",
    "with_version",
]

VERSION_HOME: Final = "driver/__init__.py"
"""The file whose version is the right one where others differ."""

_PYTHON: Final = r"\d+\.\d+\.\d+(?:rc\d+)?(?:\.dev\d+)?"
_SEMVER: Final = r"\d+\.\d+\.\d+(?:-[0-9A-Za-z]+(?:\.[0-9A-Za-z]+)*)?"
_VERSION: Final = re.compile(r"(\d+\.\d+\.\d+)(?:rc(\d+))?(?:\.dev(\d+))?")


@dataclass(frozen=True, slots=True)
class _Form:
    """A way in which files name the version; the only group of ``pattern`` is the version."""

    files: re.Pattern[str]
    pattern: re.Pattern[str]
    of_chart: bool = False


_ANYWHERE: Final = re.compile(r"(?:.*/)?(?:Dockerfile|[^/]+\.(?:md|ya?ml|json|tpl|txt))")
_CHART: Final = re.compile(r"resourceclasses/Chart\.yaml")
_FORMS: Final = (
    _Form(re.compile(re.escape(VERSION_HOME)), re.compile(rf'^__version__: Final = "({_PYTHON})"$', re.MULTILINE)),
    _Form(re.compile(r"pyproject\.toml"), re.compile(rf'^version = "({_PYTHON})"$', re.MULTILINE)),
    _Form(_CHART, re.compile(rf"^version: ({_SEMVER})$", re.MULTILINE), of_chart=True),
    _Form(_CHART, re.compile(rf"^appVersion: ({_PYTHON})$", re.MULTILINE)),
    _Form(_ANYWHERE, re.compile(rf"\brootport:({_PYTHON})(?![\w.-]*\w)")),
    _Form(_ANYWHERE, re.compile(rf"\bnewTag: ({_PYTHON})\b")),
    _Form(_ANYWHERE, re.compile(rf"\brootport-({_PYTHON})-(?:py3|cp\d)")),
    _Form(_ANYWHERE, re.compile(rf"\brootport-({_SEMVER})\.tgz"), of_chart=True),
    _Form(_ANYWHERE, re.compile(rf"\bcharts/rootport --version ({_SEMVER})\b"), of_chart=True),
)
_ALWAYS: Final = (
    VERSION_HOME,
    "pyproject.toml",
    "Dockerfile",
    "README.md",
    "docs/operator/install.md",
    "resourceclasses/kustomization.yaml",
)
"""Files that name the version; the chart is another where there is one."""
_LEFT_OUT: Final = ("CHANGELOG.md", "tests/")
"""History, and what was written by other versions (tests read the version from VERSION_HOME)."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A place that names a version, which is in Python's form here."""

    file: str
    line: int
    version: str


def chart_version(version: str) -> str:
    """Return the version as Semantic Versioning writes it: 0.2.0rc1.dev3 is 0.2.0-rc.1.dev.3.

    Raises:
        ValueError: It is not a version of ours.
    """
    matched = _VERSION.fullmatch(version)
    if matched is None:
        raise ValueError(f"{version} is not a version such as 0.2.0, 0.2.0rc1 or 0.3.0.dev0")
    number, candidate, development = matched.groups()
    parts = [f"rc.{candidate}"] if candidate is not None else []
    parts += [f"dev.{development}"] if development is not None else []
    return f"{number}-{'.'.join(parts)}" if parts else number


def is_release(version: str) -> bool:
    """Return whether the version can be released: development versions cannot."""
    return _VERSION.fullmatch(version) is not None and ".dev" not in version


def current_version(tree: Mapping[str, str]) -> str:
    """Return the version that VERSION_HOME has.

    Raises:
        ValueError: It has none.
    """
    matched = _FORMS[0].pattern.search(tree.get(VERSION_HOME, ""))
    if matched is None:
        raise ValueError(f"{VERSION_HOME} has no line __version__ with a version such as 0.2.0")
    return matched[1]


def mentions(tree: Mapping[str, str]) -> Iterator[Mention]:
    """Yield each place that names a version of Rootport, of a tree as :func:`read_tree` returns it."""
    for file, text in tree.items():
        for form in _FORMS:
            if form.files.fullmatch(file):
                for matched in form.pattern.finditer(text):
                    line = text.count("\n", 0, matched.start()) + 1
                    yield Mention(file, line, _python_form(matched[1]) if form.of_chart else matched[1])


def released_versions(changelog: str) -> frozenset[str]:
    """Return the versions that the changelog says were released: those with a date."""
    return frozenset(re.findall(rf"^## ({_PYTHON}) \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE))


def disagreements(tree: Mapping[str, str], released: frozenset[str] = frozenset()) -> list[str]:
    """Return what is wrong with the tree's version strings, a sentence each; nothing where they agree.

    A page may name versions that were released before, as an upgrade's does.
    """
    version = current_version(tree)
    found = list(mentions(tree))
    wrong = [
        f"{mention.file}:{mention.line} names version {mention.version}, and {VERSION_HOME} {version}"
        for mention in found
        if mention.version != version and mention.version not in released
    ]
    named = {mention.file for mention in found if mention.version == version}
    needed = [*_ALWAYS, *(file for file in tree if _CHART.fullmatch(file))]
    return wrong + [f"{file} does not name version {version}" for file in needed if file not in named]


def with_version(tree: Mapping[str, str], version: str) -> dict[str, str]:
    """Return the files that change when the tree's version becomes this one.

    Raises:
        ValueError: The new version, or the tree's, is not one of ours.
    """
    in_chart = chart_version(version)
    old = current_version(tree)
    changed = {}
    for file, text in tree.items():
        new = text
        for form in _FORMS:
            if form.files.fullmatch(file):
                was, now = (chart_version(old), in_chart) if form.of_chart else (old, version)
                new = form.pattern.sub(lambda matched, was=was, now=now: _replaced(matched, was, now), new)
        if new != text:
            changed[file] = new
    return changed


def read_tree(repo: Path) -> dict[str, str]:
    """Return the text of each file under version control that could name a version, by its path in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repo,
        capture_output=True,
        check=True,
        text=True,
    )
    names = sorted({name for name in listed.stdout.split("\0") if name and not name.startswith(_LEFT_OUT)})
    return {
        name: (repo / name).read_text()
        for name in names
        if any(form.files.fullmatch(name) for form in _FORMS) and (repo / name).is_file()
    }


def _replaced(matched: re.Match[str], was: str, now: str) -> str:
    if matched[1] != was:
        return matched[0]
    start, end = (at - matched.start() for at in matched.span(1))
    return f"{matched[0][:start]}{now}{matched[0][end:]}"


def _python_form(chart: str) -> str:
    number, _, rest = chart.partition("-")
    rest = rest.replace("rc.", "rc").replace("dev.", "dev")
    return number + (f".{rest}" if rest.startswith("dev") else rest)
