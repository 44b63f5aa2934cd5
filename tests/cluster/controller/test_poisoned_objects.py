"""The whole corpus at a real API server: the controller goes on, for everybody else as without it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from driver.adapters.kubernetes.resources import NODES, PODS, RESOURCE_CLAIMS
from driver.explain.reasons import Reason
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.machines import gpu, node
from tests.support.poison.corpus import corpus
from tests.support.poison.sending import Sender
from tests.support.ports import free_port
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

REASON = "rootport.dev/pending-reason"
LONG_S = 120.0  # a busy machine needs more than the few seconds that it takes
MOST_WAIT_S = 2.0
MOST_MIB = 150.0
# Of a controller in a cluster without the corpus: it is published after 0.5 s.
USUAL_S, USUAL_MIB = 1.0, 70.0


@dataclass
class Observed:
    """A running controller, and how much memory it had at most so far."""

    controller: Controller
    port: int

    def page(self, path: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
                return str(answer.read().decode())
        except HTTPError as error:
            with error:
                return f"{error.code} {error.read().decode()}"
        except URLError:
            return "away"

    def healthy(self) -> bool:
        return self.page("/healthz").strip() == "ok"

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self.controller.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024


@pytest.fixture(scope="module")
def control_plane(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One of its own, which serves DeviceTaintRules too."""
    with ControlPlane(
        tmp_path_factory.mktemp("poisoned"),
        cluster_binaries,
        taint_rules=True,
    ) as plane:
        install(plane)
        for kind in ("nodeinventories", "devices"):
            plane.kubectl("get", f"{kind}.rootport.dev")
        for namespace in ("poisoned", "mine"):
            plane.kubectl("create", "namespace", namespace)
            plane.kubectl("apply", "--filename=-", input=json.dumps(_account(namespace)))
        yield plane


def _account(namespace: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}


@pytest.fixture
def observe(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[[], Observed]]:
    started: list[Controller] = []
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, "rootport-controller")

    def run() -> Observed:
        port = free_port()
        started.append(
            Controller(
                kubeconfig,
                tmp_path / "controller.log",
                f"--health-port={port}",
                "--fresh-for=600",
                "--grace-period=1200",
            )
        )
        return Observed(started[-1], port)

    yield run
    for controller in started:
        controller.kill()


@pytest.fixture(scope="module")
def poisoned(control_plane: ControlPlane) -> dict[str, str]:
    """The corpus is there; what the API server refused of it."""
    return Sender(control_plane.kubeconfig).send(corpus("poisoned"))


class Tenant:
    """Nodes, claims and pods that have nothing to do with the corpus."""

    def __init__(self, kubeconfig: Path) -> None:
        self.nodes = Nodes(kubeconfig)

    def adds_a_node(self, name: str) -> float:
        """In how many seconds it is published."""
        began = time.monotonic()
        self.nodes.add(node(gpu("10"), name=name))
        self.nodes.api.merge_patch(NODES, name, {"spec": {"taints": None}})
        eventually(f"slices of {name}", lambda: self.nodes.visible(name), timeout_s=LONG_S)
        published_s = time.monotonic() - began
        eventually(f"Device objects of {name}", lambda: self.nodes.devices(name), timeout_s=LONG_S)
        return published_s

    def explanation(self, name: str) -> str:
        """Why a pod that asks for too many devices is pending."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev", "count": 30}}
        claim = {"metadata": {"name": name, "namespace": "mine"}, "spec": {"devices": {"requests": [request]}}}
        self.nodes.api.create(RESOURCE_CLAIMS, claim)
        spec = {
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        }
        self.nodes.api.create(PODS, {"metadata": {"name": name, "namespace": "mine"}, "spec": spec})

        def reason() -> object:
            metadata = self.nodes.api.get(RESOURCE_CLAIMS, name, namespace="mine")["metadata"]
            return (metadata.get("annotations") or {}).get(REASON)

        return str(eventually(f"why {name} is pending", reason, timeout_s=LONG_S))


@pytest.fixture(scope="module")
def tenant(control_plane: ControlPlane) -> Tenant:
    return Tenant(control_plane.kubeconfig)


def test_a_running_controller_works_on_for_the_others_when_the_whole_corpus_comes(
    observe: Callable[[], Observed], tenant: Tenant, request: pytest.FixtureRequest
) -> None:
    observed = observe()
    usual_s = tenant.adds_a_node("before")
    assert tenant.explanation("before") == "ClassSelectsTooFew"
    usual_mib = observed.peak_mib()

    refused: dict[str, str] = request.getfixturevalue("poisoned")

    assert not set(refused) - {str(poison) for poison in corpus("poisoned") if poison.may_be_refused}
    # Of several, since the machine may be busy with something else for a moment.
    assert min(tenant.adds_a_node(f"while-{number}") for number in range(3)) < usual_s + MOST_WAIT_S
    assert tenant.explanation("while") == "ClassSelectsTooFew"
    assert observed.healthy()
    assert observed.peak_mib() < usual_mib + MOST_MIB
    assert observed.controller.stop() == 0


def test_a_controller_that_starts_among_the_whole_corpus_works_for_the_others(
    observe: Callable[[], Observed], tenant: Tenant, poisoned: dict[str, str]
) -> None:
    assert poisoned.keys()  # all else is there
    observed = observe()
    eventually("the first node after the start", lambda: tenant.adds_a_node("after"), timeout_s=LONG_S)
    assert min(tenant.adds_a_node(f"after-{number}") for number in range(3)) < USUAL_S + MOST_WAIT_S
    assert tenant.explanation("after") == "ClassSelectsTooFew"
    assert observed.healthy()
    assert observed.peak_mib() < USUAL_MIB + MOST_MIB
    metrics = observed.page("/metrics")
    reasons = set(re.findall(r'rootport_pending_claims{reason="([^"]*)"}', metrics))
    assert reasons <= {*Reason, "NotExplained", "Unknown"}
    assert not re.findall(r'rootport_api_objects_skipped_total{.*reason="(?!TooLarge|Unreadable)', metrics)
    assert observed.controller.stop() == 0
    assert "Traceback" not in observed.controller.log.read_text()


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("status",), 0),
        (("status", "poison-deep-managed-fields"), 0),
        # Its pod names more claims than are looked at.
        (("explain", "claim", "poisoned/poison-deep-parameters"), 3),
        (("explain", "claim", "poisoned/poison-lone-surrogate", "-o", "json"), 1),
        (("explain", "claim", "poisoned/poison-given-invalid-utf8"), 0),
        (("explain", "pod", "poisoned/poison-many-terms"), 1),
    ],
    ids=str,
)
def test_a_person_gets_an_answer_in_such_a_cluster(
    control_plane: ControlPlane, arguments: tuple[str, ...], code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "driver.cli.main", *arguments, f"--kubeconfig={control_plane.kubeconfig}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_S,
    )
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout
