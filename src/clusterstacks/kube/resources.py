"""Values of the API: where a kind lives, and what lists and watches return."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, ObjectKey


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
        """Whether objects hold secrets, so that what a server says about them may quote one."""
        return self.kind == "Secret" and not self.group

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Build the escaped request path; the namespace is ignored for cluster-wide kinds.

        Without a name it is the collection's path, of all namespaces when ``namespace`` is empty.

        Raises:
            SpecError: A named object of a namespaced kind without namespace, or a name that is no path segment (it
                would address something else than the object it names).
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
        """Read like kubectl: ``Deployment.apps kube-system/coredns``; for messages."""
        scope = namespace if self.namespaced else ""
        if name:
            return f"{self} {ObjectKey(scope, name)}"
        return f"{self} in {scope}" if scope else str(self)

    def __str__(self) -> str:
        """``Deployment.apps``, or ``Secret`` in the core group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _segment(resource: Resource, text: str) -> str:
    """Escape one path segment; refuse what Kubernetes refuses as a name in a path."""
    if text in {".", ".."} or "/" in text or "%" in text:
        raise SpecError(
            "InvalidName", f'{resource}: {text!r} is no name: it may not be "." or ".." or contain "/" or "%"'
        )
    return quote(text, safe=":")


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """What is left of an object that cannot be read.

    Args:
        object: Its apiVersion, kind and metadata, and null for what is nested deeply; empty when nothing can be read.
        why: For messages, as the end of a sentence about the object.
    """

    object: Manifest
    why: str

    @property
    def key(self) -> ObjectKey:
        """Namespace and name; both empty when they cannot be read."""
        metadata = self.object.get("metadata")
        found = metadata if isinstance(metadata, dict) else {}
        return ObjectKey(str(found.get("namespace") or ""), str(found.get("name") or ""))


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A whole list; every item carries apiVersion and kind. Watch on from ``resource_version``.

    Args:
        items: The objects.
        resource_version: Of the list.
        unreadable: Objects that cannot be read; only ``Client.list_readable`` returns any.
    """

    items: list[Manifest]
    resource_version: str
    unreadable: tuple[UnreadableObject, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change.

    Args:
        type: ADDED, MODIFIED, DELETED or BOOKMARK (whose object has a resource version only); empty when unknown.
        object: The object; what is left of it when it cannot be read.
        unreadable: Why it cannot be read, as in ``UnreadableObject``; empty for all others.
    """

    type: str
    object: Manifest
    unreadable: str = ""
