"""Downloads a release from any source into a local directory, atomically."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from clusterstacks.release.contents import read_contents
from clusterstacks.release.open import open_directory
from clusterstacks.release.release_source import MAX_SIGNATURES, SIGNATURE_SUFFIX, EnvelopeKind
from clusterstacks.release.signing.envelope import Envelope, parse_envelope
from clusterstacks.release.signing.errors import SignatureRefused
from clusterstacks.release.signing.statement import Statement
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.signature_store import stage_lines
from clusterstacks.release.staging import Staging
from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.release import Release
    from clusterstacks.release.release_source import ReleaseSource


@dataclass(frozen=True, slots=True)
class Pulled:
    """A release in a local directory, downloaded or already there."""

    release: Release
    new: bool
    """Whether it did not exist before."""
    signed: bool
    """Whether signatures are beside it; they are not verified."""
    problems: tuple[str, ...] = ()
    """Signatures in the source that could not be read."""
    manifest: str = ""
    """Digest of its manifest in the registry; empty from other sources."""

    @property
    def path(self) -> Path:
        """The directory of the release, below the one it was pulled into."""
        return self.release.contents.root


async def pull(source: ReleaseSource, name: ReleaseName, directory: Path) -> Pulled:
    """Fetch a release into ``directory/<release name>/``, and its signatures and statements of stages beside it.

    The directory of the release appears after every file was downloaded and the release was verified; it is a SpecError
    if it exists with different content.
    """
    target = directory / name.release
    staging = await asyncio.to_thread(_stage, directory)
    try:
        await source.fetch(name, staging.path)
        evidence = await source.evidence(name)
        release = await asyncio.to_thread(open_directory, staging.path, name)
        new = await asyncio.to_thread(_settle, staging, target, release)
    finally:
        await asyncio.to_thread(staging.remove)
    # Local signatures that are not published yet are kept.
    beside = await DirectorySource(directory).evidence(name)
    files = Statement(name.release, release.contents.files)
    envelope = joined((*beside.envelopes, *evidence.envelopes), files.text())
    if envelope is not None:
        await asyncio.to_thread(replace_file, directory / f"{name}{SIGNATURE_SUFFIX}", envelope)
    sources = (DirectorySource(directory), source)
    stated = [await one.evidence(name, EnvelopeKind.STAGES) for one in sources]
    lines = stage_lines(text for evidence in stated for text in evidence.envelopes)
    if lines:
        await asyncio.to_thread(replace_file, directory / EnvelopeKind.STAGES.file(name), lines)
    pulled = replace(release, contents=replace(release.contents, root=target))
    problems = (*evidence.problems, *stated[-1].problems)
    return Pulled(pulled, new, envelope is not None, problems, evidence.manifest_digest)


def joined(envelopes: Iterable[bytes], own: bytes) -> bytes | None:
    """Merge the signatures of all envelopes with the same payload; None without a valid envelope.

    The envelopes may be hostile: every user who may push to a registry can add one. Envelopes with another payload than
    ``own``, the statement of the release's files, are used only if none has this one.
    """
    usable = []
    for text in envelopes:
        try:
            usable.append(parse_envelope(text))
        except SignatureRefused:
            continue
    if not usable:
        return None
    payload = own if any(envelope.payload == own for envelope in usable) else usable[0].payload
    same = (envelope for envelope in usable if envelope.payload == payload)
    signatures = (signature for envelope in same for signature in envelope.signatures if signature.plausible)
    return Envelope(payload, tuple(dict.fromkeys(signatures))[:MAX_SIGNATURES]).text()


def _stage(directory: Path) -> Staging:
    directory.mkdir(parents=True, exist_ok=True)
    return Staging.create(directory)


def _settle(staging: Staging, target: Path, release: Release) -> bool:
    try:
        staging.publish(target, readable=True)
    except FileExistsError:
        if not target.is_dir() or read_contents(release.name, target).digest != release.digest:
            problem = "already exists with different content; remove it or choose another directory"
            raise SpecError("ReleaseInTheWay", f"{target} {problem}") from None
        return False
    return True
