"""The health of this node's devices: read from GPUs and NICs, or reported by the driver; judged by driver.health."""

from kubeletplugin.health.fault_history_file import HEALTH_FILE, FaultHistoryFile
from kubeletplugin.health.monitor import HealthMonitor
from kubeletplugin.health.watch import HealthWatch

__all__ = ["HEALTH_FILE", "FaultHistoryFile", "HealthMonitor", "HealthWatch"]
