"""The steps of moving a node, each with its state now and the command that comes next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from driver.migration import commands
from driver.migration.facts import Holder, NodeFacts
from driver.migration.plugins import Plugins, plugins_of
from driver.rivals.removal import removal
from driver.rivals.resources import GPU_OPERATOR, known_words, resource_rule
from driver.wording import listed, plural

__all__ = ["Migration", "Step", "StepState", "migration"]

_SHOWN: Final = 5
_MIG_CONFIG: Final = "nvidia.com/mig.config"
_MIG_MANAGER: Final = f"{GPU_OPERATOR}mig-manager"
_GRACE: Final = "the kubelet sets it to 0 five minutes after a plugin has gone"


class StepState(StrEnum):
    """How far a step is."""

    DONE = "done"
    TO_DO = "to do"
    WAITING = "waiting"
    """Nothing is to be done but to wait."""
    NOT_KNOWN = "not known"
    """What decides it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step.

    Attributes:
        name: Its name, for scripts.
        title: What it does.
        state: How far it is.
        text: What of the cluster says so.
        command: What to run for it; empty where there is nothing to run.
    """

    name: str
    title: str
    state: StepState
    text: str
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """How far a node is.

    Attributes:
        node: Its name.
        is_back: Whether it is the way back, from Rootport to device plugins.
        steps: In their order.
        remarks: What to look at besides.
    """

    node: str
    is_back: bool
    steps: tuple[Step, ...]
    remarks: tuple[str, ...] = ()

    @property
    def next(self) -> Step | None:
        """The first step that is not done; None where all are."""
        return next((step for step in self.steps if step.state is not StepState.DONE), None)


def migration(facts: NodeFacts, *, is_back: bool = False) -> Migration:
    """Return the steps of moving a node to Rootport, or back.

    Args:
        facts: What the cluster says.
        is_back: The way back.
    """
    middle = _back(facts) if is_back else _forward(facts)
    is_moved = all(step.state is StepState.DONE for step in middle)
    cordon = _cordon(facts, is_moved=is_moved)
    uncordon = _uncordon(facts, is_moved=is_moved)
    steps = (cordon, *middle, uncordon)
    return Migration(node=facts.name, is_back=is_back, steps=steps, remarks=_remarks(facts, is_back=is_back))


def _cordon(facts: NodeFacts, *, is_moved: bool) -> Step:
    if facts.is_cordoned:
        state, text = StepState.DONE, "the node takes no new pods"
    elif is_moved:
        state, text = StepState.DONE, "not needed any more"
    else:
        state, text = StepState.TO_DO, "new pods may still come and hold devices"
    return Step(name="cordon", title="Keep new pods away", state=state, text=text, command=commands.cordon(facts.name))


def _uncordon(facts: NodeFacts, *, is_moved: bool) -> Step:
    if facts.is_cordoned:
        state, text = StepState.TO_DO, "the node takes no new pods yet"
    elif is_moved:
        state, text = StepState.DONE, "the node takes new pods"
    else:
        state, text = StepState.TO_DO, "after all other steps"
    return Step(
        name="uncordon", title="Let new pods come", state=state, text=text, command=commands.uncordon(facts.name)
    )


def _forward(facts: NodeFacts) -> tuple[Step, ...]:
    return (
        _drain(facts, facts.old_holders, "by another system"),
        _plugin_off(facts),
        _rootport_on(facts),
        _published(facts),
    )


def _back(facts: NodeFacts) -> tuple[Step, ...]:
    return (
        _drain(facts, facts.our_holders, "of Rootport"),
        _rootport_off(facts),
        _withdrawn(facts),
        _plugin_on(facts),
        _offered(facts),
    )


def _drain(facts: NodeFacts, holders: Sequence[Holder] | None, how: str) -> Step:
    command = commands.drain(facts.name)
    state = StepState.TO_DO
    if holders is None:
        state, text = StepState.NOT_KNOWN, "pods or claims could not be read"
    elif not holders:
        state, text = StepState.DONE, f"nobody holds devices {how}"
    else:
        shown = listed([f"{item.name} ({item.what})" for item in holders], shown=_SHOWN)
        text = f"{plural(len(holders), 'holder')} of devices {how}: {shown}"
        daemons = [item.name for item in holders if item.is_daemon]
        if len(daemons) == len(holders):
            command = ""
            text += "; a drain leaves pods of DaemonSets: take the node out of theirs"
        elif all(item.name.startswith("claim ") for item in holders):
            command = ""
            text += "; no pod uses them: delete the claims"
    return Step(name="drain", title="End what holds devices", state=state, text=text, command=command)


def _plugin_off(facts: NodeFacts) -> Step:
    title = "Take the other system off"
    # A resource that is 0 has no plugin: its DaemonSet, if it is there, is of devices that Rootport does not publish.
    offered = listed([f"{item.name}: {item.capacity}" for item in facts.offered], shown=_SHOWN)
    if facts.plugins is None or facts.drivers is None:
        text = "DaemonSets, pods or ResourceSlices could not be read"
        if offered:
            text = f"the Node has {offered}; {text}"
        return Step(name="plugin-off", title=title, state=StepState.NOT_KNOWN, text=text)
    if not facts.offered and not facts.drivers:
        return Step(name="plugin-off", title=title, state=StepState.DONE, text="nobody else gives out the devices")
    if not facts.offered:
        text = f"DRA driver {listed(facts.drivers)} publishes devices of this node: take the node out of its DaemonSet"
        return Step(name="plugin-off", title=title, state=StepState.TO_DO, text=text)
    here = [item for item in facts.plugins if item.on_node]
    found = plugins_of(here, (item.name for item in facts.offered))
    is_offering = any(item.allocatable for item in facts.offered)
    written = [item.name for item in facts.offered if (rule := resource_rule(item.name)) and rule.is_written]
    if not found.named and len(written) == len(facts.offered):
        text = f"the Node has {offered}, which no kubelet takes away: first keep away who writes it "
        text += "(Koordinator's koord-device-daemon and its Device object), then remove it"
        command = removal(facts.name, written)
        return Step(name="plugin-off", title=title, state=StepState.TO_DO, text=text, command=command)
    if not found.named and len(here) == 1 and is_offering and not written and not known_words(here[0].name):
        found = Plugins(named=tuple(here), certain=tuple(here))  # whatever it is called
    if not found.named and not is_offering:
        text = f"the Node still has {offered}, of which it can give none: {_GRACE}"
        return Step(name="plugin-off", title=title, state=StepState.WAITING, text=text)
    if not found.named:
        text = f"the Node has {offered}, and no DaemonSet of a device plugin here is called so: look who writes it "
        text += f"({listed([item.key for item in here]) or 'a static pod'}; Koordinator's koord-device-daemon)"
        return Step(name="plugin-off", title=title, state=StepState.TO_DO, text=text)
    named = listed([item.key for item in found.named])
    if not found.certain:
        text = f"the Node has {offered}; whose of {named} it is, their names do not say"
        return Step(name="plugin-off", title=title, state=StepState.TO_DO, text=text)
    text = f"the Node has {offered}, by the device plugin {named}"
    ways = [(item, commands.plugin_off(facts.name, item, facts.labels)) for item in found.certain]
    by_hand = next((item for item, way in ways if not way), None)
    if by_hand is not None:
        text += f"; add to the node affinity of {by_hand.key}: {commands.MOVED_LABEL} DoesNotExist"
    command = next((way for _, way in ways if way), "")
    if by_hand is not None and not command:
        command = f"kubectl edit daemonset {shlex.quote(by_hand.name)} --namespace={shlex.quote(by_hand.namespace)}"
    return Step(name="plugin-off", title=title, state=StepState.TO_DO, text=text, command=command)


def _rootport_on(facts: NodeFacts) -> Step:
    name, title = "rootport-on", "Let Rootport's plugin run"
    if facts.plugins is None:
        return Step(name=name, title=title, state=StepState.NOT_KNOWN, text="DaemonSets or pods could not be read")
    ours = facts.ours
    if ours is None:
        if _condition(facts, "Registered") == "True" and facts.our_devices:
            text = "no DaemonSet of it is there, but the kubelet knows its plugin"
            return Step(name=name, title=title, state=StepState.DONE, text=text)
        text = "no DaemonSet of it is there: install Rootport (docs/operator/install.md)"
        return Step(
            name=name, title=title, state=StepState.TO_DO, text=text, command="kubectl apply -k resourceclasses/"
        )
    if ours.is_ready:
        return Step(name=name, title=title, state=StepState.DONE, text="its pod is ready")
    if ours.on_node:
        command = (
            f"kubectl describe pod --namespace={ours.namespace} --selector=app.kubernetes.io/component=kubelet-plugin"
        )
        text = "its pod is there, and not ready"
        return Step(name=name, title=title, state=StepState.WAITING, text=text, command=command)
    command = commands.rootport_on(facts.name, ours, facts.labels)
    text = "labels keep it away" if command else f"its DaemonSet {ours.key} has no pod here: look at its node affinity"
    return Step(name=name, title=title, state=StepState.TO_DO, text=text, command=command)


def _published(facts: NodeFacts) -> Step:
    name, title, command = "published", "See the devices published", f"kubectl describe nodeinventory {facts.name}"
    if facts.our_devices is None:
        return Step(name=name, title=title, state=StepState.NOT_KNOWN, text="ResourceSlices could not be read")
    bad = [
        f"{kind}: {found[1]}: {found[2]}"
        for kind in ("Published", "Ready")
        if (found := (facts.conditions or {}).get(kind)) is not None and found[0] != "True"
    ]
    if facts.tainted:
        text = f"{facts.tainted} of {plural(facts.our_devices, 'device')} have the taint of a rival: "
        text += "; ".join(facts.rivals.values()) or "see the NodeInventory"
        return Step(name=name, title=title, state=StepState.WAITING, text=text, command=command)
    if not facts.our_devices or bad:
        text = "; ".join(bad) or "Rootport publishes no device of this node yet"
        return Step(name=name, title=title, state=StepState.WAITING, text=text, command=command)
    text = f"{plural(facts.our_devices, 'device')}, none with the taint of a rival"
    return Step(name=name, title=title, state=StepState.DONE, text=text)


def _rootport_off(facts: NodeFacts) -> Step:
    name, title = "rootport-off", "Take Rootport's plugin off"
    if facts.plugins is None:
        return Step(name=name, title=title, state=StepState.NOT_KNOWN, text="DaemonSets or pods could not be read")
    is_kept_away = facts.ours is None or commands.MAINTENANCE_LABEL in facts.labels or not facts.our_devices
    if is_kept_away and (facts.ours is None or not facts.ours.on_node):
        return Step(name=name, title=title, state=StepState.DONE, text="its plugin is not on the node")
    command = f"kubectl label node {shlex.quote(facts.name)} {commands.MAINTENANCE_LABEL}="
    if commands.MAINTENANCE_LABEL in facts.labels:
        return Step(name=name, title=title, state=StepState.WAITING, text="its pod is ending")
    text = "its plugin runs here: without it, pods with claims could not end, so drain first"
    return Step(name=name, title=title, state=StepState.TO_DO, text=text, command=command)


def _withdrawn(facts: NodeFacts) -> Step:
    name, title = "withdrawn", "See the devices withdrawn"
    if facts.our_devices is None:
        return Step(name=name, title=title, state=StepState.NOT_KNOWN, text="ResourceSlices could not be read")
    if facts.our_devices:
        text = f"{plural(facts.our_devices, 'device')} of Rootport still published, for up to a minute after its plugin"
        return Step(name=name, title=title, state=StepState.WAITING, text=text)
    return Step(name=name, title=title, state=StepState.DONE, text="Rootport publishes no device of this node")


def _plugin_on(facts: NodeFacts) -> Step:
    name, title = "plugin-on", "Let the other system run"
    if facts.plugins is None:
        return Step(name=name, title=title, state=StepState.NOT_KNOWN, text="DaemonSets or pods could not be read")
    if any(item.allocatable for item in facts.offered):
        return Step(name=name, title=title, state=StepState.DONE, text="the Node has devices of a device plugin")
    # What the Node had of a plugin before stays there as 0.
    wanted = plugins_of(facts.plugins, (item.name for item in facts.resources))
    off = [item for item in wanted.named if not item.on_node and commands.was_switched_off(item, facts.labels)]
    away = off if len(off) == 1 else [item for item in wanted.certain if not item.on_node]
    command = next((way for item in away if (way := commands.plugin_on(facts.name, item, facts.labels))), "")
    if command:
        text = f"labels keep {listed([item.key for item in away])} away"
        return Step(name=name, title=title, state=StepState.TO_DO, text=text, command=command)
    if wanted.certain:
        text = f"waits for {listed([item.key for item in wanted.certain])}"
        return Step(name=name, title=title, state=StepState.WAITING, text=text)
    there = listed([item.key for item in wanted.named or facts.plugins])
    text = (
        f"which of {there} it was is not known"
        if there
        else "no DaemonSet is a device plugin's: install the one that was"
    )
    return Step(name=name, title=title, state=StepState.TO_DO, text=text)


def _offered(facts: NodeFacts) -> Step:
    usable = [f"{item.name}: {item.allocatable}" for item in facts.resources if item.allocatable]
    state = StepState.DONE if usable else StepState.WAITING
    text = f"the Node has {listed(usable, shown=_SHOWN)}" if usable else "the Node has no device of a device plugin yet"
    return Step(name="offered", title="See its devices on the Node", state=state, text=text)


def _condition(facts: NodeFacts, kind: str) -> str:
    return (facts.conditions or {}).get(kind, ("", "", ""))[0]


def _remarks(facts: NodeFacts, *, is_back: bool) -> tuple[str, ...]:
    remarks = list(facts.problems)
    wanted = facts.labels.get(_MIG_CONFIG)
    if not is_back and wanted and facts.labels.get(_MIG_MANAGER, "true") != "false":
        state = facts.labels.get(f"{_MIG_CONFIG}.state", "not known")
        remarks.append(
            f"the MIG manager keeps {_MIG_CONFIG}={wanted} (state {state}): it would make these partitions again; "
            f"kubectl label node {shlex.quote(facts.name)} {_MIG_MANAGER}=false --overwrite"
        )
    if facts.our_holders and not is_back and facts.tainted:
        remarks.append("claims hold devices that another system may give out as well: see Events RivalPlugin")
    return tuple(remarks)
