"""What the plugin publishes of its node: the NodeInventory with its conditions, and the heartbeat's Lease.

A new condition gets a type in ``conditions``, and a check in ``host_checks``.
"""

__all__: list[str] = []
