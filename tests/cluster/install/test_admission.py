"""A node's plugin speaks for its own node alone, and slices come from the controller alone: on a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.installation import NODES, inventory, slice_of

pytestmark = pytest.mark.needs_go

_MINE, _OTHER = NODES
_PLUGIN = "rootport-kubelet-plugin"
_CONTROLLER = "rootport-controller"
_MASTERS = "--as-group=system:masters"  # past RBAC, so that the policy alone decides
_BARE = {"metadata": {"finalizers": None, "ownerReferences": None}}
_KINDS = ("nodeinventory", "nodeinventory/status", "lease")

TokenOf = Callable[..., Path]


@pytest.fixture(autouse=True)
def _both_nodes_have_objects(installed: ControlPlane) -> None:
    """Each test begins with both nodes' objects there, made by the administrator."""
    objects = [body for node in NODES for body in (inventory(node), _lease(node))]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    installed.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", input=text)


@pytest.fixture
def _no_slices_left(installed: ControlPlane) -> Iterator[None]:
    yield
    installed.kubectl("delete", "resourceslices", "--selector=test=install", "--ignore-not-found")


@pytest.mark.parametrize("kind", _KINDS)
def test_a_plugin_writes_its_own_nodes_objects(installed: ControlPlane, token_of: TokenOf, kind: str) -> None:
    _patch(installed, token_of(_PLUGIN, _MINE), kind, _MINE)


@pytest.mark.parametrize("kind", ["nodeinventory", "lease"])
def test_a_plugin_creates_its_own_nodes_objects(installed: ControlPlane, token_of: TokenOf, kind: str) -> None:
    installed.kubectl("delete", kind, _MINE, *_place(kind))
    body = inventory(_MINE) if kind == "nodeinventory" else _lease(_MINE)
    command = ("apply", "--server-side", "--filename=-")
    said = installed.kubectl(*command, input=json.dumps(body), kubeconfig=token_of(_PLUGIN, _MINE))
    assert "serverside-applied" in said


@pytest.mark.parametrize("kind", _KINDS)
def test_a_plugin_cannot_change_another_nodes_objects(installed: ControlPlane, token_of: TokenOf, kind: str) -> None:
    said = _patch(installed, token_of(_PLUGIN, _MINE), kind, _OTHER, check=False)
    assert "Forbidden" in said
    assert f"{_OTHER} is not this node's: the token is of node {_MINE}" in said
    assert "check --node-name" in said


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("nodeinventory", {"name": "install-absent"}),
        ("nodeinventory", {"generateName": _MINE}),
        ("lease", {"name": "install-absent"}),
        ("lease", {"generateName": _MINE}),
        ("lease", {"name": "rootport-controller"}),
    ],
    ids=str,
)
def test_a_plugin_cannot_create_an_object_of_another_name(
    installed: ControlPlane, token_of: TokenOf, kind: str, name: dict[str, str]
) -> None:
    body = inventory("") if kind == "nodeinventory" else _lease("")
    metadata = {"namespace": "rootport-system"} if kind == "lease" else {}
    text = json.dumps(body | {"metadata": metadata | name})
    said = installed.kubectl("create", "--filename=-", input=text, kubeconfig=token_of(_PLUGIN, _MINE), check=False)
    assert "is not this node's" in said


@pytest.mark.parametrize("kind", _KINDS)
def test_a_token_of_no_node_writes_nothing_and_is_told_how_to_get_one(
    installed: ControlPlane, token_of: TokenOf, kind: str
) -> None:
    said = _patch(installed, token_of(_PLUGIN), kind, _MINE, check=False)
    assert "Forbidden" in said
    assert "is not of a node" in said
    assert "--bound-object-kind=Node" in said


def test_the_token_of_a_pod_is_of_the_pods_node(installed: ControlPlane) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "install-plugin", "namespace": "rootport-system"},
        "spec": {
            "nodeName": _MINE,
            "serviceAccountName": _PLUGIN,
            "containers": [{"name": "plugin", "image": "rootport"}],
        },
    }
    installed.kubectl("create", "--filename=-", input=json.dumps(pod))
    try:
        bound = ("--bound-object-kind=Pod", "--bound-object-name=install-plugin")
        token = installed.kubectl("create", "token", _PLUGIN, "--namespace=rootport-system", *bound).strip()
        kubeconfig = installed.token_kubeconfig("install-pod", token)
        _patch(installed, kubeconfig, "nodeinventory", _MINE)
        said = _patch(installed, kubeconfig, "nodeinventory", _OTHER, check=False)
    finally:
        installed.kubectl("delete", "pod", "install-plugin", "--namespace=rootport-system", "--force")
    assert f"{_OTHER} is not this node's" in said


