"""The provenance of a release: an in-toto statement with SLSA's predicate (https://slsa.dev/spec/v1.1/provenance).

It says what was made, from which commit and which lock files, and by what kind of builder. Unless a builder that its
users cannot change makes and signs it, that is SLSA's build level 1: it tells mistakes, not attacks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

__all__ = ["BUILD_TYPE", "MAINTAINERS_MACHINE", "statement"]

BUILD_TYPE: Final = "https://rootport.dev/release/v1"
"""A name, not an address to open: docs/dev/releasing.md says what is done."""
MAINTAINERS_MACHINE: Final = "https://rootport.dev/release/v1/machine-of-a-maintainer"
"""The builder's name where nobody names another one."""


def statement(
    *,
    files: Mapping[str, str],
    commit: str,
    version: str,
    inputs: Mapping[str, str],
    seconds: int,
    builder: str = MAINTAINERS_MACHINE,
) -> str:
    """Return the statement as JSON.

    Args:
        files: What was made: SHA-256 digests by name.
        commit: The git commit it was made of.
        version: Rootport's.
        inputs: SHA-256 digests of the files that pin what was fetched, by path: the lock files, the Dockerfile.
        seconds: SOURCE_DATE_EPOCH.
        builder: A URI that names who or what built it.
    """
    dependencies: list[dict[str, Any]] = [{"name": "source", "digest": {"gitCommit": commit}}]
    dependencies += [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(inputs.items())]
    told = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(files.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": version, "tag": f"v{version}"},
                "internalParameters": {"sourceDateEpoch": datetime.fromtimestamp(seconds, UTC).isoformat()},
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }
    return json.dumps(told, indent=2, sort_keys=True) + "\n"
