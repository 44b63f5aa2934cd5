"""What the suite of this folder has seen on each version of Kubernetes, and the table that is made of it.

A run of the suite is of one version, with the feature gates that the version has by default, or with those on that
Rootport can use (:data:`GATES`). Each run has a file in ``results``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import yaml

from tests.support.cluster.binaries import KUBERNETES_VERSIONS
from tests.support.paths import REPO

__all__ = [
    "GATES",
    "PAGE",
    "RUNS",
    "Run",
    "Seen",
    "is_recorded",
    "lacking",
    "page",
    "recorded",
    "runtime_config",
    "write",
]

PAGE: Final = REPO / "docs/operator/versions.md"
_FOLDER: Final = Path(__file__).parent / "results"
_BEGIN, _END = "<!-- made by `make matrix` -->\n", "<!-- end of what `make matrix` makes -->\n"

GATES: Final[Mapping[int, tuple[str, ...]]] = {
    # With its alpha gates on, its scheduler lets claims for pairs and shares wait (docs/operator/versions.md).
    34: (),
    35: (
        "DRAPartitionableDevices",
        "DRAConsumableCapacity",
        "DRADeviceTaints",
        "DRADeviceTaintRules",
        "DRAExtendedResource",
        "ResourceHealthStatus",
    ),
    36: ("DRADeviceTaintRules",),
    37: (),
}
"""By minor version, the gates that are off by default and that Rootport can use (kube_features.go of each version)."""

_RUNTIME_CONFIG: Final[Mapping[int, tuple[str, ...]]] = {
    34: (),
    35: ("resource.k8s.io/v1alpha3",),
    36: ("resource.k8s.io/v1beta2",),
    37: (),
}


def runtime_config(minor: int) -> str:
    """What the API server is told to serve where the gates are on: ``--runtime-config``."""
    return ",".join(f"{version}=true" for version in _RUNTIME_CONFIG[minor])


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """One run of the suite.

    Attributes:
        kubernetes: The version, such as ``v1.37.2``.
        has_gates: Whether the gates of :data:`GATES` are on, which by default are off.
    """

    kubernetes: str
    has_gates: bool = False

    @property
    def minor(self) -> int:
        """Such as 37."""
        return int(self.kubernetes.split(".")[1])

    @property
    def file(self) -> Path:
        """Where its results are."""
        return _FOLDER / f"{self.kubernetes}{'-gates' if self.has_gates else ''}.yaml"


RUNS: Final = tuple(
    Run(version, has_gates)
    for version in KUBERNETES_VERSIONS
    for has_gates in (False, True)
    if not has_gates or GATES[int(version.split(".")[1])]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of a row.

    Attributes:
        result: ``works``; ``degraded``, where Rootport itself says what does not work; or ``absent``, where Kubernetes
            refuses what would be needed.
        gate: The feature gate that is off; empty where it works, or where no gate would help.
        where: Who says so, such as ``condition Published of the NodeInventory``.
        message: What is said; of what works, a remark.
    """

    result: str
    gate: str = ""
    where: str = ""
    message: str = ""


def is_recorded(run: Run) -> bool:
    """Whether the run has results."""
    return run.file.exists()


def recorded(run: Run) -> dict[str, Seen]:
    """The results of a run, by row."""
    return {
        name: Seen(**{key: value for key, value in row.items() if key != "date"}) for name, row in _rows(run).items()
    }


def lacking(kubernetes: str) -> list[str]:
    """The rows that do not work with a version's default gates: those that are tried with more gates on."""
    return [name for name, seen in recorded(Run(kubernetes)).items() if seen.result != "works"]


def write(run: Run, seen: Mapping[str, Seen], *, date: str) -> None:
    """Record what was seen of some rows or all; of the others what was recorded before stays."""
    fresh = {
        name: {"date": date, **{key: value for key, value in asdict(row).items() if value}}
        for name, row in seen.items()
    }
    body = {
        "kubernetes": run.kubernetes,
        "gates": list(GATES[run.minor]) if run.has_gates else [],
        "runtimeConfig": runtime_config(run.minor) if run.has_gates else "",
        "rows": dict(sorted(((_rows(run) if is_recorded(run) else {}) | fresh).items())),
    }
    _FOLDER.mkdir(exist_ok=True)
    run.file.write_text(yaml.safe_dump(body, sort_keys=False, width=1000))


def page(rows: Mapping[str, str], text: str) -> str:
    """The page of the documentation with the table of today's results.

    Args:
        rows: The title of each row of the suite, by its name.
        text: The page as it is; what is between the two marks is made anew.
    """
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{_tables(rows)}\n{_END}{after}"


def _rows(run: Run) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = yaml.safe_load(run.file.read_text())["rows"]
    return found


def _tables(rows: Mapping[str, str]) -> str:
    versions = sorted({run.kubernetes for run in RUNS}, key=lambda version: int(version.split(".")[1]))
    results = {run: recorded(run) for run in RUNS if is_recorded(run)}
    lines = [_line("", *versions), _line("---", *("---" for _ in versions))]
    lines += [_line(title, *(_cell(name, version, results) for version in versions)) for name, title in rows.items()]
    dates = [row["date"] for run in results for row in _rows(run).values()]
    first, last = min(dates), max(dates)
    lines += [
        "",
        f"Seen on {first}." if first == last else f"Seen from {first} to {last}.",
        "",
        "What was said, and by whom:",
        "",
    ]
    lines += [_line("", "version", "says", "what"), _line(*["---"] * 4)]
    lines += _said(rows, results)
    return "\n".join(lines) + "\n"


def _said(rows: Mapping[str, str], results: Mapping[Run, Mapping[str, Seen]]) -> Iterable[str]:
    for name, title in rows.items():
        by_words: dict[tuple[str, str], list[str]] = {}
        for run, found in results.items():
            seen = found.get(name)
            if seen is not None and seen.message:
                by_words.setdefault((seen.where, seen.message), []).append(
                    f"{run.kubernetes}{' with gates' if run.has_gates else ''}"
                )
        for (where, message), runs in by_words.items():
            yield _line(title, ", ".join(runs), where, message)


def _cell(name: str, version: str, results: Mapping[Run, Mapping[str, Seen]]) -> str:
    by_default = results.get(Run(version), {}).get(name)
    if by_default is None:
        return "not seen yet"
    if by_default.result == "works":
        return "yes"
    more = Run(version, has_gates=True)
    if more not in RUNS or not by_default.gate:
        return "no"
    with_gates = results.get(more, {}).get(name)
    if with_gates is None:
        return "not by default"
    return f"with `{by_default.gate}`" if with_gates.result == "works" else "no"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
