"""The table of what works on each version of Kubernetes is what the suite in tests/matrix has recorded."""

from __future__ import annotations

import pytest

from tests.matrix.results import PAGE, RUNS, Run, is_recorded, page, recorded
from tests.matrix.rows import rows
from tests.support.cluster.binaries import MAIN_VERSION


def test_the_page_has_the_table_of_what_is_recorded() -> None:
    text = PAGE.read_text()
    assert text == page(rows(), text), "run `python -m tests.matrix --table`"


@pytest.mark.parametrize("run", [run for run in RUNS if is_recorded(run)], ids=lambda run: run.file.stem)
def test_what_does_not_work_on_a_version_is_said_by_somebody(run: Run) -> None:
    found = recorded(run)
    assert set(found) <= set(rows()), "a row that the suite does not have"
    for name, seen in found.items():
        assert seen.result in ("works", "degraded", "absent"), name
        if seen.result != "works":
            assert seen.where, name
            assert seen.message, name


def test_each_row_has_been_seen_on_the_version_that_ci_runs() -> None:
    """A row that another version lacks is "not seen yet" in the table: `make matrix` sees it."""
    assert set(recorded(Run(MAIN_VERSION))) == set(rows())
