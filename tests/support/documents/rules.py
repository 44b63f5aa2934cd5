"""Which test runs a command of the documents, with what in place of its placeholders; and which none can run, and why.

A command that no rule names is run: offline, or on a real API server where it asks one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from driver import __version__
from tests.support.documents.console import Command, programs
from tools.release.versions import chart_version

__all__ = ["ENDS_WITH", "NOT_COMPARED", "NOT_RUN", "Runner", "runner_of", "substituted"]


class Runner(Enum):
    """What runs a command."""

    OFFLINE = "tests/unit/docs/test_commands.py"
    DRY_RUN = "tests/unit/docs/test_commands.py, by make --dry-run"
    API_SERVER = "tests/cluster/docs/test_commands.py"
    HELM = "tests/cluster/docs/test_helm_commands.py"
    NOBODY = "none: NOT_RUN has the reason"
    UNKNOWN = "none, and nothing says why"


_ASKS_A_CLUSTER: Final = re.compile(
    r"\bkubectl\b|\bkustomize\b|^mkdir\b|--from all\.json|rootport (status|top|migrate|place)\b|--kubeconfig|--context"
    r"|rootport explain(?!.*--from)|rootport convert --check( --resources \S+)?$"
)
_KNOWN: Final = frozenset(
    {"rootport", ".venv/bin/rootport", "kubectl", "kustomize", "helm", "make", "mkdir", "cat", "grep", "jq", "date"}
    # of a shell's loop
    | {"for", "do", "done"}
)

_AFTER_HELM: Final = frozenset(
    {
        "kubectl delete crd devices.rootport.dev nodeinventories.rootport.dev",
        "kubectl delete namespace rootport-system",
    }
)
"""What takes away the rest after ``helm uninstall``."""

_CHART: Final = chart_version(__version__)
_NO_KUBELET: Final = "it asks a kubelet for a connection to a pod; {}"
_OTHERS_PROGRAM: Final = "{} is another project's program with its own daemon or host; {}"
NOT_RUN: Final[Mapping[str, str]] = {
    f"docker build -t rootport:{__version__} .": _OTHERS_PROGRAM.format(
        "docker", "tests/support/cluster/image_builder.py builds the image from the same Dockerfile for tests/e2e"
    ),
    "docker buildx imagetools inspect python:3.11-slim-bookworm "
    "--format '{{.Manifest.Digest}}'": _OTHERS_PROGRAM.format("docker", "it asks the registry of the base image"),
    "docker build --build-arg BASE=docker.io/library/python:3.11-slim-bookworm@sha256:<digest> "
    f"-t rootport:{__version__} .": (
        _OTHERS_PROGRAM.format("docker", "tests/support/cluster/image_builder.py sets BASE as well")
    ),
    f"docker save rootport:{__version__} | ssh NODE sudo ctr --namespace=k8s.io images import -": (
        _OTHERS_PROGRAM.format("docker", "tests/e2e imports the image by the same ctr command")
    ),
    f"docker build -t registry.example.com/rootport:{__version__} .": _OTHERS_PROGRAM.format(
        "docker", "tests/support/cluster/image_builder.py builds the image from the same Dockerfile for tests/e2e"
    ),
    f"docker push registry.example.com/rootport:{__version__}": "it needs a registry, and no test has one",
    f"helm push rootport-{_CHART}.tgz oci://registry.example.com/charts": "it needs a registry, and no test has one",
    f"helm install rootport oci://registry.example.com/charts/rootport --version {_CHART} "
    "--namespace rootport-system \\\n    --create-namespace --set image.repository=registry.example.com/rootport": (
        "it needs a registry; the same from a folder is run"
    ),
    f"kind load docker-image rootport:{__version__}": _OTHERS_PROGRAM.format("kind", "no kind cluster is in the tests"),
    "ssh NODE sudo nvidia-smi --gpu-reset --id=0": _OTHERS_PROGRAM.format(
        "nvidia-smi", "it needs a GPU; tests/e2e/test_health.py has the steps around it"
    ),
    "git clone https://github.com/hkust-adsl/kubernetes-scheduler-simulator": _OTHERS_PROGRAM.format(
        "git", "it downloads another project's trace; the command after it is run on a small trace of the same form"
    ),
    "kubectl --namespace=rootport-system port-forward service/rootport-dashboard 8443:443 &": _NO_KUBELET.format(
        "tests/cluster/http_api asks the controller itself"
    ),
    "kubectl port-forward -n rootport-system service/rootport-dashboard 8443:443": _NO_KUBELET.format(
        "tests/cluster/http_api asks the controller itself"
    ),
    "kubectl -n rootport-system port-forward daemonset/rootport-kubelet-plugin 8081 &": _NO_KUBELET.format(
        "tests/cluster/plugin/test_metrics.py asks the plugin itself"
    ),
    "curl -s localhost:8081/metrics | grep rootport_device_info": "it goes with the port-forward before it",
    'curl --insecure --header "Authorization: Bearer $(kubectl create token ci --namespace=default)" '
    "https://127.0.0.1:8443/api/v1/nodes": "it goes with the port-forward before it; tests/cluster/http_api asks this",
    'curl --no-buffer --insecure --header "Authorization: Bearer $TOKEN" '
    '"https://127.0.0.1:8443/api/v1/events?since=1795319725123"': (
        "it goes with the port-forward before it, and never ends; tests/cluster/http_api reads the same stream"
    ),
    'curl --insecure -H "Authorization: Bearer $(kubectl create token ci -n ml)" \\\n    '
    '"https://rootport-dashboard.rootport-system.svc/api/v1/claims/ml/train/explain?format=text"': (
        "the name is one of a cluster's DNS; tests/cluster/http_api asks this address of the controller"
    ),
    "kubectl --namespace=rootport-system rollout status daemonset/rootport-kubelet-plugin": (
        "it waits for pods, which only a kubelet starts; tests/e2e/test_installation.py runs it on the real node"
    ),
    "kubectl -n rootport-system rollout status deployment/rootport-controller": (
        "it waits for pods, which only a kubelet starts; tests/e2e/helm/test_helm.py runs it on the real node"
    ),
    "kubectl -n rootport-system rollout status daemonset/rootport-kubelet-plugin": (
        "it waits for pods, which only a kubelet starts; tests/e2e/helm/test_helm.py runs it on the real node"
    ),
    **{
        f"kubectl patch crd {name}.rootport.dev --subresource=status --type=merge "
        """-p '{"status":{"storedVersions":["v1beta1"]}}'""": (
            "there is no v1beta1 yet; tests/cluster/upgrade/test_stored_versions.py does it with a second version"
        )
        for name in ("nodeinventories", "devices")
    },
    ".venv/bin/python -m tools.release --out dist --gpg-key KEYID \\\n"
    "    --download-url https://DOWNLOADS/v0.2.0 --homepage https://PROJECT": (
        "it builds a release, by the minute, with a maintainer's key; tests/cluster/release does it"
    ),
    "kubectl krew install --manifest=rootport.yaml --archive=kubectl-rootport-VERSION-linux-amd64.tar.gz": (
        _OTHERS_PROGRAM.format("krew", "tests/cluster/release installs a release's archive with it")
    ),
    "python -m tests.support.states": (
        "it writes test data with the code of a release; tests/unit/kubeletplugin/state reads what it wrote"
    ),
    "rootport top gpu-node-2": "it asks the plugin's pod by way of its kubelet: tests/cluster/cli/test_top.py",
    "kubectl describe nodeinventory gpu-1 | grep placed": (
        "it greps what a controller writes that places: tests/cluster/placement"
    ),
    "kubectl -n team-a create -f share.yaml": (
        "it shows the webhook's answer, which needs a controller that serves it: tests/cluster/conversion"
    ),
    "kubectl apply -f training.yaml": (
        "it shows the webhook's answer, which needs a controller that serves it: tests/cluster/admission"
    ),
}
"""Commands that no test runs as they are, each with the reason, and what is run in its place."""

_SUBSTITUTES: Final[Mapping[str, str]] = {
    r"\bNODE\b": "gpu-node-2",
    r"resourceclaim NAME\b": "resourceclaim half-gpu-x7k2p",
    r"\bNAME -n NAMESPACE\b": "ci -n team-a",
    r"--trace (DIR|kubernetes-scheduler-simulator)\b": "--trace trace",
    r"--context prod\b": '--context "$(kubectl config current-context)"',
    r"(?<=--from )dump/?(?=$| )": "examples/explain",
    # What the page shows so is of a wider terminal.
    r"^(?=rootport explain --from examples|rootport status gpu|rootport slices --list)": "COLUMNS=100 ",
    r"~/\.kube/config": '"$KUBECONFIG"',
    r"(apply|delete) -k \.": r"\1 -k resourceclasses/",
    r"--claims my-claims/": "--claims my-claims",
}
"""What stands on the pages for a reader's own names, and what the tests have of that kind."""