@pytest.mark.parametrize("kind", ["nodeinventory", "lease"])
@pytest.mark.parametrize("field", ["ownerReferences", "finalizers"])
def test_a_plugins_object_cannot_hold_up_the_deletion_of_anything(
    installed: ControlPlane, token_of: TokenOf, kind: str, field: str
) -> None:
    """With both, another node could not be deleted in the foreground until whoever owns this token agrees."""
    uid = installed.kubectl("get", "node", _OTHER, "--output=jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "Node", "name": _OTHER, "uid": uid, "blockOwnerDeletion": True}
    hostile = {"ownerReferences": [owner], "finalizers": ["example.com/never"]}[field]
    made = _lease(_MINE) if kind == "lease" else inventory(_MINE)
    metadata = made["metadata"]
    assert isinstance(metadata, dict)
    metadata[field] = hostile
    plugin = token_of(_PLUGIN, _MINE)
    apply = ("apply", "--server-side", "--force-conflicts", "--validate=false", "--field-manager=test", "--filename=-")
    said = installed.kubectl(*apply, input=json.dumps(made), kubeconfig=plugin, check=False)
    assert "owner references and finalizers" in said
    installed.kubectl("delete", kind, _MINE, *_place(kind))
    said = installed.kubectl("create", "--filename=-", input=json.dumps(made), kubeconfig=plugin, check=False)
    assert "owner references and finalizers" in said
    # What an administrator has set is no reason to refuse the plugin's own fields.
    metadata[field] = ["example.com/ours"] if field == "finalizers" else hostile
    installed.kubectl("create", "--filename=-", input=json.dumps(made))
    try:
        _patch(installed, plugin, kind, _MINE)
    finally:
        installed.kubectl("patch", kind, _MINE, *_place(kind), "--type=merge", f"--patch={json.dumps(_BARE)}")


@pytest.mark.parametrize("kind", ["nodeinventory", "lease"])
@pytest.mark.since_kubernetes(35, "kubectl has --as-user-extra")
def test_deletion_is_guarded_should_somebody_ever_give_the_plugin_the_right(installed: ControlPlane, kind: str) -> None:
    user = (
        f"--as=system:serviceaccount:rootport-system:{_PLUGIN}",
        f"--as-user-extra=authentication.kubernetes.io/node-name={_MINE}",
        _MASTERS,
    )
    said = installed.kubectl("delete", kind, _OTHER, *_place(kind), *user, check=False)
    assert f"{_OTHER} is not this node's" in said
    assert "deleted" in installed.kubectl("delete", kind, _MINE, *_place(kind), *user)


@pytest.mark.since_kubernetes(35, "kubectl has --as-user-extra")
def test_a_node_with_the_name_of_the_leaders_lease_cannot_take_the_lead(installed: ControlPlane) -> None:
    user = (
        f"--as=system:serviceaccount:rootport-system:{_PLUGIN}",
        "--as-user-extra=authentication.kubernetes.io/node-name=rootport-controller",
        _MASTERS,
    )
    text = json.dumps(_lease("rootport-controller"))
    said = installed.kubectl("create", "--filename=-", "--dry-run=server", *user, input=text, check=False)
    assert "give the node another name" in said


def test_another_users_leases_and_inventories_are_no_concern_of_the_policies(installed: ControlPlane) -> None:
    for kind in _KINDS:
        _patch(installed, installed.kubeconfig, kind, _OTHER)


@pytest.mark.usefixtures("_no_slices_left")
def test_the_controller_writes_the_drivers_slices(installed: ControlPlane, token_of: TokenOf) -> None:
    text = json.dumps(_labelled(slice_of("rootport.dev", name="install-own")))
    controller = token_of(_CONTROLLER)
    installed.kubectl("create", "--filename=-", input=text, kubeconfig=controller)
    installed.kubectl("replace", "--filename=-", input=text, kubeconfig=controller)
    installed.kubectl("delete", "resourceslice", "install-own", kubeconfig=controller)


@pytest.mark.usefixtures("_no_slices_left")
@pytest.mark.parametrize(
    "user",
    [
        (),
        (f"--as=system:node:{_MINE}", "--as-group=system:nodes"),
        (f"--as=system:serviceaccount:rootport-system:{_PLUGIN}", _MASTERS),
        ("--as=system:serviceaccount:default:rootport-controller", _MASTERS),
    ],
    ids=["administrator", "kubelet of the node", "kubelet plugin", "same name in another namespace"],
)
def test_nobody_else_writes_the_drivers_slices(
    installed: ControlPlane, token_of: TokenOf, user: tuple[str, ...]
) -> None:
    text = json.dumps(_labelled(slice_of("rootport.dev", name="install-theirs")))
    said = installed.kubectl("create", "--filename=-", *user, input=text, check=False)
    assert "are written by its controller alone" in said
    assert "cordon the node" in said
    installed.kubectl("create", "--filename=-", input=text, kubeconfig=token_of(_CONTROLLER))
    said = installed.kubectl("label", "resourceslice", "install-theirs", "a=b", check=False)
    assert "are written by its controller alone" in said


@pytest.mark.usefixtures("_no_slices_left")
def test_kubelets_and_administrators_may_still_delete_slices(installed: ControlPlane, token_of: TokenOf) -> None:
    for user in ((f"--as=system:node:{_MINE}", "--as-group=system:nodes"), ()):
        text = json.dumps(_labelled(slice_of("rootport.dev", name="install-wiped")))
        installed.kubectl("create", "--filename=-", input=text, kubeconfig=token_of(_CONTROLLER))
        assert "deleted" in installed.kubectl("delete", "resourceslice", "install-wiped", *user)


@pytest.mark.usefixtures("_no_slices_left")
def test_the_controller_touches_no_other_drivers_slices(installed: ControlPlane, token_of: TokenOf) -> None:
    body = _labelled(slice_of("other.example.com", name="install-other"))
    said = installed.kubectl(
        "create", "--filename=-", input=json.dumps(body), kubeconfig=token_of(_CONTROLLER), check=False
    )
    assert "of driver rootport.dev alone, not of other.example.com" in said
    installed.kubectl("create", "--filename=-", input=json.dumps(body))
    said = installed.kubectl("delete", "resourceslice", "install-other", kubeconfig=token_of(_CONTROLLER), check=False)
    assert "of driver rootport.dev alone, not of other.example.com" in said


@pytest.mark.usefixtures("_no_slices_left")
@pytest.mark.parametrize(
    "user", [(), (f"--as=system:node:{_MINE}", "--as-group=system:nodes")], ids=["administrator", "kubelet"]
)
def test_nobody_takes_the_names_of_the_drivers_slices(installed: ControlPlane, user: tuple[str, ...]) -> None:
    taken = f"00000-rootport.dev-{_OTHER}-0123456789"
    text = json.dumps(_labelled(slice_of("other.example.com", name=taken)))
    said = installed.kubectl("create", "--filename=-", *user, input=text, check=False)
    assert f"the name {taken} is for a ResourceSlice of driver rootport.dev" in said
    for near in (f"00000-rootport-dev-{_OTHER}", f"x00000-rootport.dev-{_OTHER}", f"{_OTHER}-rootport.dev-0"):
        installed.kubectl(
            "create", "--filename=-", *user, input=json.dumps(_labelled(slice_of("other.example.com", name=near)))
        )


def _patch(plane: ControlPlane, kubeconfig: Path, kind: str, name: str, *, check: bool = True) -> str:
    """Change an object as the plugin does: by a patch alone, without reading it first."""
    body = _lease(name) if kind == "lease" else inventory(name)
    part: tuple[str, ...] = ()
    if kind == "nodeinventory/status":
        del body["spec"]
        body["status"] = {"pluginVersion": "0"}
        part = ("--subresource=status",)
    apply = ("apply", "--server-side", "--force-conflicts", "--validate=false", "--field-manager=test", "--filename=-")
    return plane.kubectl(*apply, *part, input=json.dumps(body), kubeconfig=kubeconfig, check=check)


def _place(kind: str) -> tuple[str, ...]:
    return ("--namespace=rootport-system",) if kind == "lease" else ()


def _lease(name: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": "rootport-system"}
    spec = {"holderIdentity": "test", "leaseDurationSeconds": 30}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _labelled(body: dict[str, object]) -> dict[str, object]:
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    return body | {"metadata": metadata | {"labels": {"test": "install"}}}
