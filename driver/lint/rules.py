"""Describes each code of the linter, for SARIF and docs/user/lint.md, which a test holds together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from driver.lint.findings import LintCode, Severity

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """The meaning of a code.

    Attributes:
        severity: The one that it mostly has; the findings have their own.
        what: What is wrong.
        help: What to do.
    """

    severity: Severity
    what: str
    help: str


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

RULES: Final[Mapping[LintCode, Rule]] = {
    LintCode.UNREADABLE: Rule(
        _ERROR,
        "A file cannot be read, is no YAML or JSON, or is larger or deeper than any manifest",
        "See the message. Of a Helm chart, lint what `helm template` makes of it",
    ),
    LintCode.NOT_AN_OBJECT: Rule(
        _ERROR,
        "What was named is no object of Kubernetes: it has no `kind` or no `apiVersion`. In a folder such a file is"
        " only counted",
        "Name manifests",
    ),
    LintCode.OLD_VERSION: Rule(
        _ERROR,
        "An object of `resource.k8s.io` in a version before `v1`",
        "Write `resource.k8s.io/v1`. Since `v1beta2` what a request asks for stands in its field `exactly`; what was a"
        " ResourceClass is a DeviceClass",
    ),
    LintCode.INVALID_OBJECT: Rule(
        _ERROR,
        "An object that the API server refuses, such as one with an unknown field, a value of another type, or a slip"
        " in its kind",
        "See the message; it names the field and, where it can, what was meant",
    ),
    LintCode.DUPLICATE_OBJECT: Rule(
        _ERROR,
        "An object of the same kind, namespace and name is in the files twice, with other fields: the one that is"
        " applied last counts. A warning where the two are equal",
        "Give one of the two another name, or lint what belongs together in one run",
    ),
    LintCode.ASKS_FOR_NOTHING: Rule(
        _WARNING,
        "A claim without requests: it is allocated at once and gives no device",
        "Write requests",
    ),
    LintCode.UNKNOWN_CLASS: Rule(
        _ERROR,
        "There is no DeviceClass of that name in the cluster or dump that was named. Without one, a name that is nearly"
        " Rootport's is an error, and any other class a note: it may be on the cluster, and nothing is checked of what"
        " it selects",
        "Correct the name, or give the file with the class as well",
    ),
    LintCode.SELECTOR_INVALID: Rule(
        _ERROR, "A CEL expression does not compile", "See the message; it names the column"
    ),
    LintCode.SELECTOR_TOO_COSTLY: Rule(
        _ERROR,
        "The API server refuses an expression whose cost it estimates above 1,000,000",
        "Range over less, compare shorter strings",
    ),
    LintCode.PARAMETERS_INVALID: Rule(
        _ERROR,
        "Opaque parameters for Rootport that no node would prepare: wrong fields, a kind that the request's devices do"
        " not take, a sharing strategy or limit that does not fit the share. A warning where they have no effect or are"
        " refused for some alternatives or nodes alone",
        "See the message",
    ),
    LintCode.FOREIGN_PARAMETERS: Rule(
        _WARNING,
        "Opaque parameters for another driver, for requests whose devices are Rootport's: nobody reads them, so a limit"
        " or a sharing strategy in them has no effect",
        "Write them for driver `rootport.dev`, in its own kinds",
    ),
    LintCode.CAPACITY_INVALID: Rule(
        _ERROR, "An amount that no device can give, such as 150 percent of `core`", "See the message"
    ),
    LintCode.SMALL_AMOUNT: Rule(
        _WARNING,
        "Less memory than 1 MiB, or less bandwidth than 1 Mb/s, in a request or a selector: `memory: 40` is 40 bytes",
        "Write the suffix: `40Gi`, `100G`",
    ),
    LintCode.TOO_MANY_DEVICES: Rule(_ERROR, "More than 32 devices in one claim", "Several claims in the pod"),
    LintCode.UNKNOWN_ATTRIBUTE: Rule(
        _ERROR,
        "A selector reads an attribute that no device of the class has: a typo, a wrong domain, or an attribute of"
        " another kind of device. A warning where the expression asks first whether it is there",
        "The hint names what was meant, or the kinds that have it",
    ),
    LintCode.UNKNOWN_CAPACITY: Rule(
        _ERROR,
        "The same of a capacity, in a selector or in `capacity.requests`. There, names stand without the domain:"
        " `memory`, not `rootport.dev/memory`",
        "As above",
    ),
    LintCode.UNGUARDED_ATTRIBUTE: Rule(
        _WARNING,
        "A selector reads an attribute that many machines lack (`pcieSwitch`, `nvlinkDomain`, `nvlinkPair`, `rail`,"
        " `ifName`, `guid`) without asking first. An absent attribute is an error, and kube-scheduler then gives up on"
        " the pod for all nodes. Of a DeviceClass: it reads attributes without asking for the driver first, and so"
        " fails for devices of other drivers",
        'Begin with `"rail" in device.attributes["rootport.dev"] &&`',
    ),
    LintCode.COMPARISON_OF_TYPES: Rule(
        _ERROR,
        "A selector compares an attribute with a constant of another type, such as `model == 5`: never true. A warning"
        " where that is a part of the term, and of `!=`, which is always true",
        'Compare values of one type; versions as `compareTo(semver("9.0.0")) >= 0`',
    ),
    LintCode.SELECTOR_FAILS: Rule(
        _ERROR,
        'A selector ends with an error: for every device, as with `1/0` or `quantity("40GB")`, or for one of those that'
        " were found. kube-scheduler gives up on the pod when it comes to such a device. A warning where the device's"
        " values decide whether it comes to the error",
        "Ask first whether the attribute is there; compare values of one type; correct the constant",
    ),
    LintCode.CONSTRAINT_ATTRIBUTE: Rule(
        _ERROR,
        "A constraint is on an attribute that a request's devices never have, so it never holds",
        "The hint names what was meant, or the kinds that have it",
    ),
    LintCode.CONSTRAINT_WITHOUT_EFFECT: Rule(
        _WARNING, "A constraint holds a single device together with nothing", "Name all requests that it is for"
    ),
    LintCode.UNPAIRED_DEVICES: Rule(
        _WARNING,
        "GPUs and RDMA NICs in one claim, and no `matchAttribute` that says that they are near each other",
        "A constraint; `rootport pairs` writes it",
    ),
    LintCode.LADDER_CHANGED: Rule(
        _WARNING,
        "Requests with the rungs of `rootport pairs` and without all of its constraints, as after a change by hand:"
        " devices may be given on a rung that they are not on",
        "Write the claim again with `rootport pairs`",
    ),
    LintCode.REDUNDANT_ALTERNATIVE: Rule(
        _WARNING, "An alternative of `firstAvailable` that asks for the same as an earlier one", "Leave it out"
    ),
    LintCode.PARTIAL_SHARE: Rule(
        _WARNING,
        "`core` without `memory` or `memoryRatio`: the claim takes all of the GPU's memory, so nobody else gets a"
        " share",
        "Name the memory as well; name nothing for a whole GPU",
    ),
    LintCode.MANAGED_TAINT_TOLERATED: Rule(
        _WARNING,
        "A request tolerates the taint `rootport.dev/managed` of managed nodes' devices, by its key or with every other"
        " one: kube-scheduler and Rootport's placement would both allocate there. Where placement is installed, such a"
        " claim is refused",
        "Leave it out: placement gives devices of managed nodes without it. In place of a toleration without a key,"
        " name the keys that are meant",
    ),
    LintCode.SLOW_SEARCH: Rule(
        _WARNING,
        "Where the claim does not fit, kube-scheduler tries more than 150,000 combinations on the node: about a second;"
        " it gives up after 10 s",
        "One request with a `count` in place of many alike requests; of pairs, `--scope switch`",
    ),
    LintCode.POD_CLAIM_NAME: Rule(
        _ERROR,
        "A container's `resources.claims` names a claim that the pod's `resourceClaims` do not have, or these have a"
        " name twice: the API server refuses the pod",
        "The hint names what was meant",
    ),
    LintCode.POD_CLAIM_SOURCE: Rule(
        _ERROR,
        "An entry of the pod's `resourceClaims` names neither a claim nor a template, or both",
        "Write one of `resourceClaimName` and `resourceClaimTemplateName`",
    ),
    LintCode.POD_CLAIM_MISSING: Rule(
        _WARNING,
        "The files have claims or templates of the pod's namespace, and not the one that the pod names. It may be on"
        " the cluster",
        "The hint names what was meant",
    ),
    LintCode.POD_CLAIM_UNUSED: Rule(
        _WARNING,
        "No container uses a claim of the pod, and it is not for a network interface: its devices are allocated, and"
        " nobody sees them",
        "Name it in a container's `resources.claims`",
    ),
    LintCode.DEVICE_PLUGIN_RESOURCE: Rule(
        _NOTE,
        "A pod asks a device plugin or another scheduler for GPUs or RDMA NICs (`nvidia.com/gpu`, `koordinator.sh/…`,"
        " `rdma/…`); the message says what the claim would be",
        "Nothing, or let `rootport convert` write the claim: docs/user/migrate.md",
    ),
    LintCode.NOT_LOOKED_AT: Rule(
        _WARNING,
        "What was left out, because it takes too long: a run has 60 s of processor time for all objects; and of the"
        " devices that are published nothing is said where a selector takes too much for one of them. Of one object the"
        " worst 100 findings are shown (a note says how many more there are), and after 1,000 nothing more is looked"
        " at. What else is said stands",
        "Lint fewer objects at once; write the selector simpler",
    ),
    LintCode.SELECTS_TOO_FEW: Rule(
        _ERROR,
        "No node has as many devices of the class as a request asks for, or the selectors leave fewer; the first term"
        " of the expression that is false, with the value that it saw",
        "The hint names the value that was meant, or those that there are",
    ),
    LintCode.CAPACITY_UNAVAILABLE: Rule(
        _ERROR,
        "No device that the request selects has so much of a capacity, or none has it at all",
        "Ask for less",
    ),
    LintCode.NEVER_FITS: Rule(
        _ERROR,
        "Each request finds devices, but no node can give them all together; where one constraint alone is the cause,"
        " it is named",
        "Loosen it; `rootport explain` tells more",
    ),
}
