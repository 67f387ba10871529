"""``spec.source`` of a ClusterStack: the location of its releases, and the keys that must have signed them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StrictBool

from clusterstacks.model.kinds.meta import Model, Name

MAX_KEYS: Final = 16
"""Most keys of one verification (arbitrary; a rotation needs two)."""

MAX_STAGES: Final = 8
"""Most stages that a release must have passed (arbitrary)."""

STAGE_NAME: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
"""Pattern of the name of a stage."""

_VERSION_OR_RELEASE: Final = r"^([a-z0-9]+(-[a-z0-9]+)+-[0-9]+-[0-9]+-)?v[0-9]+(-[0-9A-Za-z_]+[.-][0-9A-Za-z_]+)?$"

_KEY_LENGTH: Final = 16384
_LOCATION_LENGTH: Final = 1024
"""Smaller than elsewhere, because the API server estimates the cost of the rules from the maximum lengths."""

Location = Annotated[str, Field(max_length=_LOCATION_LENGTH)]


def _rule(rule: str, message: str) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


class OciPlace(Model):
    """A repository of an OCI registry; each release is a tag."""

    repository: Location = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$",
        description="Registry and repository, for example registry.example.org/kaas/cluster-stacks.",
    )
    plain_http: StrictBool = Field(
        default=False,
        alias="plainHTTP",
        description="Whether to connect to the registry over HTTP without TLS; only in a trusted network.",
    )


class GithubPlace(Model):
    """The releases of a repository on GitHub."""

    owner: Location = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", description="User or organisation, for example SovereignCloudStack."
    )
    repository: Location = Field(
        pattern=r"^[A-Za-z0-9_.-]+$", description="Name of the repository, for example cluster-stacks."
    )
    url: Location = Field(
        default="",
        pattern=r"^(https?://[^/?#@]+(/[^?#]*)?)?$",
        description="API URL of a GitHub Enterprise Server: https://github.example.org/api/v3, or without that path; "
        "other paths are not accepted. By default that of github.com.",
    )


class HttpPlace(Model):
    """A web server with an index of releases."""

    url: Location = Field(
        pattern=r"^https?://[^/?#@]+(/[^?#]*)?$",
        description="URL of the directory with index.json and the releases, for example "
        "https://releases.example.org/stacks/.",
    )


class DirectoryPlace(Model):
    """A directory on the operator's disk."""

    path: Location = Field(
        default="",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?$",
        description="Directory below the operator's --release-dir; by default that directory itself.",
    )


class SecretRef(Model):
    """A Secret in the namespace of the ClusterStack."""

    secret_name: Name = Field(min_length=1, description="Name of the Secret.")


class CaRef(Model):
    """A Secret with the certificates of trusted certificate authorities."""

    secret_name: Name = Field(min_length=1, description="Name of the Secret, in the namespace of the ClusterStack.")
    key: Name = Field(default="ca.crt", min_length=1, description="Key of the Secret that holds the PEM text.")


class KeyRef(Model):
    """One or more public keys, ECDSA P-256 or Ed25519, in PEM."""

    model_config = ConfigDict(
        json_schema_extra=_rule("has(self.publicKey) != has(self.secretName)", "set either publicKey or secretName")
    )

    public_key: Annotated[str, Field(max_length=_KEY_LENGTH)] = Field(default="", description="The PEM text itself.")
    secret_name: Name = Field(
        default="", description="Name of a Secret in the namespace of the ClusterStack that holds the PEM text."
    )
    key: Name = Field(default="", description="Key of that Secret; by default cosign.pub.")


class StageSpec(Model):
    """The evidence that a stage must have given: another management cluster that runs the releases first."""

    stage: Annotated[str, Field(max_length=63)] = Field(
        pattern=STAGE_NAME, description="Name of the stage, as in 'csctl attest --stage'."
    )
    keys: tuple[KeyRef, ...] = Field(
        min_length=1, max_length=MAX_KEYS, description="Keys of the stage; a statement of one of them is sufficient."
    )
    soak: Location = Field(
        default="",
        pattern="^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$",
        description="How long all its clusters with the release must have been ready, healthy and in sync, for example "
        "72h; by default any time.",
    )
    clusters: Annotated[int, Field(strict=True, ge=1)] = Field(
        default=1, json_schema_extra={"format": "int32"}, description="Number of clusters that must run the release."
    )
    upgrades_from: tuple[Annotated[Location, Field(pattern=_VERSION_OR_RELEASE)], ...] = Field(
        default=(),
        max_length=16,
        description="Versions of the stack (v6), or releases of another Kubernetes minor (openstack-scs-1-34-v6), from "
        "which a cluster must have been upgraded to the release.",
    )


class VerificationPolicy(StrEnum):
    """Treatment of a release without a signature of a trusted key, or without the evidence of a stage."""

    REQUIRE = "Require"
    WARN = "Warn"


class VerificationSpec(Model):
    """The keys that must have signed the releases, and the stages that they must have passed."""

    model_config = ConfigDict(
        json_schema_extra=_rule("has(self.keys) || has(self.evidence)", "set keys, evidence or both")
    )

    policy: VerificationPolicy = Field(
        default=VerificationPolicy.REQUIRE,
        description="Require: a release without a signature of one of the keys, or without the evidence, is not used. "
        "Warn: it is used, and a condition reports it; for signatures without effect where the operator requires them.",
    )
    keys: tuple[KeyRef, ...] = Field(
        default=(),
        min_length=1,
        max_length=MAX_KEYS,
        description="Trusted keys. The signature of one of them is sufficient, so that keys can be rotated. By default "
        "those in the operator's settings.",
    )
    evidence: tuple[StageSpec, ...] = Field(
        default=(),
        max_length=MAX_STAGES,
        description="Stages that a release must have passed before it is offered, proven by signed statements beside "
        "it ('csctl attest'). All of them are required.",
    )


class SourceSpec(Model):
    """The source of the releases."""

    model_config = ConfigDict(
        json_schema_extra=_rule(
            "[has(self.oci), has(self.github), has(self.http), has(self.directory)].filter(given, given).size() == 1",
            "set exactly one of oci, github, http and directory",
        )
    )

    oci: OciPlace | None = Field(default=None, description="A repository of an OCI registry.")
    github: GithubPlace | None = Field(default=None, description="The releases of a GitHub repository.")
    http: HttpPlace | None = Field(default=None, description="A web server with an index of releases.")
    directory: DirectoryPlace | None = Field(default=None, description="A directory on the operator's disk.")
    credentials: SecretRef | None = Field(
        default=None,
        description="Credentials: a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/basic-auth, or of "
        "type Opaque with the label clusterstack.x-k8s.io/source-credentials=true and the key token, or the keys "
        "username and password. By default access is anonymous.",
    )
    ca: CaRef | None = Field(
        default=None, description="Certificates trusted instead of those of the operator's system."
    )
    interval: Location = Field(
        default="",
        json_schema_extra=_rule(
            "duration(self) >= duration('1s') && duration(self) <= duration('24h')", "must be from 1s to 24h"
        )
        | {"pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$", "minLength": 2},
        description="Interval at which the source is listed, from 1s to 24h, for example 10m; by default 1m, for a "
        "directory 5s. A failing source is listed less often.",
    )
    verification: VerificationSpec | None = Field(
        default=None,
        description="Keys that must have signed the releases; by default those in the operator's settings.",
    )