ENDS_WITH: Final[Mapping[str, tuple[int, ...]]] = {
    ".venv/bin/rootport explain claim ml/train --from examples/explain": (1,),
    "rootport explain claim ml/train --from examples/explain": (1,),
    "rootport explain claim ml/train --from dump/": (1,),
    "rootport explain --from examples/explain": (1,),
    ".venv/bin/rootport convert --check examples/convert": (1,),
    "rootport convert --check examples/convert": (1,),
    "rootport convert examples/convert/koordinator.yaml >converted.yaml": (1,),
    "rootport lint train.yaml": (1,),
    "rootport explain claim ml/train": (1,),
    "kubectl rootport explain pod train-0 -n ml": (1,),
    "rootport explain pod/train-0 -n ml": (1,),
    "rootport explain": (1,),
    'rootport explain pod ml/train-0 -o json | jq -r \'.proposals[] | select(.kind == "ChangeClaim") '
    "| .patches[].operations'": (1,),
    "rootport place --dry-run --pod ml/train-0 -o json | jq -r '.pods[].why'": (1,),  # no node has room
    "rootport migrate gpu-node-7": (1,),
    "rootport migrate NODE": (1,),
    "kubectl get pods -A | grep SchedulingGated": (1,),  # none is left
    "kubectl create namespace rootport-system": (1,),  # the pages' world has it
}
"""Exit codes other than 0 that a page expects."""

