"""What ``kubectl apply`` installs for Rootport. Here as text only: reading YAML is an adapter's work."""

from importlib.resources import files

__all__ = ["crds_text", "device_classes_text"]


def crds_text() -> str:
    """The CustomResourceDefinitions, as a stream of YAML documents."""
    folder = files(__name__).joinpath("crds")
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".yaml"))
    return "---\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def device_classes_text() -> str:
    """The DeviceClasses, as a stream of YAML documents."""
    return files(__name__).joinpath("device-classes.yaml").read_text(encoding="utf-8")
