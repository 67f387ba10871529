"""ClusterStack: which releases of a stack a management cluster offers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, StrictBool

from clusterstacks.api.meta import LIST_LENGTH, Condition, KubernetesObject, Model, Name, ObjectReference, Text
from clusterstacks.api.names import CompatibilityPolicy
from clusterstacks.api.selectors import ClusterNamespaces
from clusterstacks.api.source import SourceSpec

# The rules below refuse what the Go operator's webhook refuses, and nothing else. What it checks only when an object is
# created must not stop the update of an older object, hence oldSelf.hasValue().
_IMMUTABLE: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "cannot be changed; create another ClusterStack"}
    ]
}
_RULES: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {
            "rule": "oldSelf.hasValue() || self.noProvider || has(self.providerRef)",
            "message": "providerRef is missing; set it, or noProvider: true where no provider takes part",
            "optionalOldSelf": True,
        },
        {
            "rule": "oldSelf.hasValue() || !has(self.versions) "
            "|| self.versions.all(v, v.matches('^v[0-9]+(-[0-9A-Za-z_]+[.][0-9A-Za-z_]+)?$'))",
            "message": "each of versions must read like v1 or v0-beta.1",
            "optionalOldSelf": True,
        },
    ]
}

# Smaller than elsewhere: the server estimates the cost of the rule on versions from them.
_VERSIONS = 1024
_VERSION_LENGTH = 1024


class Channel(StrEnum):
    """Kind of releases a ClusterStack follows."""

    STABLE = "stable"
    CUSTOM = "custom"


class ClusterStackSpec(Model):
    """Which releases are wanted."""

    model_config = ConfigDict(json_schema_extra=_RULES)

    provider: Name = Field(
        min_length=1,
        description="Provider the stack is made for, the first word of its release names, for example openstack.",
        json_schema_extra=_IMMUTABLE,
    )
    name: Name = Field(
        min_length=1,
        description="Name of the stack, the second word of its release names, for example scs.",
        json_schema_extra=_IMMUTABLE,
    )
    kubernetes_version: Name = Field(
        pattern=r"^[0-9]\.[0-9]+$",
        description="Kubernetes minor version of the releases, for example 1.35; quote it in YAML.",
        json_schema_extra=_IMMUTABLE,
    )
    channel: Channel = Field(
        default=Channel.STABLE,
        description="Channel autoSubscribe follows: stable takes v1, v2, ..., custom takes v1-custom.1 and so on.",
        json_schema_extra=_IMMUTABLE,
    )
    versions: tuple[Annotated[str, Field(max_length=_VERSION_LENGTH)], ...] = Field(
        default=(),
        max_length=_VERSIONS,
        description="Versions to offer whatever their channel, for example v3 or v0-sha.abc1234.",
    )
    auto_subscribe: StrictBool = Field(
        default=True, description="Whether to offer the newest release of the channel as well."
    )
    no_provider: StrictBool = Field(default=False, description="Whether the stack needs no object of a provider.")
    provider_ref: ObjectReference | None = Field(
        default=None,
        description="Template from which each release gets its object of the provider, in the same namespace and of a "
        "kind that the operator's --provider-kinds allow. Needed unless noProvider.",
    )
    source: SourceSpec | None = Field(
        default=None,
        description="Where the releases are published; where the operator was told to look when absent.",
    )
    cluster_namespaces: ClusterNamespaces | None = Field(
        default=None, description="Namespaces whose Clusters may use the classes of the stack; all when absent."
    )
    compatibility: CompatibilityPolicy = Field(
        default=CompatibilityPolicy.RANGE,
        description="What is refused of Clusters whose class states ranges. Range: what is incompatible. Strict: also "
        "what is untested or unknown, and every version but the class's own. Permissive: nothing, it warns.",
    )


class ReleaseSummary(Model):
    """State of one release of the stack."""

    name: Name = Field(description="Version of the release as its object's name spells it.")
    ready: StrictBool = Field(description="Whether the release can be used.")
    phase: Name = Field(description="What is being done for the release; done at the end.")
    message: Text = Field(default="", description="Why the release is not ready.")


class ClusterStackStatus(Model):
    """Which releases there are."""

    latest_release: Name = Field(
        default="", description="Class and Kubernetes version of the newest release that is ready."
    )
    summary: tuple[ReleaseSummary, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="State of every release."
    )
    usable_versions: Text = Field(default="", description="Versions that are ready, with commas.")
    conditions: tuple[Condition, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Aspects of the state; Ready sums them up."
    )


class ClusterStack(KubernetesObject):
    """Offers releases of one cluster stack for one Kubernetes minor version as cluster classes of its namespace."""

    kind: Literal["ClusterStack"] = "ClusterStack"
    spec: ClusterStackSpec = Field(description="Which releases are wanted.")
    status: ClusterStackStatus = Field(default=ClusterStackStatus(), description="Which releases there are.")
