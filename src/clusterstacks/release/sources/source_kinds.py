"""The table of source kinds: OCI registries, GitHub, web servers and directories.

Every kind is one class here. It says how the kind is named in ``spec.source``, in flags, in environment variables and
on the command line of csctl, how a source is opened, and how csctl publishes to it. A new kind is a class and an entry
of :data:`KINDS` here, its model in :mod:`clusterstacks.model.kinds.source`, and a module that reads it. This
module is imported when the first source of the kind is opened, because the operator should start quickly.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import InvalidName, parse_release
from clusterstacks.net.oci.credentials import ANONYMOUS, RegistryCredentials, find_credentials
from clusterstacks.net.oci.reference import SCHEME, Reference, looks_like_registry
from clusterstacks.net.oci.transfers import silent
from clusterstacks.release.sources.directory import DirectorySource, publish_to_directory
from clusterstacks.release.sources.spec import Location, SourceAddress, SourceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.model.kinds.source import DirectoryPlace, GithubPlace, HttpPlace, OciPlace
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.oci.transfers import TransferProgress
    from clusterstacks.release.release_source import ReleaseSource
    from clusterstacks.release.sources.github.assets import GitHubSource
    from clusterstacks.release.sources.http_index import HttpSource
    from clusterstacks.release.sources.oci_repository import OCISource

_GITHUB = "github://"
_WEB = ("https://", "http://")


def _invalid_location(text: str, problem: str) -> SpecError:
    """Return the error for a text that is not a location of releases."""
    return SpecError("InvalidLocation", f"{shown(text)} {problem}")


class _Oci(SourceKind["OCISource"]):
    """A repository of an OCI registry; each release is a tag."""

    name = "oci"
    location_form = "HOST/REPOSITORY, or OCI_REGISTRY and OCI_REPOSITORY"
    csctl_form = "registry/repository"
    is_registry = True
    holds_images = True
    made_by_publishing = True

    def from_spec(self, place: OciPlace) -> SourceAddress:
        return SourceAddress(self, place.repository, plain_http=place.plain_http)

    def from_flags(self, location: str, environ: Mapping[str, str]) -> dict[str, object] | None:
        if not location and (reference := Reference.from_environ(environ)) is not None:
            location = reference.place
        return {"repository": location.removeprefix(SCHEME)} if location else None

    def from_text(self, text: str, environ: Mapping[str, str]) -> Location | None:
        host, slash, _ = text.partition("/")
        if not (text.startswith(SCHEME) or ("://" not in text and slash and looks_like_registry(host))):
            return None
        reference = Reference.parse(text)
        if reference.digest and not reference.tag:
            problem = f"has a digest without a release (expected {reference.place}:<release name>@{reference.digest})"
            raise _invalid_location(text, problem)
        address = SourceAddress(self, reference.place, digest=reference.digest)
        return Location(address, parse_release(reference.tag) if reference.tag else None)

    def allowlist_url(self, address: SourceAddress) -> str:
        return f"{'http' if address.plain_http else 'oci'}://{address.place}"

    def describe(self, address: SourceAddress) -> str:
        return f"oci://{address.place}"

    def open(
        self, address: SourceAddress, web: HTTPClient, credentials: RegistryCredentials, progress: TransferProgress
    ) -> OCISource:
        from clusterstacks.net.oci.registry import Registry  # noqa: PLC0415
        from clusterstacks.release.sources.oci_repository import OCISource  # noqa: PLC0415

        reference = Reference.parse(address.place)
        registry = Registry(web, reference, credentials, plain_http=address.plain_http, progress=progress)
        return OCISource(registry, address.digest)

    async def credentials(self, address: SourceAddress, environ: Mapping[str, str]) -> RegistryCredentials:
        return await find_credentials(Reference.parse(address.place), environ)

    def publish_address(self, environ: Mapping[str, str]) -> SourceAddress:
        reference = Reference.from_environ(environ)
        if reference is None:
            raise SpecError(
                "RemoteUnnamed",
                "no OCI repository is configured; set OCI_REGISTRY and OCI_REPOSITORY, or use --remote github, "
                "directory or none",
            )
        return SourceAddress(self, reference.place)

    async def publish(
        self, directory: Path, source: OCISource, environ: Mapping[str, str], report: Callable[[str], None]
    ) -> bool:
        # Only csctl publishes: the operator does not load this.
        from clusterstacks.release.sources.oci_publish import publish_with_signatures  # noqa: PLC0415

        published, _ = await publish_with_signatures(directory, source.registry, environ)
        return published.new


class _GitHub(SourceKind["GitHubSource"]):
    """The releases of a GitHub repository."""

    name = "github"
    location_form = "OWNER/REPOSITORY, or GIT_ORG_NAME and GIT_REPOSITORY_NAME"
    csctl_form = "github://owner/repository"
    reads_at_once = 1
    """GitHub asks its clients to send one request after the other."""

    def from_spec(self, place: GithubPlace) -> SourceAddress:
        return SourceAddress(self, f"{place.owner}/{place.repository}", api=place.url.rstrip("/"))

    def from_flags(self, location: str, environ: Mapping[str, str]) -> dict[str, object] | None:
        owner, slash, repository = (location or self._place(environ)).partition("/")
        if not (owner and slash and repository):
            return None
        return {"owner": owner, "repository": repository, "url": environ.get("GIT_API_URL", "")}

    def from_text(self, text: str, environ: Mapping[str, str]) -> Location | None:
        if not text.startswith(_GITHUB):
            return None
        path, release = _split(text.removeprefix(_GITHUB))
        owner, slash, repository = path.strip("/").partition("/")
        if not slash or not owner or "/" in repository:
            raise _invalid_location(text, "is not a GitHub repository (expected github://<owner>/<repository>)")
        return Location(self._address(f"{owner}/{repository}", environ), release)

    def allowlist_url(self, address: SourceAddress) -> str:
        api = urlsplit(address.api)
        root = f"{api.scheme}://{api.netloc}" if address.api else "https://github.com"
        return f"{root}/{address.place}"

    def describe(self, address: SourceAddress) -> str:
        return f"github://{address.place}" + (f" of {address.api}" if address.api else "")

    def open(
        self, address: SourceAddress, web: HTTPClient, credentials: RegistryCredentials, progress: TransferProgress
    ) -> GitHubSource:
        from clusterstacks.release.sources.github.assets import GitHubSource  # noqa: PLC0415
        from clusterstacks.release.sources.github.rest_api import API  # noqa: PLC0415

        owner, _, repository = address.place.partition("/")
        token = credentials.token or credentials.password
        return GitHubSource(web, owner, repository, token=token, api=address.api or API)

    async def credentials(self, address: SourceAddress, environ: Mapping[str, str]) -> RegistryCredentials:
        return RegistryCredentials(token=environ.get("GIT_ACCESS_TOKEN", "").strip())

    def checked(self, address: SourceAddress, stack: object) -> SourceAddress:
        if not address.api:
            return address
        from clusterstacks.release.sources.github.rest_api import completed_api  # noqa: PLC0415

        return replace(address, api=completed_api(address.api, stack))

    def publish_address(self, environ: Mapping[str, str]) -> SourceAddress:
        provider = environ.get("GIT_PROVIDER", "")
        if not provider:
            raise SpecError(
                "RemoteUnnamed",
                "no GitHub repository is configured; set GIT_PROVIDER=github, GIT_ORG_NAME and GIT_REPOSITORY_NAME, "
                "or use --remote oci, directory or none",
            )
        if provider != "github":
            raise SpecError("GitProviderUnknown", f"GIT_PROVIDER is {shown(provider)}; only github is supported")
        missing = [variable for variable in ("GIT_ORG_NAME", "GIT_REPOSITORY_NAME") if not environ.get(variable)]
        if missing:
            raise SpecError(
                "RepositoryUnnamed",
                f"the GitHub repository of the releases is not configured; set {' and '.join(missing)}",
            )
        return self._address(self._place(environ), environ)

    async def publish(
        self, directory: Path, source: GitHubSource, environ: Mapping[str, str], report: Callable[[str], None]
    ) -> bool:
        # Only csctl publishes: the operator does not load this.
        from clusterstacks.release.sources.github import publish as github_publish  # noqa: PLC0415

        return await github_publish.publish(directory, source, report)

    def _address(self, place: str, environ: Mapping[str, str]) -> SourceAddress:
        return SourceAddress(self, place, api=environ.get("GIT_API_URL", ""))

    def _place(self, environ: Mapping[str, str]) -> str:
        return f"{environ.get('GIT_ORG_NAME', '')}/{environ.get('GIT_REPOSITORY_NAME', '')}"


class _Http(SourceKind["HttpSource"]):
    """A web server with an index of releases."""

    name = "http"
    location_form = "URL"
    csctl_form = "https://host/path of a web server with an index"

    def from_spec(self, place: HttpPlace) -> SourceAddress:
        return SourceAddress(self, place.url.rstrip("/"))

    def from_flags(self, location: str, environ: Mapping[str, str]) -> dict[str, object] | None:
        return {"url": location} if location else None

    def from_text(self, text: str, environ: Mapping[str, str]) -> Location | None:
        if not text.startswith(_WEB):
            return None
        scheme, _, rest = text.partition("://")
        path, release = _split(rest)
        return Location(SourceAddress(self, f"{scheme}://{path}"), release)

    def allowlist_url(self, address: SourceAddress) -> str:
        return address.place

    def describe(self, address: SourceAddress) -> str:
        return address.place

    def open(
        self, address: SourceAddress, web: HTTPClient, credentials: RegistryCredentials, progress: TransferProgress
    ) -> HttpSource:
        from clusterstacks.release.sources.http_index import HttpSource  # noqa: PLC0415

        return HttpSource(web, address.place, authorization=_authorization(credentials))

    async def credentials(self, address: SourceAddress, environ: Mapping[str, str]) -> RegistryCredentials:
        return ANONYMOUS


class _Directory(SourceKind[DirectorySource]):
    """A directory that holds release directories."""

    name = "directory"
    location_form = "PATH, below --release-dir"
    csctl_form = "or a directory"
    interval = timedelta(seconds=5)
    """Arbitrary: listing a directory takes a fraction of a millisecond."""
    is_remote = False
    holds_images = True

    def from_spec(self, place: DirectoryPlace) -> SourceAddress:
        return SourceAddress(self, place.path)

    def from_flags(self, location: str, environ: Mapping[str, str]) -> dict[str, object]:
        return {"path": location}

    def from_text(self, text: str, environ: Mapping[str, str]) -> Location | None:
        if "://" in text or not text:
            return None
        path, release = _split(text)
        return Location(SourceAddress(self, str(Path(path))), release)

    def allowlist_url(self, address: SourceAddress) -> str:
        return address.place

    def describe(self, address: SourceAddress) -> str:
        if address.place.startswith("/"):
            return address.place
        return f"directory {address.place} below the release directory" if address.place else "the release directory"

    def open(
        self, address: SourceAddress, web: HTTPClient, credentials: RegistryCredentials, progress: TransferProgress
    ) -> DirectorySource:
        """Open a directory of this machine; the operator opens only those below its release directory."""
        return DirectorySource(Path(address.place))

    async def credentials(self, address: SourceAddress, environ: Mapping[str, str]) -> RegistryCredentials:
        return ANONYMOUS

    async def publish(
        self, directory: Path, source: DirectorySource, environ: Mapping[str, str], report: Callable[[str], None]
    ) -> bool:
        return await asyncio.to_thread(publish_to_directory, directory, source.path)


OCI: Final = _Oci()
GITHUB: Final = _GitHub()
HTTP: Final = _Http()
DIRECTORY: Final = _Directory()

KINDS: Final[Mapping[str, SourceKind[Any]]] = {kind.name: kind for kind in (OCI, GITHUB, HTTP, DIRECTORY)}
"""Every kind of source, by name."""

LOCATION_FORMS: Final = ", ".join(kind.csctl_form for kind in KINDS.values())
"""The forms of a location for csctl, as text; a colon and a release may follow each."""


def parse_location(text: str, environ: Mapping[str, str]) -> Location:
    """Read a location as it is written for csctl; ``GIT_API_URL`` names the API of a GitHub Enterprise Server.

    Raises:
        SpecError: The text is not a location of releases, or the tag is not the name of a release.
    """
    for kind in KINDS.values():
        if (location := kind.from_text(text, environ)) is not None:
            return location
    raise _invalid_location(text, f"is not a location of releases (expected {LOCATION_FORMS})")


async def open_location(
    address: SourceAddress,
    web: HTTPClient,
    environ: Mapping[str, str],
    *,
    plain_http: bool = False,
    progress: TransferProgress = silent,
) -> ReleaseSource:
    """Open a source with the credentials of the user who runs this program.

    ``environ`` holds or names the credentials: see :func:`~clusterstacks.net.oci.credentials.find_credentials`; for
    GitHub ``GIT_ACCESS_TOKEN``. ``progress`` is called as the transfer of a large file proceeds.

    Raises:
        SpecError: A file with credentials is not valid.
        DependencyError: A credential helper fails.
    """
    credentials = await address.kind.credentials(address, environ)
    source: ReleaseSource = address.kind.open(replace(address, plain_http=plain_http), web, credentials, progress)
    return source


def _split(text: str) -> tuple[str, ReleaseName | None]:
    """Split the release off the end; any other colon belongs to the place."""
    place, colon, tag = text.rpartition(":")
    if not colon or not place:
        return text, None
    try:
        return place.rstrip("/") or "/", parse_release(tag)
    except InvalidName:
        if "/" in tag or tag.isdecimal():
            return text, None
        raise


def _authorization(credentials: RegistryCredentials) -> str:
    if credentials.token:
        return f"Bearer {credentials.token}"
    return "" if credentials == ANONYMOUS else f"Basic {credentials.basic}"
