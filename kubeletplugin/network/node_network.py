"""The plugin's part in pods' networks: the settings of VFs, the interfaces lent to pods, and the CNI plugin's calls.

Most nodes lend nothing, so what does it is imported when it is first needed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from driver.adapters.files.durable_files import entries, os_errors_as_node_errors
from driver.errors import NodeError, RootportError
from driver.model.lent import LentNames
from driver.plan.effects import ConfigureVf, LendInterface
from kubeletplugin.effects.effector import Effector, ExclusiveEffector
from kubeletplugin.effects.lazy import LazyEffector, LazyExclusiveEffector
from kubeletplugin.node.roots import Roots
from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus, ConditionType

if TYPE_CHECKING:
    from kubeletplugin.network.cni import CniServer, NetworkConfig
    from kubeletplugin.network.netdev.lender import InterfaceLender
    from kubeletplugin.network.netdev.links import Links
    from kubeletplugin.network.netdev.records import InPod

__all__ = ["NodeNetwork"]

_LOG: Final = logging.getLogger(__name__)
_STATE: Final = "run/rootport/cni"
"""Below the host's ``/``: compiled into the CNI plugin."""


class NodeNetwork:
    """Connects pod networks with the rest of the plugin; safe to use from several threads.

    Args:
        roots: Where the host is.
        config_dir: Where the container runtime reads its network configuration; None: the CNI plugin is not used.
        program_dir: Where the runtime finds CNI plugins; None as above.
        config_file: Which file of ``config_dir``; None for the one that the runtime takes.
        program: The CNI plugin, which is copied there.
        on_change: Called after the interfaces of a pod were moved; must not block.
        on_unchained: Called when a claim finds the CNI plugin taken out of the node's network since the last
            :meth:`check`; must not block.
        lends_default_route: Returns whether a function of a NIC, by its name in the pool, may be lent although the
            node's default route goes through its interface.

    Raises:
        InputError: The root of the host's devices does not exist.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        config_dir: Path | None,
        program_dir: Path | None,
        program: Path,
        config_file: str | None = None,
        on_change: Callable[[], None],
        on_unchained: Callable[[], None] = lambda: None,
        lends_default_route: Callable[[str], bool] = lambda _function: False,
    ) -> None:
        self._roots = roots
        self._state_dir = roots.devices().path / _STATE
        self._on_change = on_change
        self._on_unchained = on_unchained
        self._lends_default_route = lends_default_route
        self._was_chained = False
        self._lock = threading.Lock()
        self._made: InterfaceLender | None = None
        self._links: Links | None = None
        self._serving = False
        self._config: NetworkConfig | None = None
        self._server: CniServer | None = None
        self.vfs: Effector[ConfigureVf] = LazyEffector(self._vf_configurer)
        self.interfaces: ExclusiveEffector[LendInterface] = LazyExclusiveEffector(self._lender)
        if config_dir is not None and program_dir is not None:
            from kubeletplugin.network.cni import CniServer, NetworkConfig  # noqa: PLC0415 - see above

            self._config = NetworkConfig(config_dir, bin_dir=program_dir, program=program, file_name=config_file)
            self._server = CniServer(self._state_dir, _NotifyingLender(self._lender(), on_change))

    def start(self) -> None:
        """Serve the CNI plugin, if it is used on this node, or pods have interfaces from when it was.

        Those could not end otherwise: the runtime asks for what they have back before the kubelet unprepares.
        """
        if self._server is None and self._has_records():
            from kubeletplugin.network.cni import CniServer  # noqa: PLC0415 - see above

            self._server = CniServer(self._state_dir, _NotifyingLender(self._lender(), self._on_change))
        if self._server is not None:
            self._serving = True
            try:
                self._server.start()
            except RootportError as error:
                # Claims without interfaces must be prepared all the same; the next check tries again, and tells it.
                _LOG.warning("the CNI plugin's calls cannot be served: %s", error)

    def stop(self) -> None:
        """Take no more calls."""
        self._serving = False
        if self._server is not None:
            self._server.stop()

    def check(self) -> ConditionReport | None:
        """Make the CNI plugin part of the node's network and serve it; return a report, or None if it is not used.

        A network's own installer may write its configuration anew, and a newer process of the plugin that took the
        socket over may have ended.
        """
        self._was_chained = False
        try:
            if self._config is not None:
                self._config.ensure()
                self._was_chained = True
            if self._server is not None and self._serving:
                self._server.check()
        except RootportError as error:
            message = f"no claim can have a network interface moved into its pod: {error}"
            return _report(ConditionStatus.FALSE, "NotChained", message)
        if self._config is None:
            return None
        return _report(ConditionStatus.TRUE, "Chained", "rootport-cni is part of the node's network")

    def has_cni_plugin(self) -> bool:
        """Whether the CNI plugin is part of the node's network, now."""
        is_chained = self._config is not None and self._config.is_chained()
        if self._was_chained and not is_chained:
            # Once: where the check cannot chain it again, each claim would have it look again.
            self._was_chained = False
            self._on_unchained()
        return is_chained

    def lent(self) -> frozenset[str]:
        """Return the functions of NICs that are lent to pods: from before one is moved until after it is back.

        Raises:
            NodeError: The state of what is lent cannot be read.
        """
        # A record's name is the function's: one that is damaged must not hide it, nor anything else of the node.
        return frozenset(path.stem for path in self._records())

    def lent_names(self) -> Mapping[str, LentNames]:
        """Return the host's names of the lent functions, by their names in the pool, as far as they are known."""
        found: dict[str, LentNames] = {}
        try:
            if not self._records():
                return found
            from kubeletplugin.network.netdev.records import Records  # noqa: PLC0415 - see above

            records = Records(self._state_dir)
            for record in chain(records.all(), records.lost()):
                effect = record.effect
                found[effect.function] = LentNames(interface=effect.interface or None, rdma_device=effect.rdma_device)
        except NodeError as error:
            _LOG.warning("%s", error)
        return found

    def of_claim(self, claim_uid: str) -> Mapping[str, InPod]:
        """Return the interfaces that were moved into a claim's pod, by the functions' names in the pool.

        Raises:
            NodeError: As above.
        """
        return self._lender().network_data(claim_uid) if self._records() else {}

    def next_hops(self) -> frozenset[str]:
        """Return the interfaces through which the host's default routes go; none where that cannot be told."""
        from kubeletplugin.network.netdev.lender import HOST_NETNS  # noqa: PLC0415 - see above
        from kubeletplugin.network.netdev.next_hops import next_hops  # noqa: PLC0415

        with self._lock:
            links = self._shared_links()
        return next_hops(links, HOST_NETNS)

    def _has_records(self) -> bool:
        try:
            return bool(self._records())
        except NodeError as error:
            _LOG.warning("%s", error)
            return False

    def _records(self) -> list[Path]:
        """Return the record files, without loading the lender; see :mod:`kubeletplugin.network.netdev.records`."""
        with os_errors_as_node_errors(f"the state of lent interfaces in {self._state_dir} cannot be read"):
            pods = [folder for folder in entries(self._state_dir / "pods") if folder.is_dir()]
            paths = [path for folder in (*pods, self._state_dir / "lost") for path in entries(folder)]
        return [path for path in paths if path.suffix == ".json" and not path.name.startswith(".")]

    def _lender(self) -> InterfaceLender:
        from kubeletplugin.network.netdev.lender import InterfaceLender  # noqa: PLC0415 - see above

        with self._lock:
            if self._made is None:
                self._made = InterfaceLender(
                    self._roots,
                    state_dir=self._state_dir,
                    links=self._shared_links(),
                    lends_default_route=self._lends_default_route,
                )
            return self._made

    def _vf_configurer(self) -> Effector[ConfigureVf]:
        from kubeletplugin.network.netdev.vf_settings import VfConfigurer  # noqa: PLC0415 - see above

        with self._lock:
            return VfConfigurer(self._roots, state_dir=self._state_dir, links=self._shared_links())

    def _shared_links(self) -> Links:
        from kubeletplugin.network.netdev.links import Links  # noqa: PLC0415 - see above

        if self._links is None:
            self._links = Links()
        return self._links


class _NotifyingLender:
    """Calls back after each change of a pod's network; a :class:`kubeletplugin.network.cni.Lender`."""

    def __init__(self, lender: InterfaceLender, on_change: Callable[[], None]) -> None:
        self._lender = lender
        self._on_change = on_change

    def attach(self, pod_uid: str, netns: str) -> None:
        self._lender.attach(pod_uid, netns)
        self._on_change()

    def detach(self, pod_uid: str, netns: str | None) -> None:
        self._lender.detach(pod_uid, netns)
        self._on_change()

    def check(self, pod_uid: str, netns: str) -> None:
        self._lender.check(pod_uid, netns)


def _report(status: ConditionStatus, reason: str, message: str) -> ConditionReport:
    return ConditionReport(type=ConditionType.NETWORK_PLUGIN_READY, status=status, reason=reason, message=message)
