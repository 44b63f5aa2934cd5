"""A namespace of the real cluster in which Rootport's webhooks convert what is created."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.cluster.conversion.converting_cluster import ConvertingCluster
from tests.support.cluster.driver import MANIFESTS
from tests.support.cluster.rootport import HTTPS_PORT, RunningRootport
from tests.support.foreign_pods import RESOURCE_MAP

__all__ = ["converting"]


@pytest.fixture(scope="module")
def converting(running: RunningRootport, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConvertingCluster]:
    """A namespace whose pods and claims are converted, by a controller that runs for these tests alone."""
    cluster, plane = running.cluster, running.cluster.control_plane
    files = []
    for name in ("webhook", "convert-webhook"):
        component = MANIFESTS / "components" / name
        listed = yaml.safe_load((component / "kustomization.yaml").read_text())["resources"]
        files += [component / file for file in listed]
    resource_map = tmp_path_factory.mktemp("converting") / "map.yaml"
    resource_map.write_text(yaml.safe_dump(RESOURCE_MAP))
    # There is no network for Services: the API server is given the controller's address instead.
    client = {"service": None, "url": f"https://127.0.0.1:{HTTPS_PORT}/admission"}
    hooks = [{"name": f"{kind}.rootport.dev", "clientConfig": client} for kind in ("claims", "classes")]
    options = ("--webhook", "--webhook-host=127.0.0.1", "--convert", f"--convert-resources={resource_map}")
    converting = ConvertingCluster(plane, "as-they-are")
    assert running.controller is not None
    running.controller.stop()
    try:
        running.apply(*files)
        cluster.kubectl(
            "patch", "validatingwebhookconfiguration", "rootport", "--patch", json.dumps({"webhooks": hooks})
        )
        running.start_controller(*options)
        converting.make_namespace(converting.namespace, opted_in=True)
        converting.send_to(HTTPS_PORT)
        yield converting
    finally:
        cluster.kubectl("delete", "namespace", converting.namespace, "--ignore-not-found", "--timeout=90s")
        running.controller.stop()
        running.delete(*files)
        running.start_controller()
        running.wait_until_controller_is_ready()
