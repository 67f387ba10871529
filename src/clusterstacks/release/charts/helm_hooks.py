"""Decides which Helm hooks of a chart are applied.

A delivery installs and upgrades. It never uninstalls, rolls back or tests a Helm release, so objects that are hooks of
only these operations are left out: a ``pre-delete`` Job may scale controllers down or delete custom resources.
Source: https://helm.sh/docs/topics/charts_hooks
"""

from __future__ import annotations

from enum import Enum
from typing import Final

HOOK_ANNOTATION: Final = "helm.sh/hook"

APPLIED_HOOKS: Final = frozenset({"pre-install", "post-install", "pre-upgrade", "post-upgrade"})

OTHER_HOOKS: Final = frozenset(
    {"pre-delete", "post-delete", "pre-rollback", "post-rollback", "test", "test-success"},
)


class HookUse(Enum):
    """The treatment of an object that is a hook."""

    APPLIED = "applied"
    LEFT_OUT = "left out"
    """A hook of deletion, rollback or test only."""
    UNKNOWN = "unknown"
    """Helm 4 does not know one of its hooks (such as ``crd-install``) and leaves the object out."""


def use_of(value: object) -> HookUse:
    """Decide by the value of ``HOOK_ANNOTATION``: comma-separated hooks, of which one is enough to apply the object."""
    if not isinstance(value, str):
        return HookUse.UNKNOWN
    hooks = {hook.strip().lower() for hook in value.split(",")}
    if not hooks <= APPLIED_HOOKS | OTHER_HOOKS:
        return HookUse.UNKNOWN
    return HookUse.APPLIED if hooks & APPLIED_HOOKS else HookUse.LEFT_OUT
