"""Names and labels of Rootport's objects: always ones that the API server takes, and the same for the same device."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from driver.model.devices import DeviceName

__all__ = ["MODEL_LABEL", "NODE_LABEL", "TYPE_LABEL", "device_object_name", "model_label", "node_label"]

NODE_LABEL: Final = "rootport.dev/node"
"""Label of a Device: its node (:func:`node_label`)."""

TYPE_LABEL: Final = "rootport.dev/type"
"""Label of a Device: gpu, rdma, rdma-vf or fpga (:class:`driver.model.devices.DeviceType`)."""

MODEL_LABEL: Final = "rootport.dev/model"
"""Label of a Device: the product's name (:func:`model_label`); absent where it is not known."""

# k8s.io/apimachinery v0.36.3, pkg/api/validate/content: DNS subdomains and label values.
_NAME_LENGTH: Final = 253
_LABEL_LENGTH: Final = 63
_DIGEST_LENGTH: Final = 12
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9_.]+", re.ASCII)


def device_object_name(node: str, device: DeviceName) -> str:
    """Return ``<node>.<device>``; a node's name that is too long is cut, and a hash of all of it added."""
    return f"{_within(node, _NAME_LENGTH - len(device) - 1)}.{device}"


def node_label(node: str) -> str:
    """Return the label's value for a node: its name; one of more than 63 characters is cut, and a hash added."""
    return _within(node, _LABEL_LENGTH)


def model_label(model: str | None) -> str | None:
    """Return a product's name as a label's value: ``NVIDIA-H100-80GB-HBM3``; None where nothing is left of it.

    NVIDIA's GPU feature discovery writes its label nvidia.com/gpu.product in the same way.
    """
    return _NOT_IN_LABELS.sub("-", model or "")[:_LABEL_LENGTH].strip("-_.") or None


def _within(name: str, length: int) -> str:
    if len(name) <= length:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: length - _DIGEST_LENGTH - 1].rstrip('-.')}-{digest}"
