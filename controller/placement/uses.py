"""Finds out who uses an allocated claim, and since when it could not be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from controller.placement.next_step import ClaimUse
from controller.placement.pods import WaitingPod
from controller.placement.records import ClaimRecord
from driver.explain.judge.placement import node_refusal
from driver.explain.known.cluster import PodState
from driver.explain.known.state import ClusterState
from driver.model.managed_nodes import GATE

__all__ = ["ClaimUses"]

_NEVER: Final = float("inf")


@dataclass(slots=True)
class _Since:
    """Since when a claim's allocation is as it is, in monotonic seconds; infinite for what is not the case."""

    node: str
    held: float
    unwanted: float = _NEVER
    unusable: float = _NEVER
    refused: float = _NEVER


class ClaimUses:
    """Follows the claims that are allocated and not used yet. Not thread-safe.

    Args:
        waiting: The pods that wait, by key.
        clock: Monotonic seconds.
    """

    def __init__(self, waiting: Mapping[str, WaitingPod], *, clock: Callable[[], float]) -> None:
        self._waiting = waiting
        self._clock = clock
        self._since: dict[str, _Since] = {}

    def of(self, record: ClaimRecord, state: ClusterState) -> ClaimUse:
        """Return who uses a claim, and for how long it has been so."""
        now = self._clock()
        since = self._since.get(record.key)
        if since is None or since.node != record.pool:
            since = self._since[record.key] = _Since(node=record.pool, held=now)
        pods = [pod for pod in state.pods_of(record.key) if pod.is_waiting or (pod.node and not pod.ended)]
        waiting = [pod for pod in pods if pod.is_waiting]
        since.unwanted = _from(since.unwanted, now, holds=not pods)
        # A pod that somebody else holds back cannot use it yet; where all are held back, they may come to.
        ready = [pod for pod in waiting if not self._is_held_back(pod)] or waiting
        since.unusable = _from(since.unusable, now, holds=bool(ready) and not _can_be_there(state, record.pool, ready))
        since.refused = _from(since.refused, now, holds=any(self._is_refused(pod) for pod in waiting))
        return ClaimUse(
            is_wanted=bool(pods),
            unwanted_for_s=max(now - since.unwanted, 0.0),
            held_for_s=now - since.held,
            node_unusable_for_s=max(now - since.unusable, 0.0) if since.unusable < _NEVER else 0.0,
            refused_for_s=max(now - since.refused, 0.0),
            is_given_twice=_is_given_twice(state, record.key),
        )

    def retain(self, keys: set[str]) -> None:
        """Forget all claims but these."""
        for key in self._since.keys() - keys:
            del self._since[key]

    def _is_held_back(self, pod: PodState) -> bool:
        found = self._waiting.get(pod.key)
        return found is not None and any(gate != GATE for gate in found.gates)

    def _is_refused(self, pod: PodState) -> bool:
        found = self._waiting.get(pod.key)
        return found is not None and found.is_refused and not found.gates


def _from(since: float, now: float, *, holds: bool) -> float:
    return min(since, now) if holds else _NEVER


def _can_be_there(state: ClusterState, node: str, pods: list[PodState]) -> bool:
    found = state.nodes.get(node)
    return found is not None and any(node_refusal(pod, found, ()) is None for pod in pods)


def _is_given_twice(state: ClusterState, key: str) -> bool:
    """Return whether another claim has a device of this one: kube-scheduler has written later than was waited for."""
    claim = state.claim(key)
    for device in {held.device for held in claim.holds} if claim is not None else ():
        holds = [held for holder in state.holders(device) for held in holder.holds if held.device == device]
        if len(holds) > 1 and any(held.share_id is None for held in holds):
            return True
    return False
