"""The claims and pods of a cluster: who names whom, what claims hold, and which kubelet could not prepare them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from driver.allocator.identity import DeviceId, PoolId
from driver.allocator.ledger import Holding, Ledger
from driver.explain.known.cluster import EXTENDED_CLAIM, ClaimState, PodState, PrepareFailure

__all__ = ["Workloads"]


class Workloads:
    """Claims and pods that come and go.

    Args:
        ledger: Kept current with what the claims hold.

    Attributes:
        claims: By key (``namespace/name``).
        pods: By key.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.claims: dict[str, ClaimState] = {}
        self.pods: dict[str, PodState] = {}
        self._ledger = ledger
        self._pending: set[str] = set()
        self._pods_naming: defaultdict[str, set[str]] = defaultdict(set)
        self._of_extended: dict[str, str] = {}  # by the pod's UID, the claim made of its extended resources
        self._prepare_failures: dict[str, PrepareFailure] = {}
        # The keys of the claims that hold a device, the first one first; and of those that hold something of a pool.
        self._of_device: dict[DeviceId, tuple[str, ...]] = {}
        self._of_pool: defaultdict[PoolId, set[str]] = defaultdict(set)
        self._drivers: set[str] = set()
        self._assumed: dict[str, ClaimState] = {}  # by key, the claims as they are stored

    def assume(self, key: str, claim: ClaimState) -> set[PoolId] | None:
        """Take a claim for allocated, as ``claim`` has it, until it is stored so.

        Until then, what is put of it without an allocation changes nothing; :meth:`forget` takes the assumption back.

        Returns:
            As :meth:`put_claim`; None also where the claim is gone, or allocated already.
        """
        stored = self.claims.get(key)
        if stored is None or stored.allocated or stored.uid != claim.uid:
            return None
        touched = self.put_claim(key, claim)
        self._assumed[key] = stored
        return touched

    def forget(self, key: str) -> set[PoolId] | None:
        """Take back what was assumed of a claim, if it still is; its pools, None where nothing was."""
        stored = self._assumed.pop(key, None)
        return None if stored is None else self.put_claim(key, stored)

    def put_claim(self, key: str, claim: ClaimState | None) -> set[PoolId] | None:
        """Take over a claim; None forgets it.

        Returns:
            The pools of which something else is held now; None where nothing has changed.
        """
        former = self.claims.get(key)
        if key in self._assumed:
            if claim is not None and not claim.allocated and former is not None and claim.uid == former.uid:
                self._assumed[key] = claim
                return None
            del self._assumed[key]
        if former == claim:
            return None
        held, holds = former.holds if former else (), claim.holds if claim else ()
        touched: set[PoolId] = set()
        if held != holds:
            self._ledger.remove(held)
            self._ledger.add(holds)
            self._book(key, held, holds)
            touched = {item.device.pool_id for item in (*held, *holds)}
        self._note_extended(key, former, claim)
        if claim is None:
            del self.claims[key]
        else:
            self.claims[key] = claim
        if claim is not None and not claim.allocated:
            self._pending.add(key)
        else:
            self._pending.discard(key)
        return touched

    def put_pod(self, key: str, pod: PodState | None) -> bool:
        """Take over a pod, or forget it; whether something has changed."""
        former = self.pods.get(key)
        if former == pod:
            return False
        for claim in _claims_of(former):
            naming = self._pods_naming[claim]
            naming.discard(key)
            if not naming:
                del self._pods_naming[claim]
        for claim in _claims_of(pod):
            self._pods_naming[claim].add(key)
        if pod is None:
            del self.pods[key]
        else:
            self.pods[key] = pod
        return True

    def put_prepare_failure(self, key: str, failure: PrepareFailure | None) -> bool:
        """Take over an Event, or forget it; whether something has changed."""
        if self._prepare_failures.get(key) == failure:
            return False
        if failure is not None:
            self._prepare_failures[key] = failure
        else:
            del self._prepare_failures[key]
        return True

    def pending(self) -> tuple[str, ...]:
        """Return the keys of all claims without an allocation, sorted."""
        return tuple(sorted(self._pending))

    def pods_of(self, claim_key: str) -> tuple[PodState, ...]:
        """Return the pods that name the claim or own it: those not placed first, those that have ended last."""
        found = {key: self.pods[key] for key in self._pods_naming.get(claim_key, ())}
        claim = self.claims.get(claim_key)
        if claim is not None and claim.owner_pod is not None:
            name, uid = claim.owner_pod
            owner = self.pods.get(f"{claim.namespace}/{name}")
            if owner is not None and owner.uid == uid:
                found[owner.key] = owner
        return tuple(sorted(found.values(), key=lambda pod: (pod.ended, pod.node != "", pod.name)))

    def extended_claim(self, pod: PodState) -> ClaimState | None:
        """Return the claim that was made of a pod's extended resources; None where there is none."""
        named = next((entry.claim for entry in pod.claims if entry.name == EXTENDED_CLAIM), "")
        key = self._of_extended.get(pod.uid) or f"{pod.namespace}/{named}"
        claim = self.claims.get(key)
        if claim is None or claim.deleting or claim.namespace != pod.namespace:
            return None
        return claim if claim.owner_pod in {None, (pod.name, pod.uid)} else None

    def holders(self, device: DeviceId) -> tuple[ClaimState, ...]:
        """Return the claims that have the device, or shares of it."""
        return tuple(self.claims[key] for key in self._of_device.get(device, ()))

    def holders_of_pool(self, pool: PoolId) -> Collection[str]:
        """Return the keys of the claims that hold something of a pool."""
        return self._of_pool.get(pool, ())

    def held_pools(self, name: str) -> list[PoolId]:
        """Return the pools of that name, of any driver, of which something is held."""
        return [pool for pool in (PoolId(driver, name) for driver in self._drivers) if pool in self._of_pool]

    def prepare_problem(self, pod: PodState) -> str:
        """Return why the pod's kubelet could not prepare its claims the last time; empty where no Event says so."""
        failures = [item for item in self._prepare_failures.values() if item.pod_uid == pod.uid]
        return max(failures, key=lambda item: item.when).message if failures else ""

    def _note_extended(self, key: str, former: ClaimState | None, claim: ClaimState | None) -> None:
        """Note whose extended resources a claim was made of, unless it is about to go."""
        if former is not None and former.owner_pod is not None and self._of_extended.get(former.owner_pod[1]) == key:
            del self._of_extended[former.owner_pod[1]]
        if claim is not None and claim.is_extended and not claim.deleting and claim.owner_pod is not None:
            self._of_extended[claim.owner_pod[1]] = key

    def _book(self, claim: str, held: Iterable[Holding], holds: Iterable[Holding]) -> None:
        """Book what a claim holds now instead of what it held."""
        for item in held:
            left = tuple(other for other in self._of_device.get(item.device, ()) if other != claim)
            if left:
                self._of_device[item.device] = left
            else:
                self._of_device.pop(item.device, None)
            of_pool = self._of_pool[item.device.pool_id]
            of_pool.discard(claim)
            if not of_pool:
                del self._of_pool[item.device.pool_id]
        for item in holds:
            there = self._of_device.get(item.device, ())
            if claim not in there:
                self._of_device[item.device] = (*there, claim)
            self._of_pool[item.device.pool_id].add(claim)
            self._drivers.add(item.device.driver)


def _claims_of(pod: PodState | None) -> set[str]:
    if pod is None:
        return set()
    return {f"{pod.namespace}/{item.claim}" for item in pod.claims if item.claim}
