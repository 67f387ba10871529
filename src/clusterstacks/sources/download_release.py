"""A release out of any source into a directory of this machine, whole or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import SpecError
from clusterstacks.releases.contents import read_contents
from clusterstacks.releases.open import open_directory
from clusterstacks.releases.release_source import MAX_SIGNATURES, SIGNATURE_SUFFIX
from clusterstacks.releases.staging import Staging, sweep
from clusterstacks.runtime.files import replace_file
from clusterstacks.signing.envelope import Envelope, parse_envelope
from clusterstacks.signing.errors import SignatureRefused
from clusterstacks.signing.statement import Statement
from clusterstacks.sources.directory import DirectorySource

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.releases.release import Release
    from clusterstacks.releases.release_source import ReleaseSource


class ReleaseInTheWay(SpecError):
    """Something else is where a release should go."""

    def __init__(self, path: object) -> None:
        super().__init__(
            "ReleaseInTheWay",
            f"{path} is there already with another content: move it away, or choose another directory",
        )


@dataclass(frozen=True, slots=True)
class Pulled:
    """A release that is on this machine now.

    Args:
        release: The release, opened.
        new: Whether it was not there before.
        signed: Whether signatures lie beside it; none of them was verified.
        problems: Which signatures of the source could not be read.
        manifest: Digest of the manifest it had in a registry; empty from other sources.
    """

    release: Release
    new: bool
    signed: bool
    problems: tuple[str, ...] = ()
    manifest: str = ""

    @property
    def path(self) -> Path:
        """Its directory."""
        return self.release.contents.root


async def pull(source: ReleaseSource, name: ReleaseName, directory: Path) -> Pulled:
    """Fetch a release into ``directory/<release name>/`` and its signatures beside it.

    The directory of the release appears when every file was fetched and verified, and the release opened.

    Raises:
        ReleaseInTheWay: It is there with another content.
        SpecError: The release is broken.
        DependencyError: The source fails.
        OSError: The disk refuses.
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
    # Signatures that were made here and are not published yet stay.
    beside = await DirectorySource(directory).evidence(name)
    files = Statement(name.release, release.contents.files)
    envelope = joined((*beside.envelopes, *evidence.envelopes), files.text())
    if envelope is not None:
        await asyncio.to_thread(replace_file, directory / f"{name}{SIGNATURE_SUFFIX}", envelope)
    there = replace(release, contents=replace(release.contents, root=target))
    return Pulled(there, new, envelope is not None, evidence.problems, evidence.manifest_digest)


def joined(envelopes: Iterable[bytes], own: bytes) -> bytes | None:
    """Return one envelope with the signatures of all that are over the same document; None when none is usable.

    Args:
        envelopes: What is there, by anybody: a registry lets whoever may push put an envelope beside a release.
        own: The document that lists the release's files; envelopes over another one only count where none is over it.
    """
    usable = []
    for text in envelopes:
        try:
            usable.append(parse_envelope(text))
        except SignatureRefused:
            continue
    if not usable:
        return None
    payload = own if any(one.payload == own for one in usable) else usable[0].payload
    made = (made for one in usable if one.payload == payload for made in one.signatures if made.plausible)
    return Envelope(payload, tuple(dict.fromkeys(made))[:MAX_SIGNATURES]).text()


def _stage(directory: Path) -> Staging:
    directory.mkdir(parents=True, exist_ok=True)
    sweep(directory)
    return Staging.create(directory)


def _settle(staging: Staging, target: Path, release: Release) -> bool:
    try:
        staging.publish(target, readable=True)
    except FileExistsError:
        if not target.is_dir() or read_contents(release.name, target).digest != release.digest:
            raise ReleaseInTheWay(target) from None
        return False
    return True
