"""Publishes the NodeInventory, its conditions and the heartbeat."""
