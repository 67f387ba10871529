"""Reads csctl.yaml, stack.yaml and versions.yaml: the releases that a stack directory is for.

============= ================================================= ===========================================
file          content                                           other files
============= ================================================= ===========================================
csctl.yaml    provider, name, Kubernetes version, plugin        sufficient alone
stack.yaml    provider, name, Kubernetes version, addon ranges  csctl.yaml only enables the plugin
versions.yaml Kubernetes versions, one release each, with       csctl.yaml or stack.yaml has the names
              their addon versions
============= ================================================= ===========================================

If csctl.yaml names a full Kubernetes version, csctl builds that one release and leaves the charts unchanged, as csctl
written in Go does. The minors of stack.yaml and versions.yaml are built on request.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from clusterstacks.model import yaml
from clusterstacks.model.documents import Node
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import read
from clusterstacks.model.files.node_images import OPENSTACK, SOURCE
from clusterstacks.model.files.stack_settings import CsctlConfig, CsctlFile, StackFile, VersionsFile
from clusterstacks.model.names import ReleaseName
from clusterstacks.model.versions import InvalidVersion, KubernetesMinor, KubernetesVersion, StackVersion
from clusterstacks.release.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Mapping

CSCTL = "csctl.yaml"
STACK = "stack.yaml"
VERSIONS = "versions.yaml"
FORMER_CSCTL = "csmctl.yaml"
"""Name of csctl.yaml when csctl was called csmctl."""

# YAML reads 1.30 as a number, which equals 1.3. The text keeps the difference.
_WRITTEN_VERSION = re.compile(
    rb"""^kubernetesVersion:[ \t]*["']?(v?[0-9.]+(?:\+[0-9A-Za-z.-]+)?)["']?[ \t]*(?:#.*)?\r?$""", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class StackSettings:
    """Names and versions of one release of a stack directory."""

    provider: str
    stack: str
    kubernetes: KubernetesVersion
    addons: Mapping[str, str] = field(default_factory=dict)
    """Version or range of versions of each dependency of the addon charts."""
    addons_file: str = STACK
    """The file that contains ``addons``."""
    sets_names: bool = False
    """The build sets the name of the class chart and the versions of addons, as the directory leaves them to it."""
    plugin: bool = False
    """The plugin of the provider makes node images."""
    copies_images: bool = False
    """The plugin would only copy the list of node images, so it is not needed."""
    unlisted: KubernetesVersion | None = None
    """The patch of csctl.yaml if stack.yaml or versions.yaml names another patch of this minor."""

    @property
    def series(self) -> str:
        """The common part of the names of all its releases, e.g. ``openstack-scs-1-35``."""
        return self.release(StackVersion(0)).series

    def release(self, version: StackVersion) -> ReleaseName:
        """Return the name of the release with a version."""
        return ReleaseName(self.provider, self.stack, self.kubernetes.series, version)


def is_stack(names: set[str]) -> bool:
    """Report whether a directory with these files is a stack directory."""
    return bool(names & {CSCTL, STACK})


def open_minor(tree: Mapping[str, bytes], *, listed: bool = False) -> KubernetesMinor | None:
    """Return the Kubernetes minor whose newest patch the stack needs; None if it names its patches."""
    if STACK not in tree or VERSIONS in tree or (not listed and _own(tree) is not None):
        return None
    return _minor(_stack_kubernetes(tree))


def read_settings(
    tree: Mapping[str, bytes],
    patches: Mapping[KubernetesMinor, KubernetesVersion] | None = None,
    *,
    listed: bool = False,
) -> tuple[StackSettings, ...]:
    """Read the releases that are built from a stack directory.

    By default it is the release of csctl.yaml, if that names a full Kubernetes version. With ``listed`` they are those
    of stack.yaml or versions.yaml, in this order, and that of csctl.yaml if they have none for its minor. ``patches``
    are the newest patches, see :func:`open_minor`. Raises SourceBroken if neither csctl.yaml nor stack.yaml exists.
    """
    if CSCTL not in tree and STACK not in tree:
        if FORMER_CSCTL in tree:
            raise SourceBroken(FORMER_CSCTL, f"is the former name of {CSCTL}: rename the file")
        raise SourceBroken(CSCTL, "is missing: add it to the stack directory")
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
    """Read the release of csctl.yaml; None if it leaves the Kubernetes version to stack.yaml."""
    if CSCTL not in tree:
        return None
    config = _csctl(tree)
    version = Node(config.kubernetes_version, CSCTL, "config.kubernetesVersion")
    try:
        kubernetes = _full(version, "expected a full Kubernetes version such as v1.34.7")
    except SpecError:
        if STACK in tree:
            return None
        raise
    return _with_plugin(StackSettings(config.provider.type, config.cluster_stack_name, kubernetes), config, tree)


def _with_plugin(settings: StackSettings, config: CsctlConfig, tree: Mapping[str, bytes]) -> StackSettings:
    options = config.provider.config or {}
    copies = settings.provider == OPENSTACK and options.get("method") == "get" and SOURCE in tree
    return replace(settings, plugin=bool(options), copies_images=copies)


def _beside(own: StackSettings, listed: StackSettings) -> StackSettings:
    differs = listed.series == own.series and listed.kubernetes != own.kubernetes
    return replace(listed, unlisted=own.kubernetes) if differs else listed


def _from_stack(
    tree: Mapping[str, bytes], patches: Mapping[KubernetesMinor, KubernetesVersion]
) -> tuple[StackSettings, ...]:
    file = read(StackFile, yaml.load(tree[STACK], name=STACK), file=STACK)
    provider, stack = file.provider, file.cluster_stack_name
    own = StackSettings(provider, stack, KubernetesVersion(0, 0, 0))
    if CSCTL in tree:
        config = _csctl(tree)
        own = _with_plugin(own, config, tree)
        for key, value, wanted in (
            ("provider.type", config.provider.type, provider),
            ("clusterStackName", config.cluster_stack_name, stack),
        ):
            if value != wanted:
                remedy = f"{STACK} has {wanted}: write the same in both, or remove {CSCTL}"
                raise Node(value, CSCTL, f"config.{key}").refuse(remedy)
    if VERSIONS in tree:
        return _listed(tree, own)
    version = _stack_kubernetes(tree)
    minor = _minor(version)
    kubernetes = patches.get(minor) if minor else _full(version, "expected a Kubernetes version such as 1.35.3 or 1.35")
    if kubernetes is None:
        raise version.refuse(
            f"the newest patch of {minor} is unknown without network: write a full version such as {minor}.1"
        )
    return (replace(own, kubernetes=kubernetes, addons=file.addons, addons_file=STACK, sets_names=True),)


def _listed(tree: Mapping[str, bytes], own: StackSettings) -> tuple[StackSettings, ...]:
    rows = read(VersionsFile, yaml.load(tree[VERSIONS], name=VERSIONS) or [], file=VERSIONS)
    found: dict[KubernetesMinor, StackSettings] = {}
    for at, row in enumerate(rows):
        version = Node(row.get("kubernetes"), VERSIONS, f"[{at}].kubernetes")
        kubernetes = _full(version, "expected a full Kubernetes version such as 1.34.7")
        if kubernetes.series in found:
            raise version.refuse(f"another row is also for {kubernetes.series}: keep one row for each minor")
        addons = {key: wanted for key, wanted in row.items() if key != "kubernetes"}
        found[kubernetes.series] = replace(
            own, kubernetes=kubernetes, addons=addons, addons_file=VERSIONS, sets_names=True
        )
    if not found:
        raise SourceBroken(VERSIONS, "is empty: write rows such as - {kubernetes: 1.34.7}, or remove the file")
    return tuple(found.values())


def _csctl(tree: Mapping[str, bytes]) -> CsctlConfig:
    return read(CsctlFile, yaml.load(tree[CSCTL], name=CSCTL), file=CSCTL, ignore_unknown=True).config


def _stack_kubernetes(tree: Mapping[str, bytes]) -> Node:
    node = Node(yaml.load(tree[STACK], name=STACK), STACK).child("kubernetesVersion")
    written = _WRITTEN_VERSION.search(tree[STACK])
    return Node(written[1].decode(), STACK, node.field) if written else node


def _minor(node: Node) -> KubernetesMinor | None:
    try:
        return KubernetesMinor.parse(node.value)
    except InvalidVersion:
        return None


def _full(node: Node, remedy: str) -> KubernetesVersion:
    try:
        version = KubernetesVersion.parse(node.value)
    except InvalidVersion:
        raise node.refuse(remedy) from None
    if version.build and not version.build.startswith("+"):  # a typing error, where +rke2r1 is of a distribution
        raise node.refuse(remedy)
    return version
