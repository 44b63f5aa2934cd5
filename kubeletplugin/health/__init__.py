"""The health of this node's devices: reads GPUs and NICs, hears what the driver reports, and says what is wrong."""

from kubeletplugin.health.memory_file import HEALTH_FILE, MemoryFile
from kubeletplugin.health.monitor import HealthMonitor
from kubeletplugin.health.watch import HealthWatch

__all__ = ["HEALTH_FILE", "HealthMonitor", "HealthWatch", "MemoryFile"]
