"""The envelope of a release before it is signed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.releases.errors import ReleaseBroken
from clusterstacks.signing.envelope import Envelope, parse_envelope
from clusterstacks.signing.errors import SignatureConflict, SignatureRefused
from clusterstacks.signing.statement import Statement, parse_statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.names import ReleaseName


def release_envelope(name: ReleaseName, files: Mapping[str, str], present: bytes = b"") -> Envelope:
    """Return the envelope to sign: the one that is there, so that its signatures stay, or a new one.

    Args:
        name: The release.
        files: Name and sha256 in lower-case hex of every file.
        present: The envelope that is there; empty when there is none.

    Raises:
        SignatureConflict: What is there is damaged or lists another release, or was not written by us, so that a
            signature would vouch for more than this release.
        ReleaseBroken: There are no files.
    """
    if not files:
        raise ReleaseBroken(name, "the directory", "holds no file that could be signed")
    statement = Statement(name.release, files)
    if not present:
        return Envelope(statement.text())
    try:
        envelope = parse_envelope(present)
        parse_statement(envelope.payload).require(statement)
    except SignatureRefused as refused:
        raise SignatureConflict(name, refused.message) from None
    if envelope.payload != statement.text():
        raise SignatureConflict(name, "another program wrote it in its own way")
    return envelope
