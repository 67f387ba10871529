"""Flags of the operator's own source of releases, and the environment variables of the Go operator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.source import (
    KeyRef,
    SourceSpec,
    VerificationPolicy,
    VerificationSpec,
)
from clusterstacks.operator.go_operator import source_kind
from clusterstacks.release.sources.source_kinds import KINDS
from clusterstacks.release.sources.spec import SourceAddress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from clusterstacks.release.sources.spec import SourceKind

MAX_FILE_BYTES = 1024 * 1024
"""Largest file with certificates or keys (arbitrary; the bundle of a whole system has 0.3 MB)."""


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the operator's own source, and of the sources that ClusterStacks may use."""
    add = parser.add_argument_group("sources of releases").add_argument
    add(
        "--source",
        choices=list(KINDS),
        default="",
        help="source of releases for ClusterStacks without spec.source; default: github if GIT_ORG_NAME or "
        "GIT_REPOSITORY_NAME is set, oci if OCI_REGISTRY or OCI_REPOSITORY is set, else directory",
    )
    add(
        "--source-location",
        default="",
        metavar="PLACE",
        help=f"place of the source. {'; '.join(f'{kind.name}: {kind.location_form}' for kind in KINDS.values())}",
    )
    add(
        "--source-interval",
        default="",
        metavar="TIME",
        help="interval between two listings of the source; default: 1m, 5s for a directory",
    )
    add("--source-plain-http", action="store_true", help="use plain HTTP for the registry")
    add("--source-ca", default="", metavar="FILE", help="CA certificates (PEM) to trust instead of those of the system")
    add(
        "--verification-keys",
        default="",
        metavar="FILE",
        help="public keys (PEM) of which one must have signed a release. Keys of a ClusterStack replace them, but with "
        "Require only for another source, in --allowed-sources",
    )
    add(
        "--verification-policy",
        choices=[policy.value for policy in VerificationPolicy],
        default=None,
        help="releases without such a signature: Require (the default) refuses them, and no ClusterStack can "
        "change that; Warn uses them with a warning",
    )
    add(
        "--allowed-sources",
        default="",
        metavar="HOST[/PATH],...",
        help="sources that spec.source may name besides --source, for example registry.example.org/kaas,github.com; "
        "default: none",
    )
    add(
        "--plain-http-credentials",
        default="",
        metavar="HOST[/PATH],...",
        help="sources to which the credentials of a ClusterStack's Secret may be sent over plain HTTP, so that anyone "
        "on the network can read them; default: none",
    )
    add(
        "--chart-repositories",
        default="",
        metavar="HOST[/PATH],...",
        help="repositories from which chart dependencies that a release does not contain may be downloaded, for "
        "example charts.example.org; default: none",
    )


def source_of(flags: argparse.Namespace, environ: Mapping[str, str]) -> SourceSpec:
    """Read the operator's own source.

    Raises:
        SpecError: Names the flag or variable that is missing or wrong.
    """
    kind = source_kind(flags.source, local=flags.local, environ=environ)
    if flags.source_plain_http and not kind.is_registry:
        raise SpecError(
            "SettingInvalid", "--source-plain-http goes with --source oci only; an http source has it in its URL"
        )
    SourceAddress(kind, flags.source_location).interval(flags.source_interval)  # only to refuse a wrong one
    try:
        plain = {"interval": flags.source_interval, "verification": _verification(flags)}
        return SourceSpec.model_validate({**plain, kind.name: _place(kind, flags, environ)})
    except ValidationError:
        raise SpecError(
            "SettingInvalid", f"--source-location, or the environment, is not valid: write {kind.location_form}"
        ) from None


def read_text(flag: str, path: str) -> str:
    """Read a file that a flag names; empty if it names none. SpecError for unreadable or far too large files."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise SpecError("SettingInvalid", f"{flag}: {path} is larger than {MAX_FILE_BYTES} bytes; check the path")
        return content.decode()
    except OSError as error:
        raise SpecError("SettingInvalid", f"{flag}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpecError("SettingInvalid", f"{flag}: {path} is not UTF-8 text (expected PEM); check the path") from None


def _verification(flags: argparse.Namespace) -> VerificationSpec | None:
    if not flags.verification_keys:
        if flags.verification_policy:
            raise SpecError("SettingInvalid", "--verification-policy goes with --verification-keys")
        return None
    keys = KeyRef(public_key=read_text("--verification-keys", flags.verification_keys))
    policy = VerificationPolicy(flags.verification_policy or VerificationPolicy.REQUIRE)
    return VerificationSpec(policy=policy, keys=(keys,))


def _place(kind: SourceKind[Any], flags: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, object]:
    place = kind.from_flags(flags.source_location, environ)
    if place is None:
        raise SpecError("SettingInvalid", f"--source {kind.name} needs --source-location {kind.location_form}")
    return {**place, "plainHTTP": True} if flags.source_plain_http else place
