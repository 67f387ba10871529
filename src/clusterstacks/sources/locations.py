"""Where releases are, as a person writes it for ``csctl``.

========================================  ==================================================
``[oci://]host/repository[:release]``     a repository of an OCI registry
``github://owner/repository[:release]``   the releases of a GitHub repository
``http[s]://host/path[:release]``         a web server with an index
``directory[:release]``                   a directory that holds release directories
========================================  ==================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import InvalidName, parse_release
from clusterstacks.oci.credentials import find
from clusterstacks.oci.reference import SCHEME, Reference, looks_like_registry
from clusterstacks.oci.registry import Registry
from clusterstacks.oci.transfers import TransferProgress, silent
from clusterstacks.sources.directory import DirectorySource
from clusterstacks.sources.github.assets import GitHubSource
from clusterstacks.sources.github.rest_api import API
from clusterstacks.sources.http_index import HttpSource
from clusterstacks.sources.oci_repository import OCISource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.http.client import Web
    from clusterstacks.releases.release_source import ReleaseSource

_GITHUB = "github://"
_WEB = ("https://", "http://")


@dataclass(frozen=True, slots=True)
class RegistryLocation:
    """A repository of a registry."""

    reference: Reference
    release: ReleaseName | None = None


@dataclass(frozen=True, slots=True)
class GitHubLocation:
    """A repository of GitHub."""

    owner: str
    repository: str
    release: ReleaseName | None = None


@dataclass(frozen=True, slots=True)
class WebLocation:
    """A web server with an index."""

    url: str
    release: ReleaseName | None = None


@dataclass(frozen=True, slots=True)
class DirectoryLocation:
    """A directory of release directories."""

    path: Path
    release: ReleaseName | None = None


Location: TypeAlias = RegistryLocation | GitHubLocation | WebLocation | DirectoryLocation
"""Somewhere, and which release of what is there; None for all of them."""


class InvalidLocation(SpecError):
    """A text that says of no place where releases are."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__("InvalidLocation", f"{shown(text)} {problem}")


def parse_location(text: str) -> Location:
    """Read where releases are.

    Raises:
        SpecError: The text says of no such place, or the tag is no name of a release.
    """
    if text.startswith(_GITHUB):
        return _github(text)
    if text.startswith(_WEB):
        scheme, _, rest = text.partition("://")
        path, release = _split(rest)
        return WebLocation(f"{scheme}://{path}", release)
    if text.startswith(SCHEME) or ("://" not in text and _names_registry(text)):
        reference = Reference.parse(text)
        if reference.digest:
            raise InvalidLocation(text, "names a digest: name the release by its tag")
        return RegistryLocation(reference, parse_release(reference.tag) if reference.tag else None)
    if "://" in text or not text:
        raise InvalidLocation(text, "is no place of releases: write oci://, github:// or https:// before it, or a path")
    path, release = _split(text)
    return DirectoryLocation(Path(path), release)


async def open_source(
    location: Location,
    web: Web,
    environ: Mapping[str, str],
    *,
    plain_http: bool = False,
    progress: TransferProgress = silent,
) -> ReleaseSource:
    """Return the source a location means, with the credentials of who runs this program.

    Args:
        location: Where.
        web: What carries requests.
        environ: Names credentials: see :func:`~clusterstacks.oci.credentials.find`, and for GitHub
            ``GIT_ACCESS_TOKEN`` and ``GIT_API_URL``.
        plain_http: Whether a registry speaks plain HTTP.
        progress: Told how far the transfer of a large file is.

    Raises:
        SpecError: A file with credentials is broken.
        DependencyError: A credential helper fails.
    """
    match location:
        case RegistryLocation(reference):
            credentials = await find(reference, environ)
            return OCISource(Registry(web, reference, credentials, plain_http=plain_http, progress=progress))
        case GitHubLocation(owner, repository):
            token, api = environ.get("GIT_ACCESS_TOKEN", "").strip(), environ.get("GIT_API_URL") or API
            return GitHubSource(web, owner, repository, token=token, api=api)
        case WebLocation(url):
            return HttpSource(web, url)
        case DirectoryLocation(path):
            return DirectorySource(path)


def _github(text: str) -> GitHubLocation:
    path, release = _split(text.removeprefix(_GITHUB))
    owner, slash, repository = path.strip("/").partition("/")
    if not slash or not owner or "/" in repository:
        raise InvalidLocation(text, "names no GitHub repository: write github://<owner>/<repository>")
    return GitHubLocation(owner, repository, release)


def _names_registry(text: str) -> bool:
    host, slash, _ = text.partition("/")
    return bool(slash) and looks_like_registry(host)


def _split(text: str) -> tuple[str, ReleaseName | None]:
    """Take the release off the end; a colon before anything else belongs to the place."""
    place, colon, tag = text.rpartition(":")
    if not colon or not place:
        return text, None
    try:
        return place.rstrip("/") or "/", parse_release(tag)
    except InvalidName:
        if "/" in tag or tag.isdecimal():
            return text, None
        raise
