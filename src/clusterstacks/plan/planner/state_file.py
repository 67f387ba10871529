"""Reads the state of a cluster from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.documents import DocumentError, Node
from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import InvalidName, parse_class, parse_release
from clusterstacks.model.semver import SemVer
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion
from clusterstacks.plan.compat.world import ClusterState

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName

_FIELDS = ("kubernetes", "workers", "class", "addons", "labels", "variables")


def parse_state(document: object, *, file: str) -> ClusterState:
    """Read ``{kubernetes, workers?, class, addons?, labels?, variables?}``.

    ``workers`` default to the version of the control plane, ``addons`` to those of the class's release.

    Raises:
        SpecError: A field is missing, unknown or wrong; the message names it.
    """
    node = Node(document, file)
    if unknown := sorted(str(key) for key in node.mapping() if key not in _FIELDS):
        raise DocumentError(f"{file} has the unknown field {unknown[0]}: known are {', '.join(_FIELDS)}")
    kubernetes = _version(node.child("kubernetes"))
    workers = node.child("workers")
    return ClusterState(
        kubernetes=kubernetes,
        workers=kubernetes if workers.value is None else _version(workers),
        release=_release(node.child("class")),
        addons=_addons(node.child("addons")),
        labels={key: value.text() for key, value in _entries(node.child("labels")).items()},
        variables={key: value.value for key, value in _entries(node.child("variables")).items()},
    )


def _version(node: Node) -> KubernetesVersion:
    try:
        return KubernetesVersion.parse(node.value)
    except InvalidVersion:
        raise node.refuse("expected a full Kubernetes version, for example v1.36.1") from None


def _release(node: Node) -> ReleaseName:
    text = node.text("expected the release of the cluster's class")
    for parse in (parse_release, parse_class):
        try:
            return parse(text)
        except InvalidName:
            continue
    raise node.refuse("expected the name of a release, for example openstack-scs-1-36-v2")


def _addons(node: Node) -> dict[str, str] | None:
    if node.value is None:
        return None
    addons: dict[str, str] = {}
    for name, version in _entries(node).items():
        text = version.text("write the version of the software, in quotes, like '1.18.2'")
        try:
            SemVer.parse(text)
        except SpecError:
            raise version.refuse("write the version of the software, like '1.18.2'") from None
        addons[name] = text.removeprefix("v")
    return addons


def _entries(node: Node) -> dict[str, Node]:
    if node.value is None:
        return {}
    names = node.mapping()
    if not all(isinstance(name, str) and name for name in names):
        raise node.refuse("write names as keys")
    return {str(name): node.child(str(name)) for name in names}
