"""Converts what the tests write, and holds each claim to what the API server, lint and the kubelet plugin take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from driver.adapters.manifests.claims import read_manifest_text
from driver.api.resource_v1 import ObjectMeta, ResourceClaim, ResourceClaimTemplate
from driver.api.validation.claims import validate_claim_template
from driver.api.validation.defaults import with_defaults
from driver.convert import DEFAULT, Conversion, Finding, Outcome, Settings, convert
from driver.lint import LintFinding, lint_claim
from driver.lint.findings import LintCode
from resourceclasses import device_classes_text

__all__ = ["CLASSES", "claims", "converted", "fields", "pod", "request", "requests", "unforeseen"]

CLASSES = {
    item.device_class.metadata.name: item.device_class
    for item in read_manifest_text(device_classes_text(), "resourceclasses").classes
}


def pod(resources: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of one container that asks for resources."""
    limits = {"cpu": "40m", **resources}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits, "requests": dict(limits)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "example", "namespace": "ml"},
        "spec": {"containers": [container], **spec},
    }


def converted(data: Mapping[str, Any] | str, settings: Settings = DEFAULT) -> Conversion:
    """The conversion; what it wrote is valid, has nothing that lint finds, and converts no second time."""
    given = yaml.safe_load(data) if isinstance(data, str) else data
    before = json.dumps(given)
    conversion = convert(given, settings)
    assert json.dumps(given) == before
    assert convert(given, settings) == conversion
    if conversion.outcome in (Outcome.UNCHANGED, Outcome.REFUSED):
        assert conversion.object is given
        assert not conversion.templates
        return conversion
    again = convert(conversion.object, settings)
    assert again.outcome is Outcome.UNCHANGED
    assert again.object is conversion.object
    for claim in claims(conversion).values():
        found = lint_claim(claim, classes=CLASSES)
        assert unforeseen(found, conversion.findings) == [], found
    return conversion


def unforeseen(found: Iterable[LintFinding], findings: Iterable[Finding]) -> list[LintFinding]:
    """What lint finds and the conversion has not told: that NICs are not near, it tells itself."""
    is_told = any("does not ask for NICs near" in finding.text for finding in findings)
    return [each for each in found if not (is_told and each.code is LintCode.UNPAIRED_DEVICES)]


def claims(conversion: Conversion) -> dict[str, ResourceClaim]:
    """The claims that its templates make, by the template's name."""
    found = {}
    for wire in conversion.templates:
        template = ResourceClaimTemplate.model_validate({"metadata": wire["metadata"], "spec": wire["spec"]})
        assert validate_claim_template(template) == ()
        assert (wire["apiVersion"], wire["kind"]) == ("resource.k8s.io/v1", "ResourceClaimTemplate")
        metadata = ObjectMeta(name="claim", namespace=template.metadata.namespace or "default")
        found[template.metadata.name] = with_defaults(ResourceClaim(metadata=metadata, spec=template.spec.spec))
    return found


def requests(conversion: Conversion) -> list[dict[str, Any]]:
    """The requests of its only template."""
    (template,) = conversion.templates
    found: list[dict[str, Any]] = template["spec"]["spec"]["devices"]["requests"]
    return found


def request(conversion: Conversion) -> str:
    """The only request of its only template, in short: ``gpu 2 core=50 memory=20Gi``."""
    (only,) = requests(conversion)
    fields = only["exactly"]
    count = "all" if fields.get("allocationMode") == "All" else str(fields.get("count", 1))
    amounts = fields.get("capacity", {}).get("requests", {})
    device_class = fields["deviceClassName"].removesuffix(".rootport.dev")
    return " ".join([device_class, count, *(f"{name}={amount}" for name, amount in amounts.items())])


def fields(conversion: Conversion, outcome: Outcome) -> dict[str, str]:
    """The texts of the findings of an outcome, by field."""
    return {finding.field: finding.text for finding in conversion.findings if finding.outcome is outcome}
