"""Controller and plugin are told of the files of the installed ConfigMaps, of which each may be absent."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
import yaml

from tests.support.paths import REPO

OBJECTS = list(yaml.safe_load_all((REPO / "resourceclasses/workloads/controller.yaml").read_text()))
CONFIG_MAPS = {item["metadata"]["name"]: item for item in OBJECTS if item["kind"] == "ConfigMap"}
(SPEC,) = (item["spec"]["template"]["spec"] for item in OBJECTS if item["kind"] == "Deployment")


@pytest.mark.parametrize("kind", ["gpu", "nic", "device"])
def test_the_file_of_policies_comes_from_its_config_map(kind: str) -> None:
    (container,) = SPEC["containers"]
    (file,) = (arg.partition("=")[2] for arg in container["args"] if arg.startswith(f"--{kind}-policies="))
    path = PurePosixPath(file)
    (mount,) = (item for item in container["volumeMounts"] if item["mountPath"] == str(path.parent))
    (volume,) = (item for item in SPEC["volumes"] if item["name"] == mount["name"])
    sources = {one["configMap"]["name"]: one["configMap"] for one in volume["projected"]["sources"]}
    assert sources[f"rootport-{kind}-policies"]["optional"] is True
    assert path.name in CONFIG_MAPS[f"rootport-{kind}-policies"]["data"]


@pytest.mark.parametrize("kind", ["gpu", "device"])
def test_the_plugin_reads_the_same_policies_as_the_controller(kind: str) -> None:
    (daemon_set,) = yaml.safe_load_all((REPO / "resourceclasses/workloads/kubelet-plugin.yaml").read_text())
    spec = daemon_set["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (file,) = (arg.partition("=")[2] for arg in container["args"] if arg.startswith(f"--{kind}-policies="))
    path = PurePosixPath(file)
    (mount,) = (item for item in container["volumeMounts"] if item["mountPath"] == str(path.parent))
    assert mount["readOnly"] is True
    (volume,) = (item for item in spec["volumes"] if item["name"] == mount["name"])
    maps = [source["configMap"] for source in volume["projected"]["sources"]]
    assert {"name": f"rootport-{kind}-policies", "optional": True} in maps
    assert path.name in CONFIG_MAPS[f"rootport-{kind}-policies"]["data"]
