"""The health of this node's devices: reads GPUs and NICs, hears what the driver reports, and says what is wrong."""

from kubeletplugin.health.fault_history_file import HEALTH_FILE, FaultHistoryFile
from kubeletplugin.health.monitor import HealthMonitor
from kubeletplugin.health.watch import HealthWatch

__all__ = ["HEALTH_FILE", "FaultHistoryFile", "HealthMonitor", "HealthWatch"]