NOT_COMPARED: Final[Mapping[str, str]] = {
    "kubectl -n team-a get pod train -o jsonpath='{.spec.resourceClaims}'": "tests/cluster/conversion",
    "kubectl get nodeinventories": "tests/cluster/crds/test_api_server.py",
    "rootport status": "tests/cluster/cli/test_status.py, which has the same four nodes alone",
    "rootport convert claims.yaml --context prod >lists.yaml": "tests/unit/driver/ratios/test_rewriting.py",
    "rootport migrate gpu-node-7": "tests/unit/driver/cli/test_migrate.py",
    "kubectl describe pod train-0 -n ml": "tests/cluster/placement/test_placing.py, with a controller that places",
    "kubectl get resourceclaim train-0-gpus -n ml -o jsonpath='{.metadata.annotations.rootport\\.dev/placement}'": (
        "tests/cluster/placement/test_placing.py, with a controller that places"
    ),
}
"""Commands whose output on the page is of another cluster than the tests', with the test that holds the output."""


def runner_of(command: Command) -> Runner:
    """Return what runs a command."""
    if command.text in NOT_RUN:
        return Runner.NOBODY
    used = programs(command.text)
    if not _KNOWN.issuperset(used):
        return Runner.UNKNOWN
    if used == ["helm"] or command.text in _AFTER_HELM:
        return Runner.HELM
    if used == ["make"]:
        return Runner.DRY_RUN
    return Runner.API_SERVER if _ASKS_A_CLUSTER.search(command.text) else Runner.OFFLINE


def substituted(text: str) -> str:
    """Return a command with the tests' own in place of its placeholders."""
    for pattern, own in _SUBSTITUTES.items():
        text = re.sub(pattern, own, text)
    return text
