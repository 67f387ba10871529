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
class Listing:
    """A whole list; every item carries apiVersion and kind. Watch on from ``resource_version``."""

    items: list[Manifest]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """``type`` is ADDED, MODIFIED, DELETED or BOOKMARK (whose object has a resource version only)."""

    type: str
    object: Manifest
