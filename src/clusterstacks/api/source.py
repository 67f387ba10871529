"""``spec.source`` of a ClusterStack: where its releases are published, and who must have signed them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StrictBool

from clusterstacks.api.meta import Model, Name

MAX_KEYS: Final = 16
"""Most keys of one verification; arbitrary, two are a rotation."""

_KEY_LENGTH: Final = 16384
_LOCATION_LENGTH: Final = 1024
"""Smaller than elsewhere: the server estimates the cost of the rules from the bounds."""

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
        description="Whether the registry is asked over HTTP without TLS; only for registries in the own network.",
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
        description="Address of the API of a GitHub Enterprise Server: https://github.example.org/api/v3, or without "
        "that path; no other path is accepted. That of github.com when absent.",
    )


class HttpPlace(Model):
    """A web server with an index of releases."""

    url: Location = Field(
        pattern=r"^https?://[^/?#@]+(/[^?#]*)?$",
        description="Address below which index.json and the releases lie, for example "
        "https://releases.example.org/stacks/.",
    )


class DirectoryPlace(Model):
    """A directory on the operator's disk."""

    path: Location = Field(
        default="",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?$",
        description="Directory below the operator's --release-dir; that directory itself when absent.",
    )


class SecretRef(Model):
    """A Secret in the namespace of the ClusterStack."""

    secret_name: Name = Field(min_length=1, description="Name of the Secret.")


class CaRef(Model):
    """A Secret with the certificates of the authorities that are trusted."""

    secret_name: Name = Field(min_length=1, description="Name of the Secret, in the namespace of the ClusterStack.")
    key: Name = Field(default="ca.crt", min_length=1, description="Key of the Secret that holds the PEM text.")


class KeyRef(Model):
    """One or more public keys, ECDSA P-256 or Ed25519, in PEM."""

    model_config = ConfigDict(
        json_schema_extra=_rule(
            "has(self.publicKey) != has(self.secretName)", "give either publicKey or secretName, not both"
        )
    )

    public_key: Annotated[str, Field(max_length=_KEY_LENGTH)] = Field(default="", description="The PEM text itself.")
    secret_name: Name = Field(
        default="", description="Name of a Secret in the namespace of the ClusterStack that holds the PEM text."
    )
    key: Name = Field(default="", description="Key of that Secret; cosign.pub when absent.")


class VerificationPolicy(StrEnum):
    """What happens to a release that none of the keys signed."""

    REQUIRE = "Require"
    WARN = "Warn"


class VerificationSpec(Model):
    """Who must have signed the releases."""

    policy: VerificationPolicy = Field(
        default=VerificationPolicy.REQUIRE,
        description="Require: a release that none of the keys signed is not used. Warn: it is used, and a condition "
        "says so.",
    )
    keys: tuple[KeyRef, ...] = Field(
        min_length=1,
        max_length=MAX_KEYS,
        description="Keys that are trusted; the signature of one of them is enough, so that keys can be replaced one "
        "after the other.",
    )


class SourceSpec(Model):
    """Where the releases are published."""

    model_config = ConfigDict(
        json_schema_extra=_rule(
            "[has(self.oci), has(self.github), has(self.http), has(self.directory)].filter(given, given).size() == 1",
            "give exactly one of oci, github, http and directory",
        )
    )

    oci: OciPlace | None = Field(default=None, description="A repository of an OCI registry.")
    github: GithubPlace | None = Field(default=None, description="The releases of a GitHub repository.")
    http: HttpPlace | None = Field(default=None, description="A web server with an index of releases.")
    directory: DirectoryPlace | None = Field(default=None, description="A directory on the operator's disk.")
    credentials: SecretRef | None = Field(
        default=None,
        description="Who asks: a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/basic-auth, or one of "
        "type Opaque with the label clusterstack.x-k8s.io/source-credentials=true and the key token, or the keys "
        "username and password. Nobody in particular when absent.",
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
        description="How often the source is asked for new releases, from 1s to 24h, for example 10m; 1m when absent, "
        "5s for a directory. A source that fails is asked less often.",
    )
    verification: VerificationSpec | None = Field(
        default=None, description="Who must have signed the releases; what the operator was started with when absent."
    )
