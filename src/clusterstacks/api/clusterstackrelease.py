"""ClusterStackRelease: one release in a management cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from clusterstacks.api.meta import LIST_LENGTH, Condition, KubernetesObject, Model, Name, ObjectReference, ResourceEntry

MAX_FACTS_BYTES = 128 * 1024
"""Longest facts, in UTF-8. Arbitrary: a release with twelve components has 3 KB, and an object of the API server may
have 1.5 MiB (etcd's limit of a request)."""

MAX_SIGNERS = 64
"""Most keys noted; arbitrary, more than a rotation of all keys of one verification needs."""


class ClusterStackReleaseSpec(Model):
    """What belongs to the release."""

    provider_ref: ObjectReference | None = Field(
        default=None,
        description="Object of the provider that must be ready first, in the same namespace and of a kind that the "
        "operator's --provider-kinds allow; absent where no provider takes part.",
    )


class ClusterStackReleaseStatus(Model):
    """How far the release is."""

    ready: StrictBool = Field(default=False, description="Whether the cluster class of the release can be used.")
    kubernetes_version: Name = Field(
        default="", description="Kubernetes version the release is made for, for example v1.35.4."
    )
    digest: Name = Field(default="", description="Digest of the release's files, sha256:<hex>.")
    facts: Annotated[str, Field(max_length=MAX_FACTS_BYTES)] = Field(
        default="",
        description="Versions in the release's metadata.yaml and compatibility.yaml, as one line of JSON: Clusters are "
        "judged by them, and 'csctl plan' reads them.",
    )
    signed_by: tuple[Name, ...] = Field(
        default=(),
        max_length=MAX_SIGNERS,
        description="Fingerprints of the trusted keys that were found to have signed these files.",
    )
    resources: tuple[ResourceEntry, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="State of the cluster class and every other object of the release.",
    )
    conditions: tuple[Condition, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Aspects of the state; Ready sums them up."
    )


class ClusterStackRelease(KubernetesObject):
    """Brings one release, which its name tells, into the management cluster and keeps its cluster class there."""

    kind: Literal["ClusterStackRelease"] = "ClusterStackRelease"
    spec: ClusterStackReleaseSpec = Field(default=ClusterStackReleaseSpec(), description="What belongs to the release.")
    status: ClusterStackReleaseStatus = Field(
        default=ClusterStackReleaseStatus(), description="How far the release is."
    )
