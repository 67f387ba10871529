"""compatibility.yaml of a release: the version ranges with which its components work."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.model.documents import DocumentError, Node
from clusterstacks.model.errors import SpecError
from clusterstacks.model.ranges import Range
from clusterstacks.model.semver import SemVer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.model.objects import Manifest

FILE = "compatibility.yaml"
API_VERSION = "compatibility.clusterstack.x-k8s.io/v1alpha1"

TESTED = "tested"
KINDS = (TESTED, "supported", "documented", "recommended", "skew")
"""Kinds of evidence. Outside a ``tested`` range a version is untested; outside the others it is incompatible."""


class RuleSeverity(StrEnum):
    """Effect of a rule that matches."""

    DENY = "Deny"
    WARN = "Warn"
    ALLOW = "Allow"


@dataclass(frozen=True, slots=True)
class UpgradeRule:
    """The versions from which a component may be upgraded to the one with these limits.

    Args:
        max_minor_step: Largest number of minors at a time within a major; None for any step.
        downgrade: Whether a higher version may also be changed to it.
    """

    max_minor_step: int | None = None
    downgrade: bool = False

    def allows(self, old: SemVer, new: SemVer) -> bool:
        """Return whether a component may move from ``old`` to ``new``, the version with these limits."""
        if new < old:
            return self.downgrade
        if new == old or self.max_minor_step is None:
            return True
        return new.major == old.major and new.minor - old.minor <= self.max_minor_step


@dataclass(frozen=True, slots=True)
class Component:
    """A component of a release.

    Args:
        name: Its id as in the built-in facts, for example ``cilium``.
        version: Version of the software, not of the chart.
        text: The version as written, without a leading ``v``.
        addon: Its chart directory; empty when it is part of the class or the node image.
        kubernetes: The Kubernetes versions it works with; None when unknown.
        kind: Evidence for that range, one of :data:`KINDS`.
        requires: Other components that must be present, with their ranges.
        upgrade: Limits on upgrades to it.
        source: Origin of the facts.
    """

    name: str
    version: SemVer
    text: str
    addon: str = ""
    kubernetes: Range | None = None
    kind: str = "supported"
    requires: Mapping[str, Range] = field(default_factory=dict)
    upgrade: UpgradeRule = UpgradeRule()
    source: str = ""

    @property
    def title(self) -> str:
        """Name and version as in the ids of facts: ``cilium@1.18.2``."""
        return f"{self.name}@{self.text}"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The condition of a rule: all given parts must match; an empty condition always matches.

    Args:
        kubernetes: Range of the cluster's Kubernetes version.
        components: Components that must be present, with their ranges.
        provider: Provider of the stack.
        labels: Labels of the Cluster.
        variables: Variables of the Cluster's topology by dotted path.
    """

    kubernetes: Range | None = None
    components: Mapping[str, Range] = field(default_factory=dict)
    provider: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about a combination of versions.

    Args:
        id: Unique in its file.
        when: The combination.
        severity: Its effect.
        message: The reason, for people.
        way: What to do instead.
        overrides: Ids of the facts that an Allow rule overrides.
        source: Its origin.
    """

    id: str
    when: Circumstances
    severity: RuleSeverity
    message: str
    way: str = ""
    overrides: tuple[str, ...] = ()
    source: str = ""

    @property
    def fact(self) -> str:
        """The id of the rule among the facts."""
        return f"rule:{self.id}"


@dataclass(frozen=True, slots=True)
class Compatibility:
    """The content of compatibility.yaml.

    Args:
        kubernetes: The versions that a Cluster of the release's class may run.
        components: All known components.
        rules: Rules about combinations.
    """

    kubernetes: Range
    components: tuple[Component, ...] = ()
    rules: tuple[Rule, ...] = ()

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
        SpecError: A field is missing, unknown or invalid; the message names it.
    """
    node = Node(document, file)
    node.only({"apiVersion", "kubernetes", "components", "rules"})
    version = node.child("apiVersion")
    if version.value != API_VERSION:
        raise version.refuse(f"write {API_VERSION}")
    components = tuple(map(_component, node.child("components").items()))
    rules = tuple(map(_rule, node.child("rules").items()))
    _unique(node, "components", [component.name for component in components])
    _unique(node, "rules", [rule.id for rule in rules])
    return Compatibility(Range.at(node.child("kubernetes")), components, rules)


def parse_rule(document: object, *, file: str) -> Rule:
    """Parse a single rule.

    Args:
        file: Name of the rule's place in messages.

    Raises:
        SpecError: A field is missing, unknown or invalid; the message names it.
    """
    return _rule(Node(document, file))


def write_compatibility(stated: Compatibility) -> Manifest:
    """Return the document that :func:`parse_compatibility` reads as ``stated``, without default values."""
    document = {
        "apiVersion": API_VERSION,
        "kubernetes": stated.kubernetes.text,
        "components": [_component_document(one) for one in stated.components],
        "rules": [_rule_document(one) for one in stated.rules],
    }
    return _set(document)


