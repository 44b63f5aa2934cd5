"""``rootport-cni`` by itself: what it passes on, what it refuses, and what it does while no plugin answers."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.needs_cc

POD = "0d9ac3e4-7b12-4c5e-9d0f-a1b2c3d4e5f6"
RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "eth0", "mac": "0a:58:0a:2a:00:07", "sandbox": "/run/netns/x"}],
    "ips": [{"address": "10.42.0.7/16", "gateway": "10.42.0.1", "interface": 0}],
    "dns": {},
}
CONFIG = {"cniVersion": "1.0.0", "name": "pods", "type": "rootport-cni", "prevResult": RESULT}

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)
_few = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_it_tells_the_versions_it_knows(shim: Any) -> None:
    answer = shim.run("VERSION", b"")
    assert (answer.status, answer.stderr) == (0, b"")
    assert answer.json == {
        "cniVersion": "1.1.0",
        "supportedVersions": ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
    }


def test_a_pod_without_interfaces_needs_no_plugin(shim: Any) -> None:
    shim.know("ffffffff-7b12-4c5e-9d0f-a1b2c3d4e5f6")
    began = time.monotonic()
    answers = [shim.run(command, CONFIG) for command in ("ADD", "CHECK", "DEL")]
    assert [x.status for x in answers] == [0, 0, 0]
    assert answers[0].json == RESULT
    assert [x.stdout for x in answers[1:]] == [b"", b""]
    assert time.monotonic() - began < 0.6  # the time it would wait for the plugin


def test_a_node_without_state_passes_everything_on(shim: Any) -> None:
    shim.state_dir.rmdir()
    assert shim.run("ADD", CONFIG).json == RESULT


@pytest.mark.parametrize("command", ["GC", "STATUS"])
def test_the_node_is_ready_without_the_plugin(shim: Any, command: str) -> None:
    shim.know()
    assert shim.run(command, b"").status == 0


@_few
@given(
    before=_json, result=st.dictionaries(st.text(), _json), after=_json, ascii_only=st.booleans(), indent=st.booleans()
)
@example(before='"prevResult":{', result={"}": '\\"{'}, after="\\", ascii_only=False, indent=True)
def test_the_former_result_goes_on_as_it_came(
    shim: Any, before: Any, result: dict[str, Any], after: Any, ascii_only: bool, indent: bool
) -> None:
    config = {"name": before, "prevResult": result, "args": after}
    text = json.dumps(config, ensure_ascii=ascii_only, indent=3 if indent else None)
    answer = shim.run("ADD", text.encode("utf-8", "surrogatepass"))
    assert (answer.status, answer.stderr) == (0, b"")
    assert json.loads(answer.stdout.decode("utf-8", "surrogatepass")) == result


def _strictly_read(text: str) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError:
        return None


@_few
@given(
    prefix=st.integers(0, 200),
    junk=st.sampled_from(["", "{", "}", "[", "]", '"', "\\", ",", ":", "0", "-", "e", ".", "\\u12", "\n", "nul", "é"]),
    cut=st.integers(0, 3),
)
@example(prefix=0, junk="", cut=0)
def test_what_is_no_json_is_refused_and_what_is_one_is_not(shim: Any, prefix: int, junk: str, cut: int) -> None:
    whole = '{"a": [1, -0.5e+3, "\\u00e9\\n"], "prevResult": {"dns": {}, "x": [true, null, {"y": "}"}]}, "b": 10}'
    text = whole[:prefix] + junk + whole[prefix + cut :]
    read = _strictly_read(text)
    answer = shim.run("ADD", text.encode())
    assert answer.stderr == b""
    if read is None or not isinstance(read, dict):
        assert (answer.status, answer.json["code"]) == (1, 6)
    elif isinstance(read.get("prevResult"), dict):
        assert answer.json == read["prevResult"]
    else:
        assert (answer.status, answer.json["code"]) == (1, 7)


@_few
@given(content=st.binary(max_size=200))
def test_no_input_crashes_it(shim: Any, content: bytes) -> None:
    answer = shim.run("ADD", content)
    assert (answer.status, answer.stderr) == (1, b"")
    assert answer.json["code"] in (6, 7)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        pytest.param(b"", 6, id="nothing"),
        pytest.param(b'{"prevResult": {}} {}', 6, id="two objects"),
        pytest.param(b'{"prevResult": {}' + b" " * 2**20 + b"}", 6, id="too large"),
        pytest.param(b'{"prevResult": ' + b'{"a":' * 10**5 + b"1" + b"}" * 10**5 + b"}", 6, id="too deep"),
        pytest.param(b'{"prevResult": {"a": 01}}', 6, id="a number with a leading zero"),
        pytest.param(b'{"prevResult": {"a": "\x01"}}', 6, id="a control character"),
        pytest.param(b'{"cniVersion": "1.0.0"}', 7, id="first in the chain"),
        pytest.param(b'{"prevResult": null}', 7, id="a former result of null"),
        pytest.param(b'{"prevResult": []}', 7, id="a former result that is a list"),
    ],
)
def test_a_bad_configuration_is_an_error_object(shim: Any, config: bytes, code: int) -> None:
    answer = shim.run("ADD", config)
    assert (answer.status, answer.json["code"]) == (1, code)
    assert set(answer.json) == {"cniVersion", "code", "msg"}


def test_the_last_of_two_former_results_counts_however_its_name_is_escaped(shim: Any) -> None:
    assert shim.run("ADD", b'{"prevResult": {"a": 1}, "prev\\u0052esult": {"b": 2}}').json == {"b": 2}


@pytest.mark.parametrize("command", ["", "add", "UPDATE"])
def test_an_unknown_command_is_refused(shim: Any, command: str) -> None:
    answer = shim.run(command, CONFIG)
    assert (answer.status, answer.json["code"]) == (1, 4)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("", id="none"),
        pytest.param("K8S_POD_UID=", id="empty"),
        pytest.param("K8S_POD_UID", id="no value"),
        pytest.param(";;=;K8S_POD_UID=;", id="separators"),
        pytest.param("K8S_POD_UID=../pods/" + POD, id="a path"),
        pytest.param("K8S_POD_UID=.", id="the folder itself"),
        pytest.param(f"XK8S_POD_UID={POD}", id="another key"),
        pytest.param("K8S_POD_UID=" + "a" * 65, id="too long"),
        pytest.param(f"K8S_POD_UID={POD};K8S_POD_UID=b", id="the last one counts"),
    ],
)
def test_what_is_no_uid_of_ours_is_another_pod(shim: Any, arguments: str) -> None:
    shim.know()
    assert shim.run("ADD", CONFIG, arguments=arguments).json == RESULT


def test_a_pod_with_interfaces_does_not_start_while_no_plugin_answers(shim: Any) -> None:
    shim.know()
    began = time.monotonic()
    answer = shim.run("ADD", CONFIG)
    assert 0.6 <= time.monotonic() - began < 3
    assert (answer.status, answer.json["code"], answer.json["cniVersion"]) == (1, 11, "1.0.0")
    assert f"pod team-a/train-0 (uid {POD})" in answer.json["msg"]
    assert str(shim.state_dir / "cni.sock") in answer.json["msg"]


def test_a_plugin_that_never_answers_fails_the_call(shim: Any) -> None:
    shim.know()
    with _listening(shim.state_dir / "cni.sock"):
        began = time.monotonic()
        answer = shim.run("ADD", CONFIG)
    assert 3 <= time.monotonic() - began < 6
    assert answer.json["code"] == 11


@pytest.mark.parametrize("said", [b"", b"{", b"[]", b'{"version": 1}', b'{"result": 1}'])
def test_an_answer_that_is_none_is_asked_for_again(shim: Any, said: bytes) -> None:
    shim.know()
    with _listening(shim.state_dir / "cni.sock") as listener, shim.command("ADD") as process:
        process.stdin.write(json.dumps(CONFIG).encode())
        process.stdin.close()
        for answer in (said, b'{"version": 1, "result": {}}'):
            connection, _ = listener.accept()
            with connection:
                while connection.recv(65536):
                    pass
                connection.sendall(answer)
        assert json.loads(process.stdout.read()) == RESULT
    assert process.returncode == 0


def test_a_pod_that_is_unprepared_meanwhile_can_be_deleted(shim: Any) -> None:
    folder = shim.know()
    with _listening(shim.state_dir / "cni.sock") as listener, shim.command("DEL") as process:
        process.stdin.close()
        connection, _ = listener.accept()
        folder.rmdir()
        connection.close()
        assert process.wait(10) == 0
        assert process.stdout.read() == b""


def test_a_version_that_it_does_not_know_fails_no_other_pod(shim: Any) -> None:
    config = {**CONFIG, "cniVersion": "2.0.0"}
    assert shim.run("ADD", config).json == RESULT
    shim.know()
    assert shim.run("ADD", config).json["code"] == 1


def test_a_result_that_nobody_can_read_is_a_failure(shim: Any) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([shim.program], env={"CNI_COMMAND": "VERSION"}, stdout=full, check=False)
    assert done.returncode == 1


def test_a_variable_without_end_fails_no_other_pod(shim: Any) -> None:
    assert shim.run("ADD", CONFIG, netns="/" + "n" * 5000).json == RESULT
    shim.know()
    assert shim.run("ADD", CONFIG, netns="/" + "n" * 5000).json["code"] == 4


def _listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.settimeout(10)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_numbers_stay_as_they_were_written(shim: Any) -> None:
    text = b'{"prevResult": {"big": 123456789012345678901234567890, "exact": 1.10}}'
    assert shim.run("ADD", text).stdout == b'{"big": 123456789012345678901234567890, "exact": 1.10}\n'
