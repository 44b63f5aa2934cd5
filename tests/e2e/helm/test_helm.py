"""Helm on the real node: installed, upgraded and uninstalled by the commands of the chart's README and its notes."""

from __future__ import annotations

from tests.support.cluster.helm_release import HelmRelease, command, commands
from tests.support.cluster.pods import manifest, pod, template
from tests.support.cluster.processes import wait_until


def test_the_pod_of_the_notes_gets_a_gpu(installed: HelmRelease) -> None:
    cluster = installed.cluster
    # Left-aligned, or a shell would not find its end.
    text = installed.notes.partition("<<EOF\n")[2].partition("\nEOF\n")[0]
    cluster.kubectl("apply", "--filename=-", input=text)
    try:
        cluster.wait_for_pod("first-gpu", "Succeeded")
        assert cluster.kubectl("logs", "first-gpu").startswith("ROOTPORT_")
    finally:
        cluster.kubectl("delete", "--filename=-", input=text)
    installed.running.wait_until_clean()


def test_an_upgrade_rolls_out_what_has_changed_while_pods_start(installed: HelmRelease) -> None:
    cluster = installed.cluster
    assert "--log-level=debug" not in installed.arguments()
    names = [f"during-{number}" for number in range(3)]
    pods = (pod(name, template="gpu", command="ls /dev/nvidia[0-9]*") for name in names)
    installed.helm([*command("Upgrade", "helm", "upgrade"), "--set=kubeletPlugin.logLevel=debug"])
    cluster.kubectl("apply", "--filename=-", input=manifest(template("gpu"), *pods))
    for name in names:
        cluster.wait_for_pod(name, "Succeeded", timeout_s=120)
    installed.rolled_out()
    assert "--log-level=debug" in installed.arguments()
    # What was set at the installation holds.
    assert f"--device-root={installed.running.host.root}" in installed.arguments()
    warnings = cluster.get("events", "--field-selector=type=Warning,reason=FailedPrepareDynamicResources")["items"]
    assert [item["message"] for item in warnings if item["involvedObject"]["name"] in names] == []
    installed.running.delete_all()
    installed.running.wait_until_clean()


def test_a_rollback_rolls_back(installed: HelmRelease) -> None:
    installed.roll_back()
    assert "--log-level=debug" not in installed.arguments()


def test_uninstalled_nothing_is_left_but_what_the_readme_says(installed: HelmRelease) -> None:
    uninstall, *deletions = commands("Uninstall")
    installed.helm(uninstall[1:])
    assert {name for name in installed.left() if name.startswith("customresourcedefinition")} == {
        "customresourcedefinition.apiextensions.k8s.io/devices.rootport.dev",
        "customresourcedefinition.apiextensions.k8s.io/nodeinventories.rootport.dev",
    }
    for words in deletions:
        assert words[0] == "kubectl"
        installed.plane.kubectl(*words[1:], "--timeout=90s")
    # The kubelet deletes the node's slices half a minute after the plugin has ended.
    wait_until("no slices are left", lambda: not installed.running.slices(), timeout_s=60)
    assert sorted(installed.left()) == []
