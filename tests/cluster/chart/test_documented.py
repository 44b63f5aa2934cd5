"""The values that the documents show are values of the chart, and change something."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

import pytest
import yaml

from tests.support.helm import CHART, Helm
from tests.support.paths import REPO

pytestmark = pytest.mark.needs_go
PAGES: Final = {
    page.relative_to(REPO).as_posix(): page.read_text()
    for page in (REPO / "README.md", CHART / "README.md", *sorted((REPO / "docs").rglob("*.md")))
}
OPTIONS: Final = sorted(
    {
        (page, shlex.split(found.replace("=", " ", 1) if found.startswith("--set=") else found)[1])
        for page, text in PAGES.items()
        if not page.startswith("docs/user/migrate")  # other projects' charts
        for found in re.findall(r"--set[ =](?:'[^']+'|[^\s`\\]+)", text)
        if "=" in found.removeprefix("--set=")
    }
)
FILES: Final = [
    (page, yaml.safe_load(block))
    for page, text in PAGES.items()
    for block in re.findall(r"```yaml\n(# values\.yaml\n.*?)```", text, re.DOTALL)
]


def test_there_are_some() -> None:
    assert {page for page, _ in OPTIONS} >= {"docs/operator/install.md", "resourceclasses/README.md"}
    assert {page for page, _ in FILES} >= {"docs/operator/install.md", "resourceclasses/README.md"}


@pytest.mark.parametrize(("page", "option"), OPTIONS, ids=str)
def test_an_option(helm: Helm, page: str, option: str) -> None:
    assert helm.render({}, f"--set={option}") != helm.render(), page


@pytest.mark.parametrize(("page", "values"), FILES, ids=[page for page, _ in FILES])
def test_a_file(helm: Helm, page: str, values: dict[str, Any]) -> None:
    assert helm.render(values) != helm.render(), page
