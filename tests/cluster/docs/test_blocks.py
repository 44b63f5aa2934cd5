"""Objects on the pages are such as a real API server takes, with Rootport's admission policies."""

from __future__ import annotations

import json

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.documents.blocks import BLOCKS, Block

pytestmark = pytest.mark.needs_go


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> ControlPlane:
    install(control_plane)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    control_plane.kubectl("apply", "--server-side", "--filename=-", input=json.dumps(account))
    return control_plane


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.of_clusters()], ids=str)
def test_an_api_server_takes_the_objects_of_a_block(block: Block, installed: ControlPlane) -> None:
    for item in block.of_clusters():
        # The namespace of a page's reader is not there.
        namespace = {} if "namespace" not in item["metadata"] else {"namespace": "default"}
        body = item | {"metadata": item["metadata"] | namespace}
        taken = installed.kubectl(
            "create", "--dry-run=server", "--validate=strict", "--filename=-", input=json.dumps(body)
        )
        assert item["metadata"]["name"] in taken
