"""ClusterStackRelease: one release in a management cluster."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool

from clusterstacks.model.kinds.meta import (
    AGE_COLUMN,
    LIST_LENGTH,
    MESSAGE_COLUMN,
    READY_COLUMN,
    REASON_COLUMN,
    Column,
    ConditionEntry,
    CRDOptions,
    Generation,
    KubernetesObject,
    Model,
    Name,
    ObjectReference,
    ResourceEntry,
)

MAX_FACTS_BYTES = 128 * 1024
"""Maximum size of the facts in UTF-8. Arbitrary: a release with twelve components has 3 KB, and etcd limits an object
to 1.5 MiB."""

MAX_SIGNERS = 64
"""Most keys in status.signedBy (arbitrary: more than a rotation of all keys needs)."""


PASSED: Final = "PASSED"
FAILED: Final = "FAILED"
"""Verdicts of a stage, as in a SLSA Verification Summary."""

MAX_STAGE_STATEMENTS = 64
"""Most statements of stages in status.evidence, the newest first (arbitrary: eight for each stage)."""


class StageEvidence(Model):
    """A statement of a stage about a release, signed by one of its keys."""

    stage: Name = Field(description="Name of the stage.")
    verdict: Name = Field(description="PASSED or FAILED.")
    verified_at: Name = Field(description="When it was stated, by the clock of the stage's management cluster.")
    since: Name = Field(
        default="", description="Since when all clusters with the release were ready, healthy and in sync."
    )
    clusters: Annotated[int, Field(strict=True, ge=0)] = Field(
        default=0, json_schema_extra={"format": "int32"}, description="Number of clusters with the release."
    )
    upgrades_from: tuple[Name, ...] = Field(
        default=(), max_length=64, description="Releases from which clusters were upgraded to it."
    )
    signed_by: tuple[Name, ...] = Field(
        default=(), max_length=MAX_SIGNERS, description="Fingerprints of the keys that signed the statement."
    )

    @property
    def passed(self) -> bool:
        """True unless the stage has failed."""
        return self.verdict == PASSED

    @property
    def soak(self) -> timedelta:
        """How long the clusters ran well; both times are of one clock."""
        if not self.since:
            return timedelta()
        return max(datetime.fromisoformat(self.verified_at) - datetime.fromisoformat(self.since), timedelta())


class ClusterStackReleaseSpec(Model):
    """The objects that belong to the release."""

    provider_ref: ObjectReference | None = Field(
        default=None,
        description="Object of the provider that must be ready first. It must be in the same namespace and of a kind "
        "that the operator's --provider-kinds allow. Absent if the stack needs no provider.",
    )


class ClusterStackReleaseStatus(Model):
    """The observed state of the release."""

    ready: StrictBool = Field(default=False, description="Whether the cluster class of the release can be used.")
    kubernetes_version: Name = Field(
        default="", description="Kubernetes version the release is made for, for example v1.35.4."
    )
    digest: Name = Field(default="", description="Digest of the release's files, sha256:<hex>.")
    node_images: Name = Field(
        default="", description="Numbers of available and of all node images, for example 2/2; absent without images."
    )
    node_image_files: tuple[Name, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="Digests sha256:<hex> of the files of node images that the operator serves inside the management "
        "cluster.",
    )
    facts: Annotated[str, Field(max_length=MAX_FACTS_BYTES)] = Field(
        default="",
        description="Versions in the release's metadata.yaml and compatibility.yaml, as one line of JSON, for the "
        "validation of Clusters and for 'csctl plan'.",
    )
    signed_by: tuple[Name, ...] = Field(
        default=(),
        max_length=MAX_SIGNERS,
        description="Fingerprints of the trusted keys that signed the files of the release.",
    )
    verified_source: Name = Field(
        default="",
        description="The source in which the signatures of digest were verified; absent if they were not. A release is "
        "verified again before it is used if its source, its trusted keys or the digest in its annotation changed.",
    )
    evidence: tuple[StageEvidence, ...] = Field(
        default=(),
        max_length=MAX_STAGE_STATEMENTS,
        description="Statements of required stages about the content of digest, the newest first. They stay valid "
        "while the source cannot be read, and after they were deleted there.",
    )
    resources: tuple[ResourceEntry, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="State of the cluster class and every other object of the release.",
    )
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation for which the status was computed."
    )
    conditions: tuple[ConditionEntry, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Conditions of the object; Ready summarizes them."
    )


class ClusterStackRelease(KubernetesObject):
    """Installs the release that its name identifies in the management cluster and maintains its cluster class."""

    crd: ClassVar = CRDOptions(
        short_name="cskr",
        columns=(
            READY_COLUMN,
            REASON_COLUMN,
            Column("K8s Version", ".status.kubernetesVersion"),
            Column("Images", ".status.nodeImages", description="Numbers of available and of all node images."),
            AGE_COLUMN,
            Column("Digest", ".status.digest", description="Digest of the release's files.", wide=True),
            MESSAGE_COLUMN,
        ),
    )

    kind: Literal["ClusterStackRelease"] = "ClusterStackRelease"
    spec: ClusterStackReleaseSpec = Field(
        default=ClusterStackReleaseSpec(), description="The objects that belong to the release."
    )
    status: ClusterStackReleaseStatus = Field(
        default=ClusterStackReleaseStatus(), description="The observed state of the release."
    )
