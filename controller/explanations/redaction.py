"""Removes the names of other namespaces' claims and pods from an explanation, and counts them instead."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from driver.explain.explanation import Explanation, Finding, FunnelStep, NodeGroup, Proposal, RequestFunnel

__all__ = ["hide_names"]

# namespace/name, as texts of explanations write them: a label of DNS, then a subdomain.
_REF: Final = r"(?<![\w./-])[a-z0-9](?:[-a-z0-9]*[a-z0-9])?/[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?(?![\w/])"
_LIST: Final = re.compile(
    rf"(?:\b(?P<kind>claim|pod|ResourceClaim|Pod)s? )?(?P<refs>{_REF}(?:(?:, and |, | and )(?:(?:claim|pod) )?{_REF})*)"
)
_ONE: Final = re.compile(_REF)
# That a hidden claim is held by a hidden pod says nothing.
_REDUNDANT: Final = (
    (re.compile(r" \((?:\d+ pods such as )?1 (?:pod )?of another namespace\)"), ""),
    (re.compile(r" \((?:\d+ pods such as )?1 (?:pod )?of another namespace, "), " ("),
)
# Once their pods are removed from between them, one count is enough.
_ALIKE: Final = re.compile(
    r"\b1 (?P<kind>claim|pod) of another namespace(?:(?:, and |, | and )1 (?P=kind) of another namespace)+"
)


def hide_names(explanation: Explanation, *, namespace: str, others: Collection[str]) -> Explanation:
    """Return the explanation without names of claims and pods of other namespaces.

    Args:
        explanation: The explanation.
        namespace: The namespace whose names may be shown.
        others: All namespaces with claims or with pods that have claims; ``namespace`` may be among them.
    """
    return _Hiding(frozenset(others) - {namespace}, namespace).explanation(explanation)


def _counted(match: re.Match[str]) -> str:
    return f"{match.group().count('of another')} {match['kind']}s of other namespaces"


class _Hiding:
    def __init__(self, hidden: frozenset[str], own: str) -> None:
        self._hidden = hidden
        self._own = own

    def explanation(self, found: Explanation) -> Explanation:
        return replace(
            found,
            findings=tuple(map(self._finding, found.findings)),
            requests=tuple(map(self._request, found.requests)),
            groups=tuple(map(self._group, found.groups)),
            proposals=tuple(map(self._proposal, found.proposals)),
            scheduler_message=self.text(found.scheduler_message),
            notes=tuple(map(self._note, found.notes)),
        )

    def text(self, text: str) -> str:
        shown = _LIST.sub(self._listed, text) if "/" in text else text
        if shown != text:
            for pattern, instead in _REDUNDANT:
                shown = pattern.sub(instead, shown)
            shown = _ALIKE.sub(_counted, shown)
        return shown

    def _listed(self, match: re.Match[str]) -> str:
        refs = [found.group() for found in _ONE.finditer(match["refs"])]
        shown = [ref for ref in refs if ref.partition("/")[0] not in self._hidden]
        hidden = len(refs) - len(shown)
        if not hidden:
            return match.group()
        kind = {"ResourceClaim": "claim", "Pod": "pod", None: ""}.get(match["kind"], match["kind"] or "")
        noun = f"{kind}{'' if hidden == 1 else 's'} " if kind and not shown else ""
        counted = f"{hidden} {noun}of {'another namespace' if hidden == 1 else 'other namespaces'}"
        before = f"{kind}{'' if len(shown) == 1 else 's'} " if kind and shown else ""
        return before + " and ".join(part for part in (", ".join(shown), counted) if part)

    def _note(self, text: str) -> str:
        """Cut a note about a hidden object at the colon: what follows may quote the object."""
        shown = self.text(text)
        return shown if shown == text else shown.partition(": ")[0]

    def _finding(self, found: Finding) -> Finding:
        return replace(found, message=self.text(found.message))

    def _request(self, found: RequestFunnel) -> RequestFunnel:
        return replace(found, steps=tuple(map(self._step, found.steps)))

    def _step(self, found: FunnelStep) -> FunnelStep:
        return replace(found, details=tuple(map(self.text, found.details)))

    def _group(self, found: NodeGroup) -> NodeGroup:
        return replace(found, message=self.text(found.message))

    def _proposal(self, found: Proposal) -> Proposal:
        ends = tuple(ref for ref in found.ends if ref.namespace == self._own)
        pods = tuple(ref for ref in found.pods if ref.namespace == self._own)
        text = self.text(found.text)
        is_whole = (ends, pods, text) == (found.ends, found.pods, found.text)
        # A command that makes only a part of the change, or whose names are replaced by counts, is no help.
        commands = found.commands if is_whole and all(self.text(item) == item for item in found.commands) else ()
        return replace(found, text=text, ends=ends, pods=pods, commands=commands)
