"""Documents of GitHub's REST API about releases.

Source: https://docs.github.com/en/rest/releases/releases
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.bounded_json import Undecodable, decode
from clusterstacks.net.http.errors import AnswerRefused
from clusterstacks.release.sources.downloads import DIGEST, ExpectedFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from clusterstacks.net.http.messages import HTTPDocument

MAX_PAGE_VALUES: Final = 300_000
"""Most JSON values of a page: 100 releases of 80 files each; a file with its uploader has some 35."""

_NEXT = re.compile(r"<[^>]*>[^,<]*;\s*rel=\"?next\b")


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of a GitHub release; ``number`` is its id in the API, ``complete`` whether its upload is finished."""

    number: int
    file: ExpectedFile
    complete: bool


@dataclass(frozen=True, slots=True)
class GitHubRelease:
    """A GitHub release; ``number`` is its id in the API, ``upload_url`` takes new assets."""

    number: int
    tag: str
    draft: bool
    upload_url: str
    assets: tuple[Asset, ...]


@dataclass(frozen=True, slots=True)
class ReleasePage:
    """One page of the list of releases: tags of the published ones, and ids of the drafts by tag.

    Drafts are visible only with a token that may publish.
    """

    tags: tuple[str, ...]
    drafts: Mapping[str, int]
    has_next: bool


def read_page(place: str, document: HTTPDocument) -> ReleasePage:
    """Parse a page; raises :class:`AnswerRefused` for any other document, as all readers here."""
    releases = _load(place, document)
    try:
        tags = tuple(_text(release["tag_name"]) for release in releases if not release["draft"])
        drafts = {_text(release["tag_name"]): _number(release["id"]) for release in releases if release["draft"]}
    except (KeyError, TypeError, ValueError):
        raise AnswerRefused(place, "sends an invalid list of releases") from None
    return ReleasePage(tags, drafts, bool(_NEXT.search(document.headers.get("Link", ""))))


def read_release(place: str, document: HTTPDocument) -> GitHubRelease:
    """Parse a release."""
    release = _load(place, document)
    try:
        return GitHubRelease(
            _number(release["id"]),
            _text(release["tag_name"]),
            bool(release["draft"]),
            _text(release["upload_url"]),
            tuple(_asset(asset) for asset in release["assets"]),
        )
    except (KeyError, TypeError, ValueError):
        raise AnswerRefused(place, "sends an invalid release") from None


def read_asset(place: str, document: HTTPDocument) -> Asset:
    """Parse the response to an upload."""
    try:
        return _asset(_load(place, document))
    except (KeyError, TypeError, ValueError):
        raise AnswerRefused(place, "sends an invalid asset") from None


def _asset(asset: Mapping[str, Any]) -> Asset:
    digest = asset.get("digest")  # null on assets from before June 2025; absent on older Enterprise Servers
    stated = digest if isinstance(digest, str) and DIGEST.fullmatch(digest) else ""
    file = ExpectedFile(_text(asset["name"]), stated, _number(asset["size"]))
    return Asset(_number(asset["id"]), file, asset["state"] == "uploaded")


def _load(place: str, document: HTTPDocument) -> Any:  # noqa: ANN401 - JSON; the caller checks the types
    try:
        return decode(document.body, max_values=MAX_PAGE_VALUES)
    except Undecodable as error:
        raise AnswerRefused(place, f"sends a document that {error}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise TypeError
    return value
