"""The manifests that ``kubectl apply`` installs for Rootport; here they are text, which adapters parse."""

from importlib.resources import files

__all__ = ["device_classes_text"]


def device_classes_text() -> str:
    """Return the DeviceClasses, as a stream of YAML documents."""
    return files(__name__).joinpath("device-classes.yaml").read_text(encoding="utf-8")
