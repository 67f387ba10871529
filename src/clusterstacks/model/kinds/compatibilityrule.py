"""CompatibilityRule: a rule of the operator of a management cluster about combinations of versions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import Field, JsonValue, WithJsonSchema

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import Rule, RuleSeverity, parse_rule
from clusterstacks.model.kinds.meta import (
    AGE_COLUMN,
    LIST_LENGTH,
    Column,
    CRDOptions,
    KubernetesObject,
    Model,
    Name,
    Text,
)
from clusterstacks.model.kinds.selectors import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.names import ReleaseName

_COMPARATOR: Final = r"(>=|>|<=|<|=)[0-9]+[.][0-9]+([.][0-9]+)?"
RangeText = Annotated[str, Field(max_length=512, pattern=rf"^{_COMPARATOR}( ([|][|] )?{_COMPARATOR})*$")]
"""A range of ``model.ranges``; the API server refuses other values."""

Variables = Annotated[
    dict[str, JsonValue], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]


class StackSelector(Model):
    """Selects cluster stacks by name; an empty field matches all."""

    provider: Name = Field(default="", description="Provider of the stack, for example openstack.")
    name: Name = Field(default="", description="Name of the stack, for example scs.")


class RuleWhen(Model):
    """The combination that a rule matches; all fields that are set must match."""

    kubernetes: RangeText = Field(default="", description="Range of Kubernetes versions, for example >=1.28 <1.30.")
    components: dict[str, RangeText] = Field(
        default_factory=dict, description="Components that must be present, with a range of versions for each."
    )
    provider: Name = Field(default="", description="Provider of the stack.")
    cluster_labels: dict[str, Name] = Field(
        default_factory=dict, description="Labels of the Cluster with their required values."
    )
    variables: Variables = Field(
        default_factory=dict, description="Variables of the topology, by dotted path, with their required values."
    )


class CompatibilityRuleSpec(Model):
    """A rule about combinations of versions, and the Clusters it applies to."""

    when: RuleWhen = Field(default=RuleWhen(), description="The combination; by default all.")
    severity: RuleSeverity = Field(
        description="Deny refuses the combination, Warn warns about it, Allow overrides the facts in overrides."
    )
    message: Text = Field(min_length=1, description="The reason, for users whose Cluster matches the rule.")
    way: Text = Field(default="", description="The suggested alternative.")
    overrides: tuple[Name, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="Ids of the facts that an Allow rule overrides, as in refusals and plans.",
    )
    source: Text = Field(default="", description="Origin of the rule, for example the URL of an issue.")
    stacks: tuple[StackSelector, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Stacks that the rule applies to; by default all."
    )
    clusters: LabelSelector | None = Field(
        default=None, description="Labels of the Clusters that the rule applies to; by default all."
    )
    expires: str = Field(
        default="",
        description="Time at which the rule expires; by default never.",
        json_schema_extra={"format": "date-time"},
    )


class CompatibilityRule(KubernetesObject):
    """Refuses, warns about or allows combinations of versions, for all cluster stacks or some."""

    crd: ClassVar = CRDOptions(
        short_name="crule",
        cluster_wide=True,
        columns=(
            Column("Severity", ".spec.severity"),
            Column("Expires", ".spec.expires", "date"),
            AGE_COLUMN,
            Column("Message", ".spec.message", description="Reason for the rule."),
        ),
    )

    kind: Literal["CompatibilityRule"] = "CompatibilityRule"
    spec: CompatibilityRuleSpec = Field(description="A rule about combinations of versions, and where it applies.")

    def rule(self) -> Rule:
        """Return the rule; its id is the name of the object.

        Raises SpecError if a range contains no version, or ``overrides`` does not match ``severity``.
        """
        spec = self.spec.document()
        statement = {key: value for key, value in spec.items() if key not in ("stacks", "clusters", "expires")}
        place = f"CompatibilityRule {self.metadata.name}"
        source = spec.get("source") or place
        return parse_rule({"id": self.metadata.name, **statement, "source": source}, file=f"{place}: spec")

    def concerns(self, release: ReleaseName, labels: Mapping[str, str], now: datetime) -> bool:
        """Return whether the rule applies now to a Cluster with these labels and the release of its class.

        ``now`` has a time zone. Raises SpecError if ``expires`` is not a valid time.
        """
        return self.selects(release, labels) and (not self.spec.expires or now < self._expiry())

    def selects(self, release: ReleaseName, labels: Mapping[str, str]) -> bool:
        """Return whether the rule selects a Cluster, expired or not; the parameters are those of ``concerns``."""
        spec = self.spec
        if spec.stacks and not any(
            stack.provider in ("", release.provider) and stack.name in ("", release.stack) for stack in spec.stacks
        ):
            return False
        return spec.clusters is None or spec.clusters.matches(labels)

    def check(self) -> None:
        """Raise SpecError if the rule or its time of expiry is invalid."""
        self.rule()
        if self.spec.expires:
            self._expiry()

    def _expiry(self) -> datetime:
        try:
            moment = datetime.fromisoformat(self.spec.expires)
        except ValueError:
            raise SpecError(
                "InvalidCompatibilityRule",
                f"CompatibilityRule {self.metadata.name}: spec.expires is not a valid time (expected for example "
                "2027-01-31T00:00:00Z)",
            ) from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
