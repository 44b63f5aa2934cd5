"""Answers questions about the prepared claims for parts of the plugin that do not hold the state's lock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from driver.errors import RootportError
from driver.plan.effects import Effect
from kubeletplugin.state.entry import Entry
from kubeletplugin.state.store import ClaimStore

__all__ = ["PreparedClaims"]


class PreparedClaims:
    """The prepared claims, as the checkpoint has them now. Safe to use from any thread.

    Args:
        store: The state on disk.
        node: The node's name, which is the name of its pool.
        lent: Returns the functions of NICs that are lent to pods.
    """

    def __init__(self, store: ClaimStore, node: str, *, lent: Callable[[], frozenset[str]]) -> None:
        self._store = store
        self._node = node
        self._lent = lent

    def entries(self) -> Collection[Entry]:
        """Return all entries.

        Raises:
            NodeError: The checkpoint cannot be used.
        """
        return (self._store.checkpoint.look() or {}).values()

    def holding(self) -> Collection[Entry]:
        """Return the entries of this boot: those of an earlier one hold nothing until they are prepared again.

        Raises:
            NodeError: As for :meth:`entries`.
        """
        return [entry for entry in self.entries() if entry.boot_id == self._store.boot_id]

    def effects(self) -> Iterator[Effect]:
        """Return what was done to the node for the claims of :meth:`holding`.

        Raises:
            NodeError: As for :meth:`entries`.
        """
        return (effect for entry in self.holding() for effect in entry.effects)

    def device_names(self) -> Iterator[str]:
        """Return the names of the devices in the node's pool that prepared claims have."""
        try:
            entries = self.entries()
        except RootportError:
            return  # a damaged checkpoint is reported, and repaired, where claims are prepared
        for entry in entries:
            yield from (device.device for device in entry.devices if device.pool == self._node)

    def functions_in_pods(self) -> frozenset[str]:
        """Return the functions of NICs whose interfaces may be in pods: lent by Rootport, or moved by Multus.

        Raises:
            NodeError: The records of what is lent cannot be read.
        """
        try:
            uses = [item.nic_use for entry in self.entries() for item in entry.held_devices if item.nic_use is not None]
        except RootportError:
            uses = []  # as above
        allocated = {use.vf or use.nic for use in uses if not use.is_part}
        return self._lent() | (allocated - {""})
