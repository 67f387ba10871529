"""Flags of the operator's own source of releases, and the environment variables of the Go operator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from clusterstacks.api.source import (
    KeyRef,
    SourceSpec,
    VerificationPolicy,
    VerificationSpec,
)
from clusterstacks.domain.errors import SpecError
from clusterstacks.operator.go_operator import source_kind
from clusterstacks.sources.kinds import KINDS
from clusterstacks.sources.spec import SourceAddress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from clusterstacks.sources.spec import SourceKind

MAX_FILE_BYTES = 1024 * 1024
"""Largest file with certificates or keys (arbitrary; the bundle of a whole system has 0.3 MB)."""


class SettingInvalid(SpecError):
    """The command line or the environment does not name a usable source."""

    def __init__(self, message: str) -> None:
        super().__init__("SettingInvalid", message)


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags about sources."""
    add = parser.add_argument
    add(
        "--source",
        choices=list(KINDS),
        default="",
        help="where releases come from, unless a ClusterStack says where; default: github where GIT_ORG_NAME or "
        "GIT_REPOSITORY_NAME is set, oci where OCI_REGISTRY or OCI_REPOSITORY is set, else directory",
    )
    add(
        "--source-location",
        default="",
        metavar="PLACE",
        help="; ".join(f"{kind.name}: {kind.location_form}" for kind in KINDS.values()),
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
    if found.source_plain_http and not kind.is_registry:
        raise SettingInvalid("--source-plain-http goes with --source oci only; an http source has it in its URL")
    SourceAddress(kind, found.source_location).interval(found.source_interval)  # only to refuse a wrong one
    try:
        plain = {"interval": found.source_interval, "verification": _verification(found)}
        return SourceSpec.model_validate({**plain, kind.name: _place(kind, found, environ)})
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
            raise SettingInvalid(f"{flag}: {path} is larger than {MAX_FILE_BYTES} bytes; check the path")
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


def _place(kind: SourceKind[Any], found: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, object]:
    place = kind.from_flags(found.source_location, environ)
    if place is None:
        raise SettingInvalid(f"--source {kind.name} needs --source-location {kind.location_form}")
    return {**place, "plainHTTP": True} if found.source_plain_http else place
