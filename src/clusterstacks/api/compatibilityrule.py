"""CompatibilityRule: what the provider of a management cluster states about combinations of versions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, JsonValue, WithJsonSchema

from clusterstacks.api.meta import LIST_LENGTH, KubernetesObject, Model, Name, Text
from clusterstacks.api.selectors import LabelSelector
from clusterstacks.domain.compatibility import Rule, RuleSeverity, parse_rule
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.names import ReleaseName

_COMPARATOR: Final = r"(>=|>|<=|<|=)[0-9]+[.][0-9]+([.][0-9]+)?"
RangeText = Annotated[str, Field(max_length=512, pattern=rf"^{_COMPARATOR}( ([|][|] )?{_COMPARATOR})*$")]
"""A range as ``domain.ranges`` reads it; the server refuses another text at once."""

Variables = Annotated[
    dict[str, JsonValue], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]


class StackSelector(Model):
    """Cluster stacks by name; what is empty matches every one."""

    provider: Name = Field(default="", description="Provider of the stack, for example openstack.")
    name: Name = Field(default="", description="Name of the stack, for example scs.")


class RuleWhen(Model):
    """The combination a rule is about; all that is said must hold."""

    kubernetes: RangeText = Field(default="", description="Range of Kubernetes versions, for example >=1.28 <1.30.")
    components: dict[str, RangeText] = Field(
        default_factory=dict, description="Components that must be present, each with a range of its versions."
    )
    provider: Name = Field(default="", description="Provider of the stack.")
    cluster_labels: dict[str, Name] = Field(
        default_factory=dict, description="Labels of the Cluster and the values they must have."
    )
    variables: Variables = Field(
        default_factory=dict, description="Variables of the topology, by dotted path, and the values they must have."
    )


class CompatibilityRuleSpec(Model):
    """A statement about combinations, and whom it is for."""

    when: RuleWhen = Field(default=RuleWhen(), description="The combination; every one when absent.")
    severity: RuleSeverity = Field(
        description="Deny refuses the combination, Warn tells, Allow takes the force of the facts in overrides."
    )
    message: Text = Field(min_length=1, description="Why, for the people who meet the rule.")
    way: Text = Field(default="", description="What to do instead.")
    overrides: tuple[Name, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="Facts an Allow rule takes the force of, by their ids as refusals and plans name them.",
    )
    source: Text = Field(default="", description="Where the statement is from, for example the address of an issue.")
    stacks: tuple[StackSelector, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Stacks the rule is for; all when absent."
    )
    clusters: LabelSelector | None = Field(
        default=None, description="Labels of the Clusters the rule is for; all when absent."
    )
    expires: str = Field(
        default="",
        description="When the rule stops to count; never when absent.",
        json_schema_extra={"format": "date-time"},
    )


class CompatibilityRule(KubernetesObject):
    """States which combinations of versions the provider refuses, warns about or allows, for all stacks or some."""

    kind: Literal["CompatibilityRule"] = "CompatibilityRule"
    spec: CompatibilityRuleSpec = Field(description="A statement about combinations, and whom it is for.")

    def rule(self) -> Rule:
        """Give the rule; its id is the object's name.

        Raises:
            SpecError: A range holds no version, or ``overrides`` does not fit ``severity``.
        """
        spec = self.spec.document()
        statement = {key: value for key, value in spec.items() if key not in ("stacks", "clusters", "expires")}
        place = f"CompatibilityRule {self.metadata.name}"
        source = spec.get("source") or place
        return parse_rule({"id": self.metadata.name, **statement, "source": source}, file=f"{place}: spec")

    def concerns(self, release: ReleaseName, labels: Mapping[str, str], now: datetime) -> bool:
        """Tell whether the rule counts for a Cluster now.

        Args:
            release: Of the Cluster's class.
            labels: Of the Cluster.
            now: The time, with its zone.

        Raises:
            SpecError: ``expires`` is no time.
        """
        return self.selects(release, labels) and (not self.spec.expires or now < self._expiry())

    def selects(self, release: ReleaseName, labels: Mapping[str, str]) -> bool:
        """Tell whether the rule is for a Cluster, expired or not; the parameters are those of :meth:`concerns`."""
        spec = self.spec
        if spec.stacks and not any(
            one.provider in ("", release.provider) and one.name in ("", release.stack) for one in spec.stacks
        ):
            return False
        return spec.clusters is None or spec.clusters.matches(labels)

    def check(self) -> None:
        """Raise SpecError where the rule would be of no use."""
        self.rule()
        if self.spec.expires:
            self._expiry()

    def _expiry(self) -> datetime:
        try:
            moment = datetime.fromisoformat(self.spec.expires)
        except ValueError:
            raise SpecError(
                "InvalidCompatibilityRule",
                f"CompatibilityRule {self.metadata.name}: spec.expires is no time: write it like 2027-01-31T00:00:00Z",
            ) from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
