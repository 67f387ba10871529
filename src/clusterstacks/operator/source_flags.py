"""The operator's own source of releases: flags, and the environment variables of the Go operator (FORMATS 9 and 10)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from clusterstacks.api.source import (
    DirectoryPlace,
    GithubPlace,
    HttpPlace,
    KeyRef,
    OciPlace,
    SourceSpec,
    VerificationPolicy,
    VerificationSpec,
)
from clusterstacks.domain.errors import SpecError
from clusterstacks.oci.reference import SCHEME, Reference
from clusterstacks.operator.go_flags import source_kind
from clusterstacks.sources.spec import SourceAddress, SourceKind

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

MAX_FILE_BYTES = 1024 * 1024
"""Largest file with certificates or keys (arbitrary; the bundle of a whole system has 0.3 MB)."""


class SettingInvalid(SpecError):
    """The command line or the environment names no source that can be used."""

    def __init__(self, message: str) -> None:
        super().__init__("SettingInvalid", message)


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags about sources."""
    add = parser.add_argument
    add(
        "--source",
        choices=[kind.value for kind in SourceKind],
        default="",
        help="where releases come from, unless a ClusterStack says where; default: github where GIT_ORG_NAME or "
        "GIT_REPOSITORY_NAME is set, oci where OCI_REGISTRY or OCI_REPOSITORY is set, else directory",
    )
    add(
        "--source-location",
        default="",
        metavar="PLACE",
        help="HOST/REPOSITORY for oci (default: OCI_REGISTRY and OCI_REPOSITORY), OWNER/REPOSITORY for github "
        "(default: GIT_ORG_NAME and GIT_REPOSITORY_NAME), the URL for http, a path below --release-dir for directory",
    )
    add("--source-interval", default="", metavar="TIME", help="how often to ask; default: 1m, 5s for a directory")
    add("--source-plain-http", action="store_true", help="ask the registry over HTTP without TLS")
    add("--source-ca", default="", metavar="FILE", help="PEM certificates to trust instead of the system's")
    add(
        "--verification-keys",
        default="",
        metavar="FILE",
        help="PEM public keys, one of which must have signed a release, unless a ClusterStack says which",
    )
    add(
        "--verification-policy",
        choices=[policy.value for policy in VerificationPolicy],
        default=None,
        help="what becomes of other releases: not used (Require, the default), or a warning (Warn)",
    )
    add(
        "--allowed-sources",
        default="",
        metavar="HOST[/PATH],...",
        help="what ClusterStacks may name as their source besides --source, e.g. registry.example.org/kaas,github.com; "
        "default: nothing",
    )
    add(
        "--plain-http-credentials",
        default="",
        metavar="HOST[/PATH],...",
        help="sources that are sent the credentials of a ClusterStack's Secret over HTTP without TLS, where anyone on "
        "the way can read them; default: none",
    )
    add(
        "--chart-repositories",
        default="",
        metavar="HOST[/PATH],...",
        help="where charts may come from that a release needs and does not hold, e.g. charts.example.org; default: "
        "nowhere",
    )


def source_of(found: argparse.Namespace, environ: Mapping[str, str]) -> SourceSpec:
    """Read the operator's own source.

    Raises:
        SettingInvalid: Names the flag or variable that is missing or wrong.
    """
    kind = source_kind(found.source, local=found.local, environ=environ)
    if found.source_plain_http and kind is not SourceKind.OCI:
        raise SettingInvalid("--source-plain-http goes with --source oci only; an http source has it in its URL")
    SourceAddress(kind, found.source_location).interval(found.source_interval)  # only to refuse a wrong one
    try:
        plain = {"interval": found.source_interval, "verification": _verification(found)}
        return SourceSpec.model_validate({**plain, kind.value: _place(kind, found, environ)})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise SettingInvalid(f"--source-location, or the environment, is wrong: {first['msg']}") from None


def read_text(flag: str, path: str) -> str:
    """Read a file that a flag names; empty where it names none.

    Raises:
        SettingInvalid: It cannot be read, or is far too large.
    """
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise SettingInvalid(f"{flag}: {path} is larger than {MAX_FILE_BYTES} bytes; is it the right file?")
        return content.decode()
    except OSError as error:
        raise SettingInvalid(f"{flag}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingInvalid(f"{flag}: {path} is no text") from None


def _verification(found: argparse.Namespace) -> VerificationSpec | None:
    if not found.verification_keys:
        if found.verification_policy:
            raise SettingInvalid("--verification-policy goes with --verification-keys")
        return None
    keys = KeyRef(public_key=read_text("--verification-keys", found.verification_keys))
    policy = VerificationPolicy(found.verification_policy or VerificationPolicy.REQUIRE)
    return VerificationSpec(policy=policy, keys=(keys,))


def _place(
    kind: SourceKind, found: argparse.Namespace, environ: Mapping[str, str]
) -> OciPlace | GithubPlace | HttpPlace | DirectoryPlace:
    location = found.source_location
    match kind:
        case SourceKind.OCI:
            return OciPlace(repository=_repository(location, environ), plainHTTP=found.source_plain_http)
        case SourceKind.GITHUB:
            default = f"{environ.get('GIT_ORG_NAME', '')}/{environ.get('GIT_REPOSITORY_NAME', '')}"
            owner, slash, repository = (location or default).partition("/")
            if not (owner and slash and repository):
                raise SettingInvalid(
                    "--source github needs --source-location OWNER/REPOSITORY, or GIT_ORG_NAME and GIT_REPOSITORY_NAME"
                )
            return GithubPlace(owner=owner, repository=repository, url=environ.get("GIT_API_URL", ""))
        case SourceKind.HTTP:
            if not location:
                raise SettingInvalid("--source http needs --source-location URL")
            return HttpPlace(url=location)
        case SourceKind.DIRECTORY:
            return DirectoryPlace(path=location)


def _repository(location: str, environ: Mapping[str, str]) -> str:
    if location:
        return location.removeprefix(SCHEME)
    reference = Reference.from_environ(environ)
    if reference is None:
        raise SettingInvalid("--source oci needs --source-location HOST/REPOSITORY, or OCI_REGISTRY and OCI_REPOSITORY")
    return reference.place
