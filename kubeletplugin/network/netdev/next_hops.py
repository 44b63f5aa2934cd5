"""Asks ``ip`` through which interfaces the host's default routes go: /proc names one next hop of several."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from driver.errors import NodeError
from kubeletplugin.network.netdev.links import Links
from kubeletplugin.network.netdev.programs import opened_netns

__all__ = ["next_hops"]

_LOG: Final = logging.getLogger(__name__)


def next_hops(links: Links, netns: Path) -> frozenset[str]:
    """Return the interfaces of all next hops of a namespace's default routes; none where ``ip`` cannot tell.

    Args:
        links: Asks the kernel.
        netns: The network namespace of the host.
    """
    doing = "looking for the next hops of the default routes"
    try:
        with opened_netns(netns, doing=doing) as host:
            return links.default_route_interfaces(host, doing=doing)
    except NodeError as error:
        _LOG.info("of a default route with several next hops only the first is known: %s", error)
        return frozenset()
