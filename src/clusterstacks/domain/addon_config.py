"""clusteraddon.yaml of a release: the stages in which its addons are applied to a cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.domain.documents import DocumentError, Node, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_ADDON = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class InvalidAddonConfig(DocumentError):
    """clusteraddon.yaml contains an invalid stage."""

    CODE = "InvalidAddonConfig"


class LifecycleHook(StrEnum):
    """Lifecycle hooks at which stages run; the values are the keys of ``addonStages``."""

    AFTER_CONTROL_PLANE_INITIALIZED = "AfterControlPlaneInitialized"
    BEFORE_CLUSTER_UPGRADE = "BeforeClusterUpgrade"
    AFTER_CLUSTER_UPGRADE = "AfterClusterUpgrade"


class StageAction(StrEnum):
    """Action of a stage."""

    APPLY = "apply"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class WatchedObject:
    """An object in the workload cluster that a condition reads.

    Args:
        key: Name of the variable in the expression.
        api_version: ``apps/v1``, for example.
        namespace: Empty for cluster-scoped objects.
    """

    key: str
    api_version: str
    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class StageCondition:
    """A CEL expression that must be true before a stage continues, and the objects it reads."""

    expression: str
    objects: tuple[WatchedObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """One step: wait for ``pre``, apply or delete one addon, wait for ``post``.

    ``addon`` is a single path segment, the directory of the addon's chart.
    """

    addon: str
    action: StageAction
    pre: StageCondition | None = None
    post: StageCondition | None = None


@dataclass(frozen=True, slots=True)
class AddonConfig:
    """The stages of a release by hook, in the order in which they run.

    Args:
        stages: Every :class:`LifecycleHook` is a key; the value may be empty.
        ignored_hooks: Keys of ``addonStages`` that are not hooks; their stages never run, and the author is warned.
    """

    stages: Mapping[LifecycleHook, tuple[Stage, ...]]
    ignored_hooks: tuple[str, ...] = ()

    def addons(self) -> tuple[str, ...]:
        """Return every addon of the stages of known hooks once, in the order of first appearance."""
        return tuple(dict.fromkeys(stage.addon for hook in LifecycleHook for stage in self.stages[hook]))


def parse_addon_config(document: object, *, file: str = "clusteraddon.yaml") -> AddonConfig:
    """Parse a loaded clusteraddon.yaml; unknown fields are ignored.

    Args:
        file: Name of the file in messages.

    Raises:
        InvalidAddonConfig: A stage has an invalid name or action, or a condition that cannot be evaluated.
    """
    hooks = Node(document, file, error=InvalidAddonConfig).child("addonStages")
    known = {hook.value for hook in LifecycleHook}
    return AddonConfig(
        stages={hook: tuple(_stage(node) for node in hooks.child(hook).items()) for hook in LifecycleHook},
        ignored_hooks=tuple(key if isinstance(key, str) else shown(key) for key in hooks.mapping() if key not in known),
    )


def _stage(node: Node) -> Stage:
    name = node.child("name")
    addon = name.text("name the directory of the addon's chart")
    if not _ADDON.fullmatch(addon):
        raise name.refuse("use the name of the chart's directory: at most 63 lower-case letters, digits and dashes")
    return Stage(
        addon,
        _action(node.child("action"), addon),
        _check(node.child("waitForPreCondition")),
        _check(node.child("waitForPostCondition")),
    )


def _action(node: Node, addon: str) -> StageAction:
    # The Go operator deletes the addon for every action except "apply", including typing errors.
    if node.value not in tuple(StageAction):
        raise node.refuse(f"the action of stage {addon} must be apply or delete")
    return StageAction(node.text())


def _check(node: Node) -> StageCondition | None:
    if node.value in (None, {}):
        return None
    expression = node.child("conditions").text("write a CEL expression that evaluates to true or false")
    objects: dict[str, WatchedObject] = {}
    for item in node.child("objects").items():
        watched = _watched(item)
        if watched.key in objects:
            raise item.child("key").refuse("use a different key for each object of a condition")
        objects[watched.key] = watched
    return StageCondition(expression, tuple(objects.values()))


def _watched(node: Node) -> WatchedObject:
    key = node.child("key")
    if not _IDENTIFIER.fullmatch(key.text("write the name of the variable for the object")):
        raise key.refuse("a CEL variable consists of letters, digits and underscores and does not start with a digit")
    return WatchedObject(
        key=key.text(),
        api_version=node.child("apiVersion").text(),
        kind=node.child("kind").text(),
        name=node.child("name").text(),
        namespace=node.child("namespace").optional_text(),
    )
