"""While an update rolls, pods of the last release run under the roles of this version: they must still be enough."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.last_release import LAST_RELEASE, source_of
from tests.support.paths import REPO

WITHDRAWN: Final[frozenset[tuple[str, ...]]] = frozenset()
"""Rights that this version takes away on purpose: role, group, resource, verb, name. Its notes must say what pods of
the last release cannot do until they are replaced."""


def rights(tree: Path) -> set[tuple[str, ...]]:
    """Of each role, component or not, what it allows: role, group, resource, verb, name."""
    documents = [
        document
        for path in sorted((tree / "resourceclasses").rglob("*.yaml"))
        if not {"chart", "templates"}.intersection(path.relative_to(tree).parts)  # of Helm, with the same roles
        for document in yaml.safe_load_all(path.read_text())
        if isinstance(document, dict)
    ]
    return {
        (f"{document['kind']}/{document['metadata']['name']}", *right)
        for document in documents
        if document.get("kind") in ("Role", "ClusterRole")
        for rule in document.get("rules", ())
        for right in _expanded(rule)
    }


def _expanded(rule: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    places = [(url, "") for url in rule.get("nonResourceURLs", ())]
    places += [(group, resource) for group in rule.get("apiGroups", ()) for resource in rule.get("resources", ())]
    for group, resource in places:
        for verb in rule["verbs"]:
            for name in rule.get("resourceNames", ("",)):
                yield group, resource, verb, name


def test_pods_of_the_last_release_may_do_what_they_did() -> None:
    former, now = rights(source_of(LAST_RELEASE.commit)), rights(REPO)
    assert former
    assert former - now == WITHDRAWN
