"""YAML and JSON on the pages: it can be read, and where it is an object of Rootport's own, by Rootport."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pydantic import BaseModel

from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.machine import Machine
from driver.api.nic_policies import NicPolicies
from driver.api.resource_map import ResourceMap
from driver.config.parse import parse_config
from tests.support.documents.blocks import BLOCKS, Block, own_parameters

_MODELS: Final[dict[str, type[BaseModel]]] = {
    model.__name__: model for model in (GpuPolicies, NicPolicies, DevicePolicies, ResourceMap, Machine)
}


def test_there_are_blocks_of_each_kind_that_people_write() -> None:
    assert {document.get("kind") for block in BLOCKS for document in block.objects()} > set(_MODELS)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_can_be_read(block: Block) -> None:
    assert block.documents()


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.of_rootport()], ids=str)
def test_an_object_of_rootports_own_is_read_by_rootport(block: Block) -> None:
    for document in block.of_rootport():
        _MODELS[document["kind"]].model_validate(document)


@pytest.mark.parametrize(
    "parameters", [pytest.param(found, id=str(block)) for block in BLOCKS for found in own_parameters(block)]
)
def test_parameters_are_read_by_rootport(parameters: dict[str, Any]) -> None:
    found = parse_config(parameters, "parameters")
    assert not isinstance(found, tuple), found
