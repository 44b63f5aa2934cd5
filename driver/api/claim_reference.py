"""Names a claim: apart from the claim's models, for processes that do without them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClaimReference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReference:
    """Names one claim in messages, plans and checkpoints."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (uid {self.uid})"
