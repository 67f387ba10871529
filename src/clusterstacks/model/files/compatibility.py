"""compatibility.yaml of a release: the version ranges with which its components work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, ValidationInfo

from clusterstacks.model.files.definitions import (
    CLOSED,
    OptionalText,
    Parsed,
    RangeText,
    Remedy,
    Section,
    Text,
    read,
    refusal,
    unique,
    write,
)
from clusterstacks.model.semver import SemVer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.objects import Manifest

FILE = "compatibility.yaml"
_ApiVersion = Literal["compatibility.clusterstack.x-k8s.io/v1alpha1"]
API_VERSION: _ApiVersion = "compatibility.clusterstack.x-k8s.io/v1alpha1"

TESTED = "tested"
Evidence = Literal["tested", "supported", "documented", "recommended", "skew"]
"""Kinds of evidence. Outside a ``tested`` range a version is untested; outside the others it is incompatible."""

Ranges = Mapping[Text, RangeText]
"""A range of versions by component."""


class RuleSeverity(StrEnum):
    """Effect of a rule that matches."""

    DENY = "Deny"
    WARN = "Warn"
    ALLOW = "Allow"


@dataclass(frozen=True, slots=True)
class UpgradeRule(Section):
    """Limits on upgrades to this version.

    Args:
        max_minor_step: Largest number of minors at a time within a major; any number if absent.
        downgrade: Whether a higher version may also be changed to it.
    """

    max_minor_step: Annotated[Annotated[StrictInt, Field(ge=0)] | None, Remedy("write a number of minors")] = None
    downgrade: StrictBool = False

    def allows(self, old: SemVer, new: SemVer) -> bool:
        """Return whether a component may move from ``old`` to ``new``, the version with these limits."""
        if new < old:
            return self.downgrade
        if new == old or self.max_minor_step is None:
            return True
        return new.major == old.major and new.minor - old.minor <= self.max_minor_step


def _version(text: object) -> SemVer:
    if not isinstance(text, str) or not text.strip():
        raise refusal("write the version of the software in quotes, for example '1.18.2'")
    return SemVer.parse(text)


def _without_v(text: object) -> object:
    return text.removeprefix("v") if isinstance(text, str) else ""


@dataclass(frozen=True, slots=True)
class Component(Section):
    """A component: software that an addon, the class or a node image contains.

    Args:
        name: Id of the component as in the built-in facts, for example cilium.
        text: Version of the software, not of the chart.
        addon: Its chart below cluster-addon/; absent for a part of the class or an image.
        kubernetes: Kubernetes versions that it works with; absent if unknown.
        kind: Evidence for that range. Default: supported.
        requires: Components that must be present, with their ranges.
        upgrade: Limits on upgrades to this version.
        source: Origin of the facts, for example a URL.
    """

    name: Text
    version: Annotated[SemVer, Parsed(_version), Field(alias="version")]
    # As written, without a leading v.
    text: Annotated[str, BeforeValidator(_without_v), Field(alias="version")]
    addon: OptionalText = ""
    kubernetes: RangeText | None = None
    kind: Evidence = "supported"
    requires: Ranges = field(default_factory=dict)
    upgrade: UpgradeRule = UpgradeRule()
    source: OptionalText = ""

    @property
    def title(self) -> str:
        """Name and version as in the ids of facts: ``cilium@1.18.2``."""
        return f"{self.name}@{self.text}"


@dataclass(frozen=True, slots=True)
class Circumstances(Section):
    """The combination of a rule; all given parts must match.

    Args:
        kubernetes: Range of the Kubernetes version.
        components: Components that must be present, with their ranges.
        provider: Provider of the stack.
        labels: Labels of the Cluster.
        variables: Variables of the Cluster's topology by dotted path.
    """

    kubernetes: RangeText | None = None
    components: Ranges = field(default_factory=dict)
    provider: OptionalText = ""
    labels: Annotated[Mapping[Text, Text], Field(alias="clusterLabels")] = field(default_factory=dict)
    variables: Mapping[Text, Any] = field(default_factory=dict)


def _only_of_allow(overrides: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if "severity" in info.data and bool(overrides) is not (info.data["severity"] is RuleSeverity.ALLOW):
        raise refusal("list the overridden facts in an Allow rule, and only there")
    return overrides


def _overrides_of_allow(schema: Manifest) -> None:
    schema["if"] = {"properties": {"severity": {"const": RuleSeverity.ALLOW.value}}, "required": ["severity"]}
    schema["then"] = {"required": ["overrides"], "properties": {"overrides": {"type": "array", "minItems": 1}}}
    schema["else"] = {"properties": {"overrides": {"maxItems": 0}}}


@dataclass(frozen=True, slots=True)
class Rule(Section):
    """A rule about a combination of versions.

    Args:
        id: Unique in the file.
        when: The combination; all given parts must match.
        severity: Effect of the rule.
        message: The reason, for people.
        way: What to do instead.
        overrides: Ids of the facts that an Allow rule overrides.
        source: Origin of the rule, for example a URL.
    """

    __pydantic_config__ = CLOSED | ConfigDict(json_schema_extra=_overrides_of_allow)

    id: Text
    when: Annotated[Circumstances, Field(default=Circumstances())]
    severity: RuleSeverity
    message: Text
    way: OptionalText = ""
    overrides: Annotated[tuple[Text, ...], AfterValidator(_only_of_allow), Field(validate_default=True)] = ()
    source: OptionalText = ""

    @property
    def fact(self) -> str:
        """The id of the rule among the facts."""
        return f"rule:{self.id}"


@dataclass(frozen=True, slots=True)
class Compatibility(Section):
    """Version ranges with which the components of a release work.

    Args:
        kubernetes: Kubernetes versions that a Cluster of this release may run.
        components: All known components of the release.
        rules: Rules about combinations of versions.
        api_version: API version of the file.
    """

    kubernetes: RangeText
    components: Annotated[tuple[Component, ...], unique("name", "use the name of a component once")] = ()
    rules: Annotated[tuple[Rule, ...], unique("id", "use an id once")] = ()
    api_version: _ApiVersion = field(kw_only=True)

    def of_addon(self, addon: str) -> tuple[Component, ...]:
        """Return the components of one addon."""
        return tuple(component for component in self.components if component.addon == addon)

    def addons(self) -> tuple[str, ...]:
        """The addons, sorted."""
        return tuple(sorted({component.addon for component in self.components if component.addon}))


def leading(addon: str, components: Sequence[Component]) -> Component:
    """Return the component that has the version of the addon: the one of its name, else the first."""
    return next((one for one in components if one.name == addon), components[0])


def parse_compatibility(document: object, *, file: str = FILE) -> Compatibility:
    """Parse the file.

    Raises:
        DocumentError: A field is missing, unknown or invalid; the message names it.
    """
    return read(Compatibility, document, file=file)


def parse_rule(document: object, *, file: str) -> Rule:
    """Parse a single rule; raises as :func:`parse_compatibility`."""
    return read(Rule, document, file=file)


def write_compatibility(stated: Compatibility) -> Manifest:
    """Return the document that :func:`parse_compatibility` reads as ``stated``, without empty fields."""
    return write(stated)
