"""``csctl verify``: verify the signatures of a release, or the attestations of an image or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import FILE, TEXT, form_option
from clusterstacks.csctl.shared.registry_options import ServerTrust, trust_options
from clusterstacks.csctl.shared.release_ref import open_release_files, parse_release_ref
from clusterstacks.csctl.shared.stage_statements import current, described, read_public_keys, read_statements
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.model.documents import listed

if TYPE_CHECKING:
    from clusterstacks.csctl.shared.attested_artifacts import Attested
    from clusterstacks.release.contents import Contents
    from clusterstacks.release.signing.keys import PublicKey
    from clusterstacks.release.signing.verifier import Verification


@click.command(short_help="Verify the signatures of a release, an image or a wheel.")
@click.argument("release", metavar="RELEASE_DIR|REF|FILE")
@click.option("--key", "keys", type=FILE, multiple=True, required=True, help="Trusted public keys (PEM); repeatable.")
@click.option("--evidence", is_flag=True, help="Verify what stages state about the release, with their keys.")
@form_option()
@trust_options
def verify(trust: ServerTrust, release: str, keys: tuple[Path, ...], form: str, *, evidence: bool) -> int:
    """Verify that one of the keys signed exactly the files of a release. Exits with 3 if none did.

    RELEASE_DIR is a release directory with its signatures in RELEASE_DIR.dsse.json next to it. REF is a reference as
    for 'csctl pull'. In a registry, signatures of 'cosign sign --key' are also accepted.

    If the tag of REF is not the name of a release, REF is an image: one of the keys must attest its SLSA provenance,
    and an SBOM of each of its architectures. The same holds for FILE, for example a wheel, with its attestations in
    FILE.provenance.dsse.json and FILE.sbom.dsse.json.

    With --evidence, the statements of stages ('csctl attest') are verified instead of signatures. Exits with 3 if no
    stage has one by the keys, or if the newest one of a stage says that the release failed.
    """
    from clusterstacks.csctl.shared.attested_artifacts import attested_file, attested_image, image_reference
    from clusterstacks.model.errors import SpecError
    from clusterstacks.release.signing.errors import SignatureRequired
    from clusterstacks.release.signing.verifier import enforce

    trusted = read_public_keys(keys)
    if evidence:
        return output.run_counted(_show_stages(release, trusted, trust, form))
    if Path(release).is_file():
        return _show_attested(attested_file(Path(release), trusted), form)
    if (image := image_reference(release)) is not None:
        return _show_attested(output.run_counted(attested_image(image, trusted, trust)), form)
    contents, manifest, verification = output.run_counted(_verified(release, trusted, trust))
    if form != TEXT:
        output.print_document(_document(contents, manifest, verification), form)
    try:
        enforce(contents.release, verification)
    except SignatureRequired as error:
        remedy = "ask its publisher to sign it with a key that you trust, and do not use it until then"
        problem = f"{contents.release} is not signed by any of the given keys: {remedy}"
        output.show_error(SpecError(error.code, listed(problem, verification.problems)))
        return output.NEGATIVE
    if form == TEXT:
        output.say_judged(ResultMark.GOOD, f"{contents.release} is signed by {', '.join(verification.signed_by)}")
        output.say_digests(content=contents.digest, manifest=manifest)
        output.note_some("signature ignored", verification.problems)
    return 0


def _show_attested(artifact: Attested, form: str) -> int:
    from clusterstacks.model.errors import SpecError

    if form != TEXT:
        output.print_document(artifact.document(), form)
    if artifact.missing:
        problem = f"{artifact.name}: no given key attests its {' and '.join(artifact.missing)}: do not use it"
        output.show_error(SpecError("SignatureRequired", listed(problem, artifact.problems)))
        return output.NEGATIVE
    if form == TEXT:
        output.say_judged(ResultMark.GOOD, f"{artifact.name} is attested by {', '.join(artifact.signed_by)}")
        output.say(f"  digest:  {artifact.digest}")
        output.say(f"  source:  {artifact.source}")
        output.say(f"  builder: {artifact.builder}")
        output.note_some("attestation ignored", artifact.problems)
    return 0


async def _show_stages(release: str, keys: list[PublicKey], trust: ServerTrust, form: str) -> int:
    import os

    from clusterstacks.release.sources.source_kinds import open_location

    location, name = parse_release_ref(release)
    async with trust.web() as web:
        source = await open_location(location.address, web, os.environ, plain_http=trust.plain_http)
        statements, problems = await read_statements(source, name, keys)
    if form != TEXT:
        output.print_document({"release": name.release, "evidence": [one.document() for one in statements]}, form)
    else:
        for one in statements:
            signers = ", ".join(key.name for key in keys if key.fingerprint in one.signed_by)
            mark = ResultMark.GOOD if one.passed else ResultMark.BAD
            output.say_judged(mark, f"{one.verified_at}  {described(one)}, signed by {signers}")
        if not statements:
            output.warn(f"no given key states anything about {name}")
        output.note_some("statement ignored", problems)
    return 0 if statements and all(one.passed for one in current(statements)) else output.NEGATIVE


async def _verified(release: str, keys: list[PublicKey], trust: ServerTrust) -> tuple[Contents, str, Verification]:
    from clusterstacks.release.signing import verifier

    async with open_release_files(*parse_release_ref(release), trust) as signable:
        files = signable.contents.files
        verification = verifier.verify(signable.contents.release, files, signable.evidence, keys)
        return signable.contents, signable.evidence.manifest_digest, verification


def _document(contents: Contents, manifest: str, verification: Verification) -> dict[str, Any]:
    return {
        "release": contents.release.release,
        "digest": contents.digest,
        "contentDigest": contents.digest,
        "manifestDigest": manifest or None,
        "signedBy": verification.signed_by,
        "problems": verification.problems,
    }
