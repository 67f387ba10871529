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

Ranges = Annotated[Mapping[Text, RangeText], Field(description="Components that must be present, with their ranges.")]


class RuleSeverity(StrEnum):
    """Effect of a rule that matches."""

    DENY = "Deny"
    WARN = "Warn"
    ALLOW = "Allow"


@dataclass(frozen=True, slots=True)
class UpgradeRule(Section):
    """Limits on upgrades to this version."""

    max_minor_step: Annotated[
        Annotated[StrictInt, Field(ge=0)] | None,
        Remedy("write a number of minors"),
        Field(description="Largest number of minors at a time within a major; any number if absent."),
    ] = None
    downgrade: Annotated[StrictBool, Field(description="Whether a higher version may also be changed to it.")] = False

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
    """A component: software that an addon, the class or a node image contains."""

    name: Annotated[Text, Field(description="Id of the component as in the built-in facts, for example cilium.")]
    version: Annotated[SemVer, Parsed(_version), Field(alias="version")]
    # As written, without a leading v.
    text: Annotated[
        str,
        BeforeValidator(_without_v),
        Field(alias="version", description="Version of the software, not of the chart."),
    ]
    addon: Annotated[
        OptionalText,
        Field(description="Its chart below cluster-addon/; absent for a part of the class or an image."),
    ] = ""
    kubernetes: Annotated[
        RangeText | None, Field(description="Kubernetes versions that it works with; absent if unknown.")
    ] = None
    kind: Annotated[Evidence, Field(description="Evidence for that range. Default: supported.")] = "supported"
    requires: Ranges = field(default_factory=dict)
    upgrade: UpgradeRule = UpgradeRule()
    source: Annotated[OptionalText, Field(description="Origin of the facts, for example a URL.")] = ""

    @property
    def title(self) -> str:
        """Name and version as in the ids of facts: ``cilium@1.18.2``."""
        return f"{self.name}@{self.text}"


@dataclass(frozen=True, slots=True)
class Circumstances(Section):
    """The combination of a rule; all given parts must match."""

    kubernetes: Annotated[RangeText | None, Field(description="Range of the Kubernetes version.")] = None
    components: Ranges = field(default_factory=dict)
    provider: Annotated[OptionalText, Field(description="Provider of the stack.")] = ""
    labels: Annotated[Mapping[Text, Text], Field(alias="clusterLabels", description="Labels of the Cluster.")] = field(
        default_factory=dict
    )
    variables: Annotated[
        Mapping[Text, Any], Field(description="Variables of the Cluster's topology by dotted path.")
    ] = field(default_factory=dict)


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
    """A rule about a combination of versions."""

    __pydantic_config__ = CLOSED | ConfigDict(json_schema_extra=_overrides_of_allow)

    id: Annotated[Text, Field(description="Unique in the file.")]
    when: Annotated[Circumstances, Field(default=Circumstances())]
    severity: Annotated[RuleSeverity, Field(description="Effect of the rule.")]
    message: Annotated[Text, Field(description="The reason, for people.")]
    way: Annotated[OptionalText, Field(description="What to do instead.")] = ""
    overrides: Annotated[
        tuple[Text, ...],
        AfterValidator(_only_of_allow),
        Field(description="Ids of the facts that an Allow rule overrides.", validate_default=True),
    ] = ()
    source: Annotated[OptionalText, Field(description="Origin of the rule, for example a URL.")] = ""

    @property
    def fact(self) -> str:
        """The id of the rule among the facts."""
        return f"rule:{self.id}"


@dataclass(frozen=True, slots=True)
class Compatibility(Section):
    """Version ranges with which the components of a release work."""

    kubernetes: Annotated[RangeText, Field(description="Kubernetes versions that a Cluster of this release may run.")]
    components: Annotated[
        tuple[Component, ...],
        unique("name", "use the name of a component once"),
        Field(description="All known components of the release."),
    ] = ()
    rules: Annotated[
        tuple[Rule, ...], unique("id", "use an id once"), Field(description="Rules about combinations of versions.")
    ] = ()
    api_version: Annotated[_ApiVersion, Field(description="API version of the file.")] = field(kw_only=True)

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
