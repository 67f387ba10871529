"""csctl.yaml, stack.yaml and versions.yaml: names and Kubernetes versions of the stacks of a directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field

from clusterstacks.model.files.definitions import NUMBER, OPEN, Remedy, Section, Text, matching

_PATCH: Final = rf"\.{NUMBER}(-(alpha|beta|rc)\.{NUMBER})?(\+[0-9A-Za-z.-]+)?"

ProviderName = Annotated[
    str,
    matching("[a-z0-9]+"),
    Remedy("expected lower-case letters and digits only, because a dash ends the provider in the name of a release"),
]
StackName = Annotated[
    str,
    matching("[a-z0-9]+(-[a-z0-9]+)*"),
    Remedy("expected lower-case letters and digits, with single dashes between them"),
]
Version = Annotated[Text, Remedy("write a version in quotes")]
# YAML reads 1.30 as a number.
_KubernetesVersion = Annotated[
    Any,
    Field(json_schema_extra={"type": ["string", "number"], "pattern": rf"^v?{NUMBER}\.{NUMBER}({_PATCH})?$"}),
]


@dataclass(frozen=True, slots=True)
class ProviderSettings(Section):
    """Infrastructure provider of the clusters.

    Args:
        type: Name of the provider: lower-case letters and digits.
        config: Settings of the plugin csctl-PROVIDER. If they are not empty, it makes node images.
        api_version: API version of config: PROVIDER.csctl.clusterstack.x-k8s.io/v1alpha1.
    """

    type: ProviderName
    config: Mapping[Any, Any] | None = None
    api_version: Any = None


@dataclass(frozen=True, slots=True)
class CsctlConfig(Section):
    """Name and versions of the stack.

    Args:
        cluster_stack_name: Name of the stack: lower-case letters, digits and dashes.
        kubernetes_version: Full version, for example v1.35.4 or, of a distribution, v1.35.4+rke2r1. A minor such as
            v1.35 only beside stack.yaml.
    """

    cluster_stack_name: StackName
    provider: ProviderSettings
    kubernetes_version: _KubernetesVersion = None


@dataclass(frozen=True, slots=True)
class CsctlFile(Section):
    """Provider, name and Kubernetes version of a cluster stack.

    Args:
        api_version: csctl.clusterstack.x-k8s.io/v1alpha1
    """

    config: CsctlConfig
    api_version: Any = None


@dataclass(frozen=True, slots=True)
class StackFile(Section):
    """Provider, name and Kubernetes version of a cluster stack whose charts csctl completes.

    Args:
        provider: Infrastructure provider: lower-case letters and digits.
        cluster_stack_name: Name of the stack: lower-case letters, digits and dashes.
        kubernetes_version: A full version such as 1.35.4, or a minor such as 1.35 for its newest patch.
        addons: Version of a chart dependency, or a range that must contain it, such as 2.35.x.
    """

    __pydantic_config__ = OPEN

    provider: ProviderName
    cluster_stack_name: StackName
    kubernetes_version: _KubernetesVersion = None
    addons: Mapping[str, Version] = field(default_factory=dict)


VersionsFile = Annotated[
    tuple[
        Annotated[
            Mapping[str, Version],
            Field(
                description="One release: versions of dependencies by name or alias, and of Kubernetes.",
                json_schema_extra={
                    "properties": {
                        "kubernetes": {
                            "type": "string",
                            "pattern": rf"^v?{NUMBER}\.{NUMBER}{_PATCH}$",
                            "description": "Full Kubernetes version, for example 1.35.4.",
                        }
                    },
                    "required": ["kubernetes"],
                },
            ),
        ],
        ...,
    ],
    Field(
        description="The Kubernetes minors of a stack directory, one row for each.",
        json_schema_extra={"minItems": 1},
    ),
]
