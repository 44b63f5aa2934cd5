"""The YAML and JSON that the documents show."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from driver.api import API_VERSION
from tests.support.documents.console import PAGES
from tests.support.paths import REPO

__all__ = ["BLOCKS", "Block", "own_parameters"]

_BLOCK: Final = re.compile(r"^( *)```(?:yaml|json)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_OF_CLUSTERS: Final = re.compile(r"v1|apps/v1|batch/v1|(resource|rbac\.authorization|networking)\.k8s\.io/v1")
_CLAIMS_PARAMETERS: Final = frozenset({"GpuConfig", "MigConfig", "RdmaConfig", "FpgaConfig"})


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def documents(self) -> list[Any]:
        """What the text says; JSON is YAML as well."""
        return list(yaml.safe_load_all(self.text))

    def objects(self) -> list[dict[str, Any]]:
        """Those documents that are objects of any API."""
        return [each for each in self.documents() if isinstance(each, dict) and {"apiVersion", "kind"} <= each.keys()]

    def of_rootport(self) -> list[dict[str, Any]]:
        """Files of Rootport's administrators and users."""
        return [each for each in self.objects() if each["apiVersion"] == API_VERSION]

    def of_clusters(self) -> list[dict[str, Any]]:
        """Objects that every API server takes."""
        return [each for each in self.objects() if _OF_CLUSTERS.fullmatch(each["apiVersion"]) and "metadata" in each]


def own_parameters(block: Block) -> list[dict[str, Any]]:
    """Parameters of claims and classes, however deep in a block."""

    def below(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if value.get("apiVersion") == API_VERSION and value.get("kind") in _CLAIMS_PARAMETERS:
                yield value
            for each in value.values():
                yield from below(each)
        elif isinstance(value, list):
            for each in value:
                yield from below(each)

    return list(below(block.documents()))


def _blocks() -> Iterator[Block]:
    for page in PAGES:
        text = (REPO / page).read_text(encoding="utf-8")
        for found in _BLOCK.finditer(text):
            yield Block(page, text.count("\n", 0, found.start()) + 2, textwrap.dedent(found[2]))


BLOCKS: Final = tuple(_blocks())
