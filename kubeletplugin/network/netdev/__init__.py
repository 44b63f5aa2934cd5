"""Network interfaces and RDMA devices of NICs: lent to pods and taken back, and the settings of virtual functions."""

from __future__ import annotations

__all__: list[str] = []
