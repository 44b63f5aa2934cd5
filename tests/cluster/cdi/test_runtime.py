"""The CDI library that container runtimes use takes the specs that carry the plugin's own notes (tests/oracle/cdi)."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.plan import CDI_VERSION
from tests.cluster.cdi.test_cdi_library import judge
from tests.support.preparer.machine import Machine, gpu_claim, prepared, uid

pytestmark = pytest.mark.needs_go


def test_a_runtime_reads_the_spec_and_injects_nothing_of_the_notes(machine: Machine, oracle: Path) -> None:
    claims = machine.offer(gpu_claim(1), gpu_claim(2, adminAccess=True))
    answers = machine.preparer().prepare(claims)
    ids = [
        cdi_id for claim in claims for item in prepared(answers[claim.uid]).devices for cdi_id in item.cdi_device_ids
    ]
    answer = judge(oracle, machine.cdi_dir, ids)
    assert answer["errors"] == {}
    assert f"rootport.dev/claim={uid(1)}_checkpoint" in answer["devices"]
    assert set(answer["minimumVersions"].values()) == {CDI_VERSION}
    (container,) = answer["injected"]
    assert container["error"] == ""
    assert "/dev/nvidia1" in container["deviceNodes"]
    assert not any("ROOTPORT_CHECKPOINT" in variable for variable in container["env"])
