"""Messages of the condition Ready while it is True: what the object has, for ``kubectl describe`` and wide tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import counted, mappings, text
from clusterstacks.model.kinds.names import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.model.objects import Manifest


def _stack(status: Manifest) -> str:
    usable = text(status, "usableVersions")
    return f"usable: {usable}" if usable else "no release is wanted"


def _release(status: Manifest) -> str:
    return f"{counted(len(mappings(status, 'resources')), 'object')} for Kubernetes {text(status, 'kubernetesVersion')}"


def _addon(status: Manifest) -> str:
    addons = mappings(status, "addons")
    objects = sum(addon["objects"] for addon in addons if isinstance(addon.get("objects"), int))
    return f"{counted(len(addons), 'addon')}, {counted(objects, 'object')}"


def _sync(status: Manifest) -> str:
    number = status.get("clusters")
    return f"in place on {counted(number if isinstance(number, int) else 0, 'cluster')}"


def _upgrade(status: Manifest) -> str:
    return f"{text(status, 'done')} clusters have the target"


def _binding(status: Manifest) -> str:
    return counted(len(mappings(status, "resources")), "object")


_MESSAGES: Final[Mapping[str, Callable[[Manifest], str]]] = {
    Kind.CLUSTER_STACK: _stack,
    Kind.CLUSTER_STACK_RELEASE: _release,
    Kind.CLUSTER_ADDON: _addon,
    Kind.CLUSTER_RESOURCE_SYNC: _sync,
    Kind.CLUSTER_RESOURCE_SYNC_BINDING: _binding,
    Kind.CLUSTER_UPGRADE: _upgrade,
}


def ready_message(kind: str, status: Manifest) -> str:
    """Return the message for a status; empty for kinds without one."""
    return _MESSAGES[kind](status) if kind in _MESSAGES else ""
