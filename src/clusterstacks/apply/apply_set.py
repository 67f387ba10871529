"""Kubernetes ApplySets: how a delivery record and its objects say in standard words that they belong together.

Source: KEP-3659, "ApplySet specification".
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.objects import ObjectId

ID_LABEL: Final = "applyset.kubernetes.io/id"
TOOLING_ANNOTATION: Final = "applyset.kubernetes.io/tooling"
KINDS_ANNOTATION: Final = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES_ANNOTATION: Final = "applyset.kubernetes.io/additional-namespaces"

TOOLING: Final = "cluster-stack-operator/v1"
"""Never changes with our version: a tool must leave the sets of another tool alone."""

NAME_PREFIX: Final = "cluster-stack-addon-"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
MAX_NAME: Final = 253 - len(NAME_PREFIX)
"""Longest addon name that fits into a Secret's name (DNS subdomain, 253 characters)."""


def applyset_id(name: str, namespace: str) -> str:
    """Compute the id of the ApplySet whose parent is the named Secret: the value of ``ID_LABEL`` and ``part-of``."""
    digest = hashlib.sha256(f"{name}.{namespace}.Secret.".encode()).digest()
    return f"applyset-{urlsafe_b64encode(digest).rstrip(b'=').decode()}-v1"


def parent_annotations(members: Iterable[ObjectId], namespace: str) -> dict[str, str]:
    """Describe the members on their parent, which lies in ``namespace``."""
    kinds: set[str] = set()
    namespaces: set[str] = set()
    for member in members:
        kinds.add(f"{member.kind}.{member.group}" if member.group else member.kind)
        namespaces.add(member.namespace)
    return {
        TOOLING_ANNOTATION: TOOLING,
        KINDS_ANNOTATION: ",".join(sorted(kinds)),
        NAMESPACES_ANNOTATION: ",".join(sorted(namespaces - {"", namespace})),
    }


def record_name(addon: str) -> str:
    """Name the Secret of an addon's delivery record; a name that is no DNS label is replaced by its digest."""
    if len(addon) <= MAX_NAME and _NAME.fullmatch(addon):
        return f"{NAME_PREFIX}{addon}"
    return f"{NAME_PREFIX}x.{hashlib.sha256(addon.encode()).hexdigest()[:40]}"
