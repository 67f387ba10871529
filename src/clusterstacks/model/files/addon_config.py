"""clusteraddon.yaml of a release: the stages in which its addons are applied to a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from clusterstacks.model.documents import DocumentError, parse_duration
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import (
    CLOSED,
    OptionalText,
    Parsed,
    Remedy,
    Section,
    Text,
    matching,
    read,
    refusal,
    unique,
)

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest


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
class WatchedObject(Section):
    """An object of the workload cluster, and the variable for it.

    Args:
        key: Name of the variable in the expression.
        api_version: API version of the object, for example apps/v1.
        kind: Kind of the object.
        name: Name of the object.
        namespace: Empty for cluster-scoped objects.
    """

    key: Annotated[
        str,
        matching("[A-Za-z_][A-Za-z0-9_]*"),
        Remedy("a CEL variable consists of letters, digits and underscores and does not start with a digit"),
    ]
    api_version: Text
    kind: Text
    name: Text
    namespace: OptionalText = ""


def _may_be_empty(schema: Manifest) -> None:
    """Allow ``{}``, which many stacks write for no condition."""
    schema["dependencies"] = {"objects": schema.pop("required")}


@dataclass(frozen=True, slots=True)
class StageCondition(Section):
    """A CEL expression that must be true before a stage continues, and the objects it reads.

    Args:
        expression: CEL expression over the objects that is true or false.
        objects: The objects that the expression reads.
        timeout: Has no effect; read by the Go operator.
        rollback: Has no effect; read by the Go operator.
    """

    __pydantic_config__ = CLOSED | ConfigDict(json_schema_extra=_may_be_empty)

    expression: Annotated[
        Text, Remedy("write a CEL expression that evaluates to true or false"), Field(alias="conditions")
    ]
    objects: Annotated[
        tuple[WatchedObject, ...], unique("key", "use a different key for each object of a condition")
    ] = ()
    timeout: Any = field(default=None, compare=False, repr=False)
    rollback: Any = field(default=None, compare=False, repr=False)


def _only_of_apply(wait_for: WaitFor, info: ValidationInfo) -> WaitFor:
    if wait_for is WaitFor.HEALTHY and info.data.get("action") is StageAction.DELETE:
        raise refusal("only a stage with action apply can wait for health")
    return wait_for


def _waits_for_health(info: ValidationInfo) -> bool:
    return info.data.get("wait_for") is WaitFor.HEALTHY


def _only_of_health(rollback: Rollback, info: ValidationInfo) -> Rollback:
    if rollback is Rollback.ON_FAILURE and not _waits_for_health(info):
        raise refusal("only a stage that waits for health can fail and roll back: add waitFor: Healthy")
    return rollback


def _timeout(value: object, inner: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    # The Go operator ignores both fields, so a timeout without the other one has no meaning to reject.
    return inner(value) if _waits_for_health(info) else HEALTH_TIMEOUT


def _parse_timeout(text: object) -> timedelta:
    timeout = parse_duration(text) if isinstance(text, str) else None
    if not timeout:
        raise SpecError("InvalidDuration", "is not a duration of at least 1s")
    return timeout


_Condition = Annotated[StageCondition | None, BeforeValidator(lambda value: None if value == {} else value)]


@dataclass(frozen=True, slots=True)
class Stage(Section):
    """Applies or deletes one addon: wait for ``pre``, act, wait for the addon's health and for ``post``.

    Args:
        addon: Directory of the addon's chart below cluster-addon/.
        action: Apply or delete the addon.
        pre: Condition for the stage to begin.
        post: Condition for the next stage to begin.
        wait_for: State of the addon that the stage waits for. Default: Delivered.
        timeout: Longest time to wait for Healthy, for example 5m. Default: 10m.
        rollback: OnFailure: after the timeout the addon returns to its last healthy revision.
    """

    addon: Annotated[
        str,
        matching("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"),
        Remedy("use the name of the chart's directory: at most 63 lower-case letters, digits and dashes"),
        Field(alias="name"),
    ]
    action: StageAction
    pre: Annotated[_Condition, Field(alias="waitForPreCondition")] = None
    post: Annotated[_Condition, Field(alias="waitForPostCondition")] = None
    wait_for: Annotated[WaitFor, AfterValidator(_only_of_apply)] = WaitFor.DELIVERED
    timeout: Annotated[
        timedelta,
        Parsed(_parse_timeout, "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"),
        Remedy("write a duration of at least 1s (expected for example 10m)"),
        WrapValidator(_timeout),
    ] = HEALTH_TIMEOUT
    rollback: Annotated[Rollback, AfterValidator(_only_of_health)] = Rollback.NEVER


@dataclass(frozen=True, slots=True)
class HealthRule(Section):
    """Health of the objects of a kind.

    Args:
        kind: Kind and API group, for example CephCluster.ceph.rook.io.
        current: CEL expression that is true if the object self is healthy.
        failed: CEL expression that is true if self has failed.
    """

    kind: Annotated[
        str,
        matching("[A-Z][A-Za-z0-9]{0,62}(\\.([a-z0-9][-a-z0-9]*(\\.[a-z0-9][-a-z0-9]*)*)?)?"),
        Remedy("write kind and API group (expected for example Widget.example.org)"),
    ]
    current: Annotated[Text, Remedy("write a CEL expression that is true if the object self is healthy")]
    failed: OptionalText = ""

    @property
    def group_kind(self) -> tuple[str, str]:
        """API group, empty for the core group, and kind."""
        kind, _, group = self.kind.partition(".")
        return group, kind


_HOOKS: Final = {
    LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED: "Stages of a new cluster, from when its API server answers.",
    LifecycleHook.BEFORE_CLUSTER_UPGRADE: "Stages before an upgrade of Kubernetes; Cluster API waits for them.",
    LifecycleHook.AFTER_CONTROL_PLANE_UPGRADE: "Stages after the upgrade of the control plane.",
    LifecycleHook.AFTER_WORKERS_UPGRADE: "Stages after the upgrade of the workers.",
    LifecycleHook.AFTER_CLUSTER_UPGRADE: "Stages at the end of an upgrade.",
}


def _hooks_as_keys(schema: Manifest) -> None:
    stages = schema["additionalProperties"]
    schema |= {"properties": {hook.value: {**stages, "description": text} for hook, text in _HOOKS.items()}}
    schema |= {"additionalProperties": False}
    del schema["propertyNames"]


def _of_every_hook(hooks: object) -> object:
    """Return the stages of the known hooks; those of others never run, and lint warns the author."""
    if not isinstance(hooks, dict):
        return hooks
    return {hook: () if hooks.get(hook) is None else hooks[hook] for hook in LifecycleHook}


@dataclass(frozen=True, slots=True)
class AddonConfig(Section):
    """Stages in which the addons of a release are applied, and rules for the health of kinds.

    Args:
        stages: Stages of each lifecycle hook; the stages of a hook run in the order of the file.
        health: Rules for the health of kinds, for all addons of the release.
        api_version: clusteraddonconfig.x-k8s.io/v1alpha1
        cluster_addon_version: clusteraddons.clusterstack.x-k8s.io/v1alpha1
    """

    # Every hook is a key.
    stages: Annotated[
        Mapping[LifecycleHook, tuple[Stage, ...]],
        BeforeValidator(_of_every_hook),
        Field(alias="addonStages", json_schema_extra=_hooks_as_keys),
    ]
    health: Annotated[tuple[HealthRule, ...], unique("kind", "write one entry for each kind", "group_kind")] = ()
    api_version: Any = field(default=None, compare=False, repr=False)
    cluster_addon_version: Any = field(default=None, compare=False, repr=False)

    def addons(self) -> tuple[str, ...]:
        """Return every addon of the stages once, in the order of first appearance."""
        return tuple(dict.fromkeys(stage.addon for hook in LifecycleHook for stage in self.stages[hook]))


def parse_addon_config(document: object, *, file: str = "clusteraddon.yaml") -> AddonConfig:
    """Parse a loaded clusteraddon.yaml; unknown fields are ignored.

    Raises:
        InvalidAddonConfig: A stage or a rule for the health of a kind is not valid.
    """
    return read(AddonConfig, document, file=file, error=InvalidAddonConfig, ignore_unknown=True)