def _component_document(component: Component) -> Manifest:
    upgrade = component.upgrade
    return _set(
        {
            "name": component.name,
            "addon": component.addon,
            "version": component.text,
            "kubernetes": component.kubernetes.text if component.kubernetes is not None else None,
            "kind": component.kind,
            "requires": _range_texts(component.requires),
            # A step of 0 minors differs from no limit.
            "upgrade": {
                **({} if upgrade.max_minor_step is None else {"maxMinorStep": upgrade.max_minor_step}),
                **({"downgrade": True} if upgrade.downgrade else {}),
            },
            "source": component.source,
        }
    )


def _rule_document(rule: Rule) -> Manifest:
    when = rule.when
    circumstances = {
        "kubernetes": when.kubernetes.text if when.kubernetes is not None else None,
        "components": _range_texts(when.components),
        "provider": when.provider,
        "clusterLabels": dict(when.labels),
        "variables": dict(when.variables),
    }
    return _set(
        {
            "id": rule.id,
            "when": _set(circumstances),
            "severity": rule.severity.value,
            "message": rule.message,
            "way": rule.way,
            "overrides": list(rule.overrides),
            "source": rule.source,
        }
    )


def _range_texts(ranges: Mapping[str, Range]) -> dict[str, str]:
    return {name: one.text for name, one in ranges.items()}


def _set(document: Manifest) -> Manifest:
    """Remove fields without a value."""
    return {key: value for key, value in document.items() if value not in (None, "", [], {})}


def _component(node: Node) -> Component:
    node.only({"name", "addon", "version", "kubernetes", "kind", "requires", "upgrade", "source"})
    version, text = _version(node.child("version"))
    kind = node.child("kind")
    if kind.value is not None and kind.value not in KINDS:
        raise kind.refuse(f"write one of {', '.join(KINDS)}")
    kubernetes = node.child("kubernetes")
    return Component(
        name=node.child("name").text(),
        version=version,
        text=text,
        addon=node.child("addon").optional_text(),
        kubernetes=None if kubernetes.value is None else Range.at(kubernetes),
        kind=kind.optional_text() or "supported",
        requires=_ranges(node.child("requires")),
        upgrade=_upgrade(node.child("upgrade")),
        source=node.child("source").optional_text(),
    )


def _upgrade(node: Node) -> UpgradeRule:
    if node.value is None:
        return UpgradeRule()
    node.only({"maxMinorStep", "downgrade"})
    step, downgrade = node.child("maxMinorStep"), node.child("downgrade")
    if step.value is not None and (type(step.value) is not int or step.value < 0):
        raise step.refuse("write a number of minors")
    if downgrade.value is not None and not isinstance(downgrade.value, bool):
        raise downgrade.refuse("write true or false")
    return UpgradeRule(step.value if isinstance(step.value, int) else None, downgrade.value is True)


def _rule(node: Node) -> Rule:
    node.only({"id", "when", "severity", "message", "way", "overrides", "source"})
    severity = node.child("severity")
    if severity.value not in [one.value for one in RuleSeverity]:
        raise severity.refuse("write Deny, Warn or Allow")
    overrides = tuple(item.text() for item in node.child("overrides").items())
    if bool(overrides) is not (severity.value == RuleSeverity.ALLOW):
        raise node.child("overrides").refuse("list the overridden facts in an Allow rule, and only there")
    return Rule(
        id=node.child("id").text(),
        when=_circumstances(node.child("when")),
        severity=RuleSeverity(str(severity.value)),
        message=node.child("message").text(),
        way=node.child("way").optional_text(),
        overrides=overrides,
        source=node.child("source").optional_text(),
    )


def _circumstances(node: Node) -> Circumstances:
    if node.value is None:
        return Circumstances()
    node.only({"kubernetes", "components", "provider", "clusterLabels", "variables"})
    kubernetes = node.child("kubernetes")
    return Circumstances(
        kubernetes=None if kubernetes.value is None else Range.at(kubernetes),
        components=_ranges(node.child("components")),
        provider=node.child("provider").optional_text(),
        labels={key: value.text() for key, value in _entries(node.child("clusterLabels")).items()},
        variables={key: value.value for key, value in _entries(node.child("variables")).items()},
    )


def _entries(node: Node) -> dict[str, Node]:
    if node.value is None:
        return {}
    keys = node.mapping()
    if not all(isinstance(key, str) and key for key in keys):
        raise node.refuse("use names as keys")
    return {str(key): node.child(str(key)) for key in keys}


def _ranges(node: Node) -> dict[str, Range]:
    return {key: Range.at(value) for key, value in _entries(node).items()}


def _version(node: Node) -> tuple[SemVer, str]:
    text = node.text("write the version of the software in quotes, for example '1.18.2'")
    try:
        return SemVer.parse(text), text.removeprefix("v")
    except SpecError as error:
        raise DocumentError(f"{node.file}: {node.field}: {error.message}") from None


def _unique(node: Node, field_name: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DocumentError(f"{node.file}: {field_name} contains {twice[0]} twice: remove one")
