"""The plugin's process: makes the parts, connects them, starts them in their order and stops them on a signal."""

from kubeletplugin.process.run import run

__all__ = ["run"]
