"""``csctl sign``: sign a release with a private key."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import FILE, TEXT, form_option
from clusterstacks.csctl.shared.registry_options import ServerTrust, open_registry, trust_options
from clusterstacks.csctl.shared.release_ref import (
    fetch_release_files,
    parse_release_ref,
    read_release_directory,
)

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.contents import Contents
    from clusterstacks.release.signing.keys import PrivateKey
    from clusterstacks.release.sources.spec import Location, SourceAddress

PASSWORD_VARIABLE = "CSCTL_KEY_PASSWORD"  # noqa: S105 - the name of a variable


@click.command(short_help="Sign a release.")
@click.argument("release", metavar="RELEASE_DIR|REF", required=False)
@click.option("--key", type=FILE, help="Private key: ECDSA P-256 or Ed25519, PEM (PKCS#8).")
@click.option("--new-key", type=click.Path(path_type=Path), help="Create a key pair PATH and PATH.pub.")
@trust_options
@form_option()
def sign(trust: ServerTrust, release: str | None, key: Path | None, new_key: Path | None, form: str) -> None:
    """Sign the files of a release.

    The signature of RELEASE_DIR is written to RELEASE_DIR.dsse.json next to it; 'csctl push' also pushes it. The
    signature of REF, a release in a registry, is attached to the release there. A second key adds a signature; the same
    key changes nothing.

    The password of an encrypted key is read from CSCTL_KEY_PASSWORD or from the terminal. With --new-key, the variable
    is the password of the new key, which signs the release if one is named.
    """
    if bool(key) is bool(new_key) or (key and not release):
        raise click.UsageError("expected RELEASE_DIR or REF with --key, or --new-key")
    named = parse_release_ref(release) if release else None
    if new_key:
        _make_key(new_key, None if named else form)
    if named:
        _sign(*named, read_key(key or new_key or Path()), trust, form)


def _make_key(path: Path, form: str | None) -> None:
    """Write a key pair, and print it as the result; without a format as notes."""
    from clusterstacks.release.sources.signature_store import write_new_key

    public = write_new_key(path, _password())
    if form not in (TEXT, None):
        output.print_document({"privateKey": str(path), "publicKey": str(public)}, form)
        return
    report = output.note if form is None else output.say
    report(f"{path}: private key, keep it secret; sign with 'csctl sign RELEASE_DIR --key {shlex.quote(str(path))}'")
    report(f"{public}: public key; verify with 'csctl verify RELEASE_DIR --key {shlex.quote(str(public))}'")


def read_key(path: Path) -> PrivateKey:
    """Read a private key; its password comes from the variable or the terminal."""
    from clusterstacks.release.signing.errors import key_unusable
    from clusterstacks.release.signing.keys import needs_password, parse_private_key
    from clusterstacks.release.sources.signature_store import read_key_file

    text, password = read_key_file(path), _password()
    if needs_password(text) and not password:
        if not sys.stdin.isatty():
            raise key_unusable(path, f"is encrypted: set its password in {PASSWORD_VARIABLE}")
        password = os.fsencode(click.prompt(f"password of {path}", hide_input=True, err=True))
    key = parse_private_key(text, name=str(path), password=password)
    if path.stat().st_mode & 0o077 and not needs_password(text):
        output.warn(
            f"{path}: other users of this machine can read this private key: chmod 600 {shlex.quote(str(path))}"
        )
    return key


def _password() -> bytes:
    return os.environb.get(PASSWORD_VARIABLE.encode(), b"")


def _sign(location: Location, name: ReleaseName, key: PrivateKey, trust: ServerTrust, form: str) -> None:
    import asyncio

    address = location.address
    if not address.kind.is_remote:
        signing = _sign_directory(Path(address.place), name, key)
    elif address.kind.is_registry:
        signing = _sign_in_registry(address, name, key, trust)
    else:
        raise click.UsageError(f"{name} is not in a registry: sign the release directory, then publish both")
    place, added = asyncio.run(signing)
    if form != TEXT:
        signer = {"name": key.public.name, "id": key.public.short}
        output.print_document({"release": name.release, "place": place, "key": signer, "new": added}, form)
        return
    what = "signed" if added else "was signed before"
    output.say(f"{name} {what} by {key.public.name} ({key.public.short}): {place}")


async def _sign_directory(directory: Path, name: ReleaseName, key: PrivateKey) -> tuple[str, bool]:
    from clusterstacks.release.sources.signature_store import sign_beside, signature_file

    contents = (await read_release_directory(directory, name)).contents
    _require_usable(contents)
    return str(signature_file(contents)), await sign_beside(contents, key)


async def _sign_in_registry(
    address: SourceAddress, name: ReleaseName, key: PrivateKey, trust: ServerTrust
) -> tuple[str, bool]:
    from clusterstacks.net.oci.descriptor import digest_of
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.release.release_source import Evidence
    from clusterstacks.release.signing.statement import release_envelope
    from clusterstacks.release.signing.verifier import verify
    from clusterstacks.release.sources.oci_repository import OCISource
    from clusterstacks.release.sources.oci_signatures import attach

    reference = Reference.parse(address.place)
    async with (
        open_registry(reference, trust) as registry,
        fetch_release_files(OCISource(registry, address.digest), name) as signable,
    ):
        files, evidence = signable.contents.files, signable.evidence
        _require_usable(signable.contents)
        digest = digest_of(evidence.manifest)
        # A signature of cosign stays in the registry; 'csctl pull' also downloads an envelope.
        added = not verify(name, files, Evidence(evidence.envelopes), [key.public]).signed_by
        if added:
            await attach(registry, digest, release_envelope(name, files).signed(key).text())
        return str(reference.at(digest)), added


def _require_usable(contents: Contents) -> None:
    """Refuse to sign a broken release."""
    from clusterstacks.release.charts.chart import ChartCache
    from clusterstacks.release.open import open_release

    open_release(contents, ChartCache())
