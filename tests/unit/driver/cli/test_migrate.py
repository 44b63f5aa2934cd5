"""``rootport migrate``: what it reads, what it prints, and its exit codes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from driver.cli.migrate_report import print_migration
from driver.migration.steps import Migration, Step, StepState
from tests.support.scripted_api import Answer, ScriptedServer

Json = dict[str, Any]
Run = Callable[..., Any]

NODE: Json = {
    "metadata": {"name": "gpu-7", "labels": {"gpu": "on"}},
    "spec": {"unschedulable": True},
    "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}},
}
VOLUMES: Json = {"volumes": [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins/"}}]}
HAMI: Json = {
    "metadata": {"name": "hami", "namespace": "kube-system"},
    "spec": {"template": {"spec": {"nodeSelector": {"gpu": "on"}, **VOLUMES}}},
}
HAMI_POD: Json = {
    "metadata": {
        "name": "hami-1",
        "namespace": "kube-system",
        "ownerReferences": [{"kind": "DaemonSet", "name": "hami", "controller": True}],
    },
    "spec": {"containers": []},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
FORBIDDEN = Answer(
    {"kind": "Status", "reason": "Forbidden", "code": 403, "message": "pods is forbidden: you may not"}, status=403
)
MISSING = Answer({"kind": "Status", "reason": "NotFound", "code": 404, "message": "not there"}, status=404)


def listing(*items: Json) -> Answer:
    return Answer({"metadata": {"resourceVersion": "1"}, "items": [*items]})


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    folder = tmp_path_factory.mktemp("server")
    made = ScriptedServer(folder)
    yield made
    made.stop()
    shutil.rmtree(folder)


def ask(rootport: Run, server: ScriptedServer, *options: str, **answers: Answer) -> Any:
    server.answers[:] = [
        answers.get("node", Answer(NODE)),
        answers.get("pods", listing(HAMI_POD)),
        answers.get("claims", listing()),
        answers.get("slices", listing()),
        answers.get("daemon_sets", listing(HAMI)),
        answers.get("inventory", MISSING),
    ]
    return rootport("migrate", "gpu-7", f"--kubeconfig={server.kubeconfig}", *options)


def test_the_next_command_is_printed_and_nothing_is_written(rootport: Run, server: ScriptedServer) -> None:
    done = ask(rootport, server)
    assert (done.code, done.err) == (1, "")
    assert "3 Take the other system off  to do" in done.out
    assert "\nNext: take the other system off\n  kubectl label node gpu-7 gpu-\n" in done.out
    assert {request.partition(" ")[0] for request in server.requests} == {"GET"}
    assert any("fieldSelector=spec.nodeName%3Dgpu-7" in request for request in server.requests)


def test_scripts_read_json(rootport: Run, server: ScriptedServer) -> None:
    answer = json.loads(ask(rootport, server, "--output=json").out)
    assert (answer["node"], answer["direction"]) == ("gpu-7", "Forward")
    assert [step["name"] for step in answer["steps"]] == [
        "cordon",
        "drain",
        "plugin-off",
        "rootport-on",
        "published",
        "uncordon",
    ]
    assert answer["next"]["command"] == "kubectl label node gpu-7 gpu-"
    assert json.loads(ask(rootport, server, "--back", "-o", "json").out)["direction"] == "Back"


def test_what_may_not_be_read_is_said_and_has_an_exit_code_of_its_own(rootport: Run, server: ScriptedServer) -> None:
    done = ask(rootport, server, pods=FORBIDDEN)
    assert done.code == 3
    assert "not known" in done.out
    assert "note: pods may not be listed" in done.out


def test_a_node_that_is_not_there_is_no_answer(rootport: Run, server: ScriptedServer) -> None:
    done = ask(rootport, server, node=MISSING)
    assert (done.code, done.out) == (2, "")
    assert "there is no node gpu-7" in done.err
    assert rootport("migrate", "Not/A/Node", f"--kubeconfig={server.kubeconfig}").code == 2


def test_what_names_do_to_a_terminal_is_taken_out(capsys: pytest.CaptureFixture[str]) -> None:
    odd = Step(name="x", title="Do it", state=StepState.TO_DO, text="a\x1b[31mb", command="kubectl \x1b[0m")
    print_migration(Migration(node="n", is_back=False, steps=(odd,), remarks=("r\x1b]0;",)))
    assert "\x1b]" not in capsys.readouterr().out
