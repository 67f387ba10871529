"""API resources, and the results of lists and watches."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import Manifest, ObjectKey


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as one API server serves it: ``Resource("apps", "v1", "Deployment", "deployments", True)``."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def confidential(self) -> bool:
        """True if the objects contain secrets, which messages of a server may quote."""
        return self.kind == "Secret" and not self.group

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Build the escaped request path; the namespace is ignored for cluster-scoped kinds.

        Without a name it is the path of the collection, in all namespaces if ``namespace`` is empty.

        Raises:
            SpecError: The namespace of a named object is missing, or the name is not a valid path segment (it would
                address another object).
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path = f"{path}/namespaces/{_segment(self, namespace)}"
        if not name:
            return f"{path}/{self.plural}"
        if self.namespaced and not namespace:
            raise SpecError("NamespaceMissing", f"{self} {name} has no namespace: set metadata.namespace")
        path = f"{path}/{self.plural}/{_segment(self, name)}"
        return f"{path}/{subresource}" if subresource else path

    def describe(self, namespace: str = "", name: str = "") -> str:
        """Return kind, namespace and name for messages, as kubectl does: ``Deployment.apps kube-system/coredns``."""
        scope = namespace if self.namespaced else ""
        if name:
            return f"{self} {ObjectKey(scope, name)}"
        return f"{self} in {scope}" if scope else str(self)

    def __str__(self) -> str:
        """``Deployment.apps``, or ``Secret`` in the core group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _segment(resource: Resource, text: str) -> str:
    """Escape one path segment; refuse names that Kubernetes refuses in a path."""
    if text in {".", ".."} or "/" in text or "%" in text:
        raise SpecError(
            "InvalidName", f'{resource}: {text!r} is not a valid name: it must not be "." or ".." or contain "/" or "%"'
        )
    return quote(text, safe=":")


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object that cannot be decoded within the limits.

    Args:
        object: Its readable part: apiVersion, kind, metadata, and null for deeply nested values; may be empty.
        why: Reason for messages, a predicate such as ``has more than 100000 values``.
    """

    object: Manifest
    why: str

    @property
    def key(self) -> ObjectKey:
        """Namespace and name; both empty if they cannot be read."""
        metadata = self.object.get("metadata")
        found = metadata if isinstance(metadata, dict) else {}
        return ObjectKey(str(found.get("namespace") or ""), str(found.get("name") or ""))


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A complete list; every item has apiVersion and kind.

    Args:
        items: The objects.
        resource_version: Start of a subsequent watch.
        unreadable: Objects that cannot be read; only ``Client.list_readable`` and ``Client.read_list`` return any.
        digest: Digest of the objects as the server wrote them; empty if it was not asked for, or cannot be computed.
        unchanged: Whether the objects have the digest that the caller knows; then ``items`` is empty.
    """

    items: list[Manifest]
    resource_version: str
    unreadable: tuple[UnreadableObject, ...] = ()
    digest: bytes = b""
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An event of a watch.

    Args:
        type: ADDED, MODIFIED, DELETED or BOOKMARK (whose object has only a resource version); empty when unknown.
        object: The object, or its readable part.
        unreadable: Reason why it cannot be read, as in ``UnreadableObject.why``; otherwise empty.
    """

    type: str
    object: Manifest
    unreadable: str = ""
