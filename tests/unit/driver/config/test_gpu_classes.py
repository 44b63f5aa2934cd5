"""The classes of shared GPUs are the same in the code, in the manifests and in the admission policy."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from driver.config.gpu_classes import SHARED_GPU_CLASSES, class_of_strategy
from driver.model.devices import DeviceType

_MANIFESTS = Path(__file__).parents[4] / "resourceclasses"


def _variables() -> dict[str, str]:
    found: dict[str, str] = {}
    for document in yaml.safe_load_all((_MANIFESTS / "admission/claim-parameters.yaml").read_text()):
        found |= {item["name"]: item["expression"] for item in document["spec"].get("variables", ())}
    return found


def test_the_admission_policy_knows_the_strategy_of_each_class() -> None:
    strategies = json.loads(_variables()["strategyOf"])

    assert strategies == {name: strategy for name, (_, strategy) in SHARED_GPU_CLASSES.items()}


def test_the_admission_policy_names_the_class_of_each_strategy() -> None:
    suffixes = json.loads(_variables()["suffixes"])

    named = {f"gpu{suffix}.rootport.dev": strategy for strategy, suffix in suffixes.items()}
    assert named == {class_of_strategy(DeviceType.GPU, strategy): strategy for strategy in suffixes}
    assert set(suffixes) == {strategy for _, strategy in SHARED_GPU_CLASSES.values()}


def test_each_class_is_in_the_manifests() -> None:
    documents = yaml.safe_load_all((_MANIFESTS / "device-classes.yaml").read_text())

    assert set(SHARED_GPU_CLASSES) <= {document["metadata"]["name"] for document in documents if document}
