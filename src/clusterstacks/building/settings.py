"""What a stack directory says it is: csctl.yaml, stack.yaml and versions.yaml (FORMATS sections 1 and 2).

============= ================================================= ===========================================
file          says                                              and beside it
============= ================================================= ===========================================
csctl.yaml    provider, name, Kubernetes version, plugin        nothing else is needed
stack.yaml    provider, name, Kubernetes version, addon ranges  csctl.yaml only says whether there is a plugin
versions.yaml Kubernetes versions, one release each, with the   names come from csctl.yaml or stack.yaml
              addon versions that go with it
============= ================================================= ===========================================

Where csctl.yaml names a full Kubernetes version, that one release is built, with the charts as they are, as csctl
written in Go does; the minors of stack.yaml and versions.yaml are built on demand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.domain.documents import Node
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import ReleaseName
from clusterstacks.domain.versions import InvalidVersion, KubernetesMinor, KubernetesVersion, StackVersion
from clusterstacks.releases.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Mapping

CSCTL = "csctl.yaml"
STACK = "stack.yaml"
VERSIONS = "versions.yaml"
FORMER_CSCTL = "csmctl.yaml"
"""What csctl.yaml was called when csctl was called csmctl."""

_NAME = re.compile(r"[a-z0-9]+")
# 1.30 is a number in YAML, and as such the same as 1.3: the text has to be looked at.
_WRITTEN_VERSION = re.compile(rb"""^kubernetesVersion:[ \t]*["']?(v?[0-9.]+)["']?[ \t]*(?:#.*)?\r?$""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StackSettings:
    """One release that a stack directory is for.

    Args:
        provider: The infrastructure provider.
        stack: The cluster stack's name.
        kubernetes: The version the release is made for.
        addons: Version, or range of versions, of a dependency of the addon charts.
        addons_file: The file that says so.
        sets_names: Whether the class chart's name and the versions of addons are set while building, because the
            directory is for several releases or leaves it to the tool.
        plugin: Whether the provider's plugin makes node images.
        unlisted: The patch of this minor that csctl.yaml names, where stack.yaml or versions.yaml names another one;
            None otherwise.
    """

    provider: str
    stack: str
    kubernetes: KubernetesVersion
    addons: Mapping[str, str] = field(default_factory=dict)
    addons_file: str = STACK
    sets_names: bool = False
    plugin: bool = False
    unlisted: KubernetesVersion | None = None

    @property
    def series(self) -> str:
        """The part all its releases' names share, e.g. ``openstack-scs-1-35``."""
        return self.release(StackVersion(0)).series

    def release(self, version: StackVersion) -> ReleaseName:
        """Name a release."""
        return ReleaseName(self.provider, self.stack, self.kubernetes.series, version)


def is_stack(names: set[str]) -> bool:
    """Tell whether a directory with these files is that of a stack."""
    return bool(names & {CSCTL, STACK})


def open_minor(tree: Mapping[str, bytes], *, listed: bool = False) -> KubernetesMinor | None:
    """Return the Kubernetes minor whose newest patch a stack wants; None when the stack names its patches.

    Raises:
        SpecError: csctl.yaml or stack.yaml is wrong.
    """
    if STACK not in tree or VERSIONS in tree or (not listed and _own(tree) is not None):
        return None
    return _minor(_stack_kubernetes(tree))


def read_settings(
    tree: Mapping[str, bytes],
    patches: Mapping[KubernetesMinor, KubernetesVersion] | None = None,
    *,
    listed: bool = False,
) -> tuple[StackSettings, ...]:
    """Read which releases are built from a stack directory.

    Args:
        tree: The files of the directory.
        patches: The newest patch of a minor, see :func:`open_minor`.
        listed: Return the releases of stack.yaml or versions.yaml, in its order, and the one of csctl.yaml where none
            is for its minor. By default only the one of csctl.yaml, where that names a full Kubernetes version.

    Raises:
        SourceBroken: Neither csctl.yaml nor stack.yaml is there.
        SpecError: A field is missing or wrong; the message names it.
    """
    if CSCTL not in tree and STACK not in tree:
        if FORMER_CSCTL in tree:
            raise SourceBroken(FORMER_CSCTL, f"is the former name of {CSCTL}: rename it")
        raise SourceBroken(CSCTL, "is missing: add it at the top of the stack directory")
    own = _own(tree)
    if own is None:
        return _from_stack(tree, patches or {})
    if not listed:
        return (own,)
    found: tuple[StackSettings, ...] = ()
    if STACK in tree:
        found = _from_stack(tree, patches or {})
    elif VERSIONS in tree:
        found = _listed(tree, own)
    if own.series not in {one.series for one in found}:
        return (*found, own)
    return tuple(_beside(own, one) for one in found)


def _own(tree: Mapping[str, bytes]) -> StackSettings | None:
    """Read the release csctl.yaml names; None where it leaves the version to stack.yaml."""
    if CSCTL not in tree:
        return None
    config = _csctl(tree)
    version = config.child("kubernetesVersion")
    try:
        kubernetes = _full(version, "write a full Kubernetes version like v1.34.7")
    except SpecError:
        if STACK in tree:
            return None
        raise
    provider, stack = config.child("provider").child("type"), config.child("clusterStackName")
    return StackSettings(_name(provider), _name(stack), kubernetes, plugin=_plugin(config))


def _beside(own: StackSettings, listed: StackSettings) -> StackSettings:
    differs = listed.series == own.series and listed.kubernetes != own.kubernetes
    return replace(listed, unlisted=own.kubernetes) if differs else listed


def _from_stack(
    tree: Mapping[str, bytes], patches: Mapping[KubernetesMinor, KubernetesVersion]
) -> tuple[StackSettings, ...]:
    root = Node(yaml.load(tree[STACK], name=STACK), STACK)
    provider, stack = _name(root.child("provider")), _name(root.child("clusterStackName"))
    plugin = False
    if CSCTL in tree:
        config = _csctl(tree)
        plugin = _plugin(config)
        for node, name in (
            (config.child("provider").child("type"), provider),
            (config.child("clusterStackName"), stack),
        ):
            if node.value != name:
                raise node.refuse(f"{STACK} says {name}: write the same in both, or remove {CSCTL}")
    if VERSIONS in tree:
        return _listed(tree, StackSettings(provider, stack, KubernetesVersion(0, 0, 0), plugin=plugin))
    version = _stack_kubernetes(tree)
    minor = _minor(version)
    kubernetes = patches.get(minor) if minor else _full(version, "write a Kubernetes version like 1.35.3 or 1.35")
    if kubernetes is None:
        raise version.refuse(f"the newest patch of {minor} is not known here: write the patch, too, like {minor}.1")
    addons = _texts(root.child("addons"), set())
    return (StackSettings(provider, stack, kubernetes, addons, STACK, sets_names=True, plugin=plugin),)


def _listed(tree: Mapping[str, bytes], own: StackSettings) -> tuple[StackSettings, ...]:
    rows = Node(yaml.load(tree[VERSIONS], name=VERSIONS), VERSIONS).items()
    found: dict[KubernetesMinor, StackSettings] = {}
    for row in rows:
        version = row.child("kubernetes")
        kubernetes = _full(version, "write a full Kubernetes version like 1.34.7")
        if kubernetes.series in found:
            raise version.refuse(f"another row is for {kubernetes.series}, too: leave one row for each minor")
        addons = _texts(row, {"kubernetes"})
        found[kubernetes.series] = StackSettings(
            own.provider, own.stack, kubernetes, addons, VERSIONS, sets_names=True, plugin=own.plugin
        )
    if not found:
        raise SourceBroken(VERSIONS, "lists nothing: write rows like - {kubernetes: 1.34.7}, or remove it")
    return tuple(found.values())


def _csctl(tree: Mapping[str, bytes]) -> Node:
    return Node(yaml.load(tree[CSCTL], name=CSCTL), CSCTL).child("config")


def _plugin(config: Node) -> bool:
    settings = config.child("provider").child("config")
    return settings.value is not None and bool(settings.mapping())


def _stack_kubernetes(tree: Mapping[str, bytes]) -> Node:
    node = Node(yaml.load(tree[STACK], name=STACK), STACK).child("kubernetesVersion")
    written = _WRITTEN_VERSION.search(tree[STACK])
    return Node(written[1].decode(), STACK, node.field) if written else node


def _minor(node: Node) -> KubernetesMinor | None:
    try:
        return KubernetesMinor.parse(node.value)
    except InvalidVersion:
        return None


def _full(node: Node, way_out: str) -> KubernetesVersion:
    try:
        version = KubernetesVersion.parse(node.value)
    except InvalidVersion:
        raise node.refuse(way_out) from None
    if version.build:  # of a distribution, or a slip of the pen: a stack is for what Kubernetes itself publishes
        raise node.refuse(way_out)
    return version


def _name(node: Node) -> str:
    name = node.text("write a name of lower-case letters and digits")
    if not _NAME.fullmatch(name):
        raise node.refuse("use lower-case letters and digits only: dashes separate the parts of a release's name")
    return name


def _texts(node: Node, without: set[str]) -> dict[str, str]:
    if node.value is None:
        return {}
    keys = [str(key) for key in node.mapping() if key not in without]
    return {key: node.child(key).text("write a version in quotes") for key in keys}
