"""Validates ``spec.providerRef``: it may name objects of its own namespace and of allowed kinds.

The operator reads, watches and patches that object with its own rights, so a reference must not give its author access
to other objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import PROVIDER_GROUP

if TYPE_CHECKING:
    from collections.abc import Collection

TEMPLATE_SUFFIX: Final = "Template"
"""Suffix of the kind of a template; the kind of the objects created from it has no suffix."""

CODE: Final = "ProviderRefNotAllowed"


@dataclass(frozen=True, slots=True, order=True)
class KindPattern:
    """Kinds of one API group, as on the command line: ``*ClusterStackRelease.infrastructure.clusterstack.x-k8s.io``.

    The group is never empty: kinds of the core group, such as Secret, cannot be named. The kind may be ``*`` and the
    end of kinds.
    """

    group: str
    kind: str

    @classmethod
    def parse(cls, text: str) -> KindPattern:
        """Read ``Kind.group``; raise SpecError without kind or group, or for a ``*`` that is not at the beginning."""
        kind, _, group = text.strip().partition(".")
        if not kind or not group or "*" in kind[1:] or "*" in group:
            raise SpecError(
                "InvalidKind",
                f"{text!r} is not a kind: write Kind.group or *EndOfKind.group, for example {DEFAULT_KINDS[0]}",
            )
        return cls(group, kind)

    def matches(self, group: str, kind: str) -> bool:
        """Return whether the pattern matches a kind; it never matches an empty one."""
        if group != self.group or not kind:
            return False
        return kind.endswith(self.kind[1:]) if self.kind.startswith("*") else kind == self.kind

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}"


DEFAULT_KINDS: Final = (
    KindPattern(PROVIDER_GROUP, "*ClusterStackRelease"),
    KindPattern(PROVIDER_GROUP, f"*ClusterStackRelease{TEMPLATE_SUFFIX}"),
)
"""The kinds of all providers of the Go operator, e.g. OpenStackClusterStackRelease and its template."""


@dataclass(frozen=True, slots=True)
class ProviderReference:
    """The fields of a reference that are validated; the namespace may be empty."""

    group: str
    kind: str
    namespace: str = ""


def template_refusal(reference: ProviderReference, namespace: str, kinds: Collection[KindPattern]) -> str:
    """Return why a ClusterStack in ``namespace`` may not name this template; empty if it may.

    The kind of the objects created from the template must be allowed as well.
    """
    if not reference.kind.endswith(TEMPLATE_SUFFIX):
        return f"spec.providerRef names kind {reference.kind}; name one that ends in {TEMPLATE_SUFFIX}"
    made = ProviderReference(reference.group, reference.kind.removesuffix(TEMPLATE_SUFFIX))
    return _namespace_refusal(reference, namespace) or _kind_refusal((reference, made), kinds)


def release_refusal(reference: ProviderReference, namespace: str, kinds: Collection[KindPattern]) -> str:
    """Return why a ClusterStackRelease in ``namespace`` may not name this object; empty if it may."""
    if reference.kind.endswith(TEMPLATE_SUFFIX):
        return (
            f"spec.providerRef names kind {reference.kind}, which ends in {TEMPLATE_SUFFIX}; "
            "name the object of the release that was made from the template"
        )
    return _namespace_refusal(reference, namespace) or _kind_refusal((reference,), kinds)


def _namespace_refusal(reference: ProviderReference, namespace: str) -> str:
    if reference.namespace in ("", namespace):
        return ""
    return (
        f"spec.providerRef.namespace is {reference.namespace}, but only objects of the same namespace can be named: "
        f"remove the field, and create the {reference.kind} in namespace {namespace}"
    )


def _kind_refusal(references: Collection[ProviderReference], kinds: Collection[KindPattern]) -> str:
    missing = [ref for ref in references if not any(pattern.matches(ref.group, ref.kind) for pattern in kinds)]
    if not missing:
        return ""
    first = missing[0]
    named = f"{first.kind}.{first.group}" if first.group else f"{first.kind} of the core group"
    allowed = ", ".join(str(pattern) for pattern in sorted(kinds))
    # The kinds of the core group cannot be allowed: Secrets and the like are no objects of a provider.
    instead = (
        f", or start the operator with --provider-kinds {','.join(f'{ref.kind}.{ref.group}' for ref in missing)}"
        if first.group
        else ""
    )
    return (
        f"spec.providerRef needs kind {named}, which is not among the kinds of providers ({allowed}): "
        f"name an object of such a kind{instead}"
    )
