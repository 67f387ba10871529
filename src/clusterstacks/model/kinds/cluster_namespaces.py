"""The namespaces whose Clusters may use the classes of a ClusterStack (``spec.clusterNamespaces``)."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations of this module
from enum import StrEnum

from pydantic import ConfigDict, Field

from clusterstacks.model.kinds.meta import Model
from clusterstacks.model.kinds.selectors import LabelSelector


class NamespacesFrom(StrEnum):
    """Kind of namespace selection."""

    ALL = "All"
    SAME = "Same"
    SELECTOR = "Selector"


class ClusterNamespaces(Model):
    """Namespaces whose Clusters may use the classes of the stack."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self.from != 'Selector' || has(self.selector)",
                    "message": "from: Selector needs a selector",
                }
            ]
        }
    )

    from_: NamespacesFrom = Field(
        default=NamespacesFrom.ALL,
        alias="from",
        description="All: every namespace. Same: the namespace of the ClusterStack. Selector: the namespaces that "
        "match the selector, and always that of the ClusterStack.",
    )
    selector: LabelSelector | None = Field(
        default=None, description="Labels of the namespaces; only for from: Selector."
    )

    def admit(self, namespace: str, *, stack_namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether Clusters of a namespace with these labels may use the classes.

        Clusters of ``stack_namespace``, that of the ClusterStack, always may.
        """
        if namespace == stack_namespace or self.from_ is NamespacesFrom.ALL:
            return True
        return self.from_ is NamespacesFrom.SELECTOR and self.selector is not None and self.selector.matches(labels)
