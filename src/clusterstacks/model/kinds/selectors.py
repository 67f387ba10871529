"""Label selectors as Kubernetes defines them."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations of this module
from enum import StrEnum

from pydantic import ConfigDict, Field

from clusterstacks.model.kinds.meta import LIST_LENGTH, Model, Name


class SelectorOperator(StrEnum):
    """Operator of a requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorRequirement(Model):
    """A requirement on a label."""

    key: Name = Field(min_length=1, description="Name of the label.")
    operator: SelectorOperator = Field(description="In and NotIn need values, Exists and DoesNotExist do not.")
    values: tuple[Name, ...] = Field(default=(), max_length=LIST_LENGTH, description="Values for In and NotIn.")

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy the requirement; as in Kubernetes, a missing label satisfies NotIn."""
        match self.operator:
            case SelectorOperator.IN:
                return labels.get(self.key) in self.values
            case SelectorOperator.NOT_IN:
                return labels.get(self.key) not in self.values
            case SelectorOperator.EXISTS:
                return self.key in labels
            case SelectorOperator.DOES_NOT_EXIST:
                return self.key not in labels


class LabelSelector(Model):
    """Selects objects by their labels; all requirements must hold, and an empty selector selects everything."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    match_labels: dict[str, Name] = Field(default_factory=dict, description="Labels with their required values.")
    match_expressions: tuple[SelectorRequirement, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Further requirements."
    )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )
