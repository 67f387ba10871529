"""Publishing a release directory as a GitHub release."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import parse_release
from clusterstacks.http.errors import AnswerRefused, StoreUnavailable
from clusterstacks.releases.contents import survey
from clusterstacks.releases.errors import ReleaseNotFound, ReleaseTaken
from clusterstacks.releases.open import open_directory
from clusterstacks.releases.signature_files import SIGNATURE_SUFFIX
from clusterstacks.sources.github.assets import signature_of
from clusterstacks.sources.github.draft import DraftRelease, LocalFile, local_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.sources.github.api_documents import GitHubRelease
    from clusterstacks.sources.github.assets import GitHubSource


@dataclass(frozen=True, slots=True)
class _Local:
    """A release directory to be published.

    Args:
        name: Its name.
        digest: Of its files.
        files: By name, without the signature.
        signature: The envelope beside the directory, if there is one.
    """

    name: ReleaseName
    digest: str
    files: Mapping[str, LocalFile]
    signature: LocalFile | None

    @property
    def everything(self) -> dict[str, LocalFile]:
        """All that becomes an asset."""
        return {**self.files, **({self.signature.stated.name: self.signature} if self.signature else {})}


async def publish(directory: Path, source: GitHubSource, report: Callable[[str], None]) -> bool:
    """Publish the files of a directory, and the signature beside it, and tell whether anything changed by that.

    The release stays a draft, which nobody sees, until all its assets are there and verified; a draft that was left
    behind is completed. The tag is made by GitHub, on the default branch, unless it exists. A release in another
    channel than stable is marked as a pre-release, so that GitHub never shows it as the latest one.

    Args:
        directory: Named like the release; it is verified first.
        source: The repository, with a token that may write its contents.
        report: Called with a line for each upload.

    Raises:
        SpecError: The directory has no name of a release, or there is no token.
        ReleaseBroken, UnsafeArchive: Nobody could use the release.
        ReleaseTaken: A release of this name is published with another content.
        CredentialsRefused: The token may not publish.
        SourceUnavailable: GitHub cannot be reached, fails, or asks to wait; doing it again goes on where it ended.
    """
    if not source.repository.may_write:
        raise SpecError("TokenMissing", f"publishing to {source.repository.place} needs a token: set GIT_ACCESS_TOKEN")
    local = await asyncio.to_thread(_gather, directory)
    published = await _published(source, local.name)
    if published is not None:
        return await _complete(local, published, source, report)
    draft = await _draft(source, local, report)
    await draft.fill()
    if await draft.publish():
        return True
    faster = await _published(source, local.name)
    if faster is None:
        raise AnswerRefused(source.repository.place, f"does not publish the draft of {local.name}")
    await draft.discard()
    return await _complete(local, faster, source, report)


def _gather(directory: Path) -> _Local:
    directory = directory.absolute()
    name = parse_release(directory.name)
    signature = directory.with_name(f"{name}{SIGNATURE_SUFFIX}")
    try:
        contents = open_directory(directory).contents
        files = {file: local_file(directory / file, digest) for file, digest in contents.files.items()}
        return _Local(name, contents.digest, files, local_file(signature) if signature.is_file() else None)
    except OSError as error:
        raise StoreUnavailable(directory, error) from None


async def _published(source: GitHubSource, name: ReleaseName) -> GitHubRelease | None:
    try:
        return await source.release(name)
    except ReleaseNotFound:
        return None


async def _complete(
    local: _Local, published: GitHubRelease, source: GitHubSource, report: Callable[[str], None]
) -> bool:
    """Compare with what is published; a signature that is missing there or was made anew is added."""
    digest = await source.digest(local.name) or await _downloaded(source, local.name)
    if digest != local.digest:
        raise ReleaseTaken(f"release {local.name} in {source.repository.place}")
    if local.signature is None:
        return False
    there = signature_of(local.name, published)
    if there is not None and there.file == local.signature.stated:
        return False
    wanted = {local.signature.stated.name: local.signature}
    await DraftRelease(source.repository, published, wanted, report).add(local.signature)
    return True


async def _downloaded(source: GitHubSource, name: ReleaseName) -> str:
    """Digest a release of a GitHub that states none."""
    with tempfile.TemporaryDirectory(prefix="cluster-stacks-") as directory:
        await source.fetch(name, Path(directory))
        return (await asyncio.to_thread(survey, name, Path(directory))).digest


async def _draft(source: GitHubSource, local: _Local, report: Callable[[str], None]) -> DraftRelease:
    drafts: dict[str, int] = {}
    async for page in source.pages():
        drafts.update(page.drafts)
    number = drafts.get(local.name.release)
    if number is None:
        return await DraftRelease.create(source.repository, local.name, local.everything, report)
    return await DraftRelease.resume(source.repository, number, local.everything, report)
