"""clusteraddon.yaml of a release: the stages in which its addons are applied to a cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import DocumentError, Node, parse_duration, shown
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ADDON = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_GROUP = re.compile(r"(?:[a-z0-9][-a-z0-9]*(?:\.[a-z0-9][-a-z0-9]*)*)?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class InvalidAddonConfig(DocumentError):
    """clusteraddon.yaml contains an invalid stage."""

    CODE = "InvalidAddonConfig"


class LifecycleHook(StrEnum):
    """Lifecycle hooks at which stages run, in the order of time; the values are the keys of ``addonStages``."""

    AFTER_CONTROL_PLANE_INITIALIZED = "AfterControlPlaneInitialized"
    BEFORE_CLUSTER_UPGRADE = "BeforeClusterUpgrade"
    AFTER_CONTROL_PLANE_UPGRADE = "AfterControlPlaneUpgrade"
    AFTER_WORKERS_UPGRADE = "AfterWorkersUpgrade"
    AFTER_CLUSTER_UPGRADE = "AfterClusterUpgrade"


class StageAction(StrEnum):
    """Action of a stage."""

    APPLY = "apply"
    DELETE = "delete"


class WaitFor(StrEnum):
    """State of an addon that the stage waits for before the next stage and the prune."""

    DELIVERED = "Delivered"
    HEALTHY = "Healthy"


class Rollback(StrEnum):
    """When an addon returns to its last healthy revision."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    """When the timeout of its stage has passed and it is not healthy."""


HEALTH_TIMEOUT: Final = timedelta(minutes=10)
"""Default of ``timeout``; that of a Deployment's ``progressDeadlineSeconds``."""


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
    """One step: wait for ``pre``, apply or delete one addon, wait for its health and for ``post``.

    Args:
        addon: A single path segment, the directory of the addon's chart.
        wait_for: Whether the stage also waits until the objects of its addon are healthy.
        timeout: Time after which objects that are not healthy count as a failure of the stage.
        rollback: Whether the addon then returns to its last healthy revision.
    """

    addon: str
    action: StageAction
    pre: StageCondition | None = None
    post: StageCondition | None = None
    wait_for: WaitFor = WaitFor.DELIVERED
    timeout: timedelta = HEALTH_TIMEOUT
    rollback: Rollback = Rollback.NEVER


@dataclass(frozen=True, slots=True)
class HealthRule:
    """CEL expressions that judge the health of the objects of a kind.

    Args:
        group: Empty for the core group.
        current: True if an object, the variable ``self``, is healthy.
        failed: True if it has failed, so that time alone will not help; empty for none.
    """

    group: str
    kind: str
    current: str
    failed: str = ""


@dataclass(frozen=True, slots=True)
class AddonConfig:
    """The stages of a release by hook, in the order in which they run.

    Args:
        stages: Every :class:`LifecycleHook` is a key; the value may be empty.
        ignored_hooks: Keys of ``addonStages`` that are not hooks; their stages never run, and the author is warned.
        health: The rules for the health of kinds, at most one for each.
    """

    stages: Mapping[LifecycleHook, tuple[Stage, ...]]
    ignored_hooks: tuple[str, ...] = ()
    health: tuple[HealthRule, ...] = ()

    def addons(self) -> tuple[str, ...]:
        """Return every addon of the stages of known hooks once, in the order of first appearance."""
        return tuple(dict.fromkeys(stage.addon for hook in LifecycleHook for stage in self.stages[hook]))


def parse_addon_config(document: object, *, file: str = "clusteraddon.yaml") -> AddonConfig:
    """Parse a loaded clusteraddon.yaml; unknown fields are ignored.

    Args:
        file: Name of the file in messages.

    Raises:
        InvalidAddonConfig: A stage has an invalid name or action, or a condition that cannot be evaluated; or a rule
            for the health of a kind is not complete.
    """
    root = Node(document, file, error=InvalidAddonConfig)
    hooks = root.child("addonStages")
    known = {hook.value for hook in LifecycleHook}
    return AddonConfig(
        stages={hook: tuple(_stage(node) for node in hooks.child(hook).items()) for hook in LifecycleHook},
        ignored_hooks=tuple(key if isinstance(key, str) else shown(key) for key in hooks.mapping() if key not in known),
        health=_health_rules(root.child("health")),
    )


def _health_rules(node: Node) -> tuple[HealthRule, ...]:
    rules: dict[tuple[str, str], HealthRule] = {}
    for item in node.items():
        named = item.child("kind")
        remedy = "write kind and API group (expected for example Widget.example.org)"
        kind, _, group = named.text(remedy).partition(".")
        if not _KIND.fullmatch(kind) or not _GROUP.fullmatch(group):
            raise named.refuse(remedy)
        if (group, kind) in rules:
            raise named.refuse("write one entry for each kind")
        current = item.child("current").text("write a CEL expression that is true if the object self is healthy")
        rules[group, kind] = HealthRule(group, kind, current, item.child("failed").optional_text())
    return tuple(rules.values())


def _stage(node: Node) -> Stage:
    name = node.child("name")
    addon = name.text("name the directory of the addon's chart")
    if not _ADDON.fullmatch(addon):
        raise name.refuse("use the name of the chart's directory: at most 63 lower-case letters, digits and dashes")
    action = _action(node.child("action"), addon)
    wait_for = _wait_for(node.child("waitFor"), action)
    return Stage(
        addon,
        action,
        _check(node.child("waitForPreCondition")),
        _check(node.child("waitForPostCondition")),
        wait_for,
        # The Go operator ignores both fields, so a timeout without the other one has no meaning to reject.
        _timeout(node.child("timeout")) if wait_for is WaitFor.HEALTHY else HEALTH_TIMEOUT,
        _rollback(node.child("rollback"), wait_for),
    )


def _wait_for(node: Node, action: StageAction) -> WaitFor:
    if node.value is None:
        return WaitFor.DELIVERED
    if node.value not in tuple(WaitFor):
        raise node.refuse("write Delivered or Healthy")
    wait_for = WaitFor(node.text())
    if wait_for is WaitFor.HEALTHY and action is StageAction.DELETE:
        raise node.refuse("only a stage with action apply can wait for health")
    return wait_for


def _rollback(node: Node, wait_for: WaitFor) -> Rollback:
    if node.value is None:
        return Rollback.NEVER
    if node.value not in tuple(Rollback):
        raise node.refuse("write Never or OnFailure")
    rollback = Rollback(node.text())
    if rollback is Rollback.ON_FAILURE and wait_for is not WaitFor.HEALTHY:
        raise node.refuse("only a stage that waits for health can fail and roll back: add waitFor: Healthy")
    return rollback


def _timeout(node: Node) -> timedelta:
    if node.value is None:
        return HEALTH_TIMEOUT
    remedy = "write a duration of at least 1s (expected for example 10m)"
    try:
        timeout = parse_duration(node.text(remedy))
    except SpecError:
        raise node.refuse(remedy) from None
    if not timeout:
        raise node.refuse(remedy)
    return timeout


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
