"""What ``kubectl apply`` installs for Rootport. Here as text only: reading YAML is an adapter's work."""

from importlib.resources import files

__all__ = ["device_classes_text"]


def device_classes_text() -> str:
    """The DeviceClasses, as a stream of YAML documents."""
    return files(__name__).joinpath("device-classes.yaml").read_text(encoding="utf-8")
