"""References to releases on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click
import pytest

from clusterstacks.cli.shared.release_ref import DIRECTORY_OR_REF, ReleaseRef, ReleaseSelection
from clusterstacks.domain.errors import ClusterStacksError

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.oci.registry import Registry

REPOSITORY = "registry.example.org/kaas/stacks"
NAME = "local-shop-1-35-v1"
DIGEST = f"sha256:{'a' * 64}"


def read(text: object) -> Path | ReleaseRef:
    return DIRECTORY_OR_REF.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "place", "digest"),
    [
        (f"{REPOSITORY}:{NAME}", REPOSITORY, ""),
        (f"oci://{REPOSITORY}:{NAME}", REPOSITORY, ""),
        (f"{REPOSITORY}:{NAME}@{DIGEST}", REPOSITORY, DIGEST),
        (f"github://example-org/cluster-stacks:{NAME}", "example-org/cluster-stacks", ""),
        (f"https://releases.example.org/stacks:{NAME}", "https://releases.example.org/stacks", ""),
        (f"releases:{NAME}", "releases", ""),
    ],
)
def test_every_kind_of_source_names_a_release(text: str, place: str, digest: str) -> None:
    found = read(text)

    assert isinstance(found, ReleaseRef)
    assert (found.address.place, found.name.release, found.address.digest, str(found)) == (place, NAME, digest, text)


def test_existing_directory_has_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{REPOSITORY}:{NAME}").mkdir(parents=True)

    assert str(read(f"{REPOSITORY}:{NAME}")) == f"{REPOSITORY}:{NAME}"
    assert not isinstance(read(f"{REPOSITORY}:{NAME}"), ReleaseRef)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".release/local-shop-1-35-v1", r"\.release/local-shop-1-35-v1 does not exist \(expected a directory, or a re"),
        ("file", r"file is a file \(expected a directory"),
        (REPOSITORY, rf"{REPOSITORY} has no release name \(expected {REPOSITORY}:<release name>\): .*list.*; if it is"),
        ("https://x.example/y", r"https://x\.example/y has no release name .*shows the releases$"),
        (f"{REPOSITORY}:latest", r"latest.* is not .*release"),
        (f"{REPOSITORY}@{DIGEST}", rf"has a digest without a release \(expected {REPOSITORY}:<release name>@sha256:a"),
        (f"{REPOSITORY}:{NAME}@sha256:abc", "is not a valid digest"),
    ],
)
def test_mistyped_path_and_incomplete_reference_have_errors_of_their_own(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()

    with pytest.raises(click.BadParameter, match=message):
        read(text)


class Tags:
    """A registry that only lists."""

    async def tags(self) -> tuple[str, ...]:
        return ("latest", "local-shop-1-35-v10", "local-shop-1-35-v2", "local-shop-1-36-v1", "sha256-aa.sig")


@pytest.mark.parametrize(
    ("text", "every", "names"),
    [
        (f"{REPOSITORY}:{NAME}", False, [NAME]),
        (f"{REPOSITORY}:{NAME}@{DIGEST}", False, [NAME]),
        (f"{REPOSITORY}:local-shop-1-35-*", False, ["local-shop-1-35-v2", "local-shop-1-35-v10"]),
        (f"{REPOSITORY}:*-v[12]", False, ["local-shop-1-35-v2", "local-shop-1-36-v1"]),
        (REPOSITORY, True, ["local-shop-1-35-v2", "local-shop-1-35-v10", "local-shop-1-36-v1"]),
        ("localhost:5000/stacks", True, ["local-shop-1-35-v2", "local-shop-1-35-v10", "local-shop-1-36-v1"]),
    ],
)
async def test_name_pattern_and_all_select_releases_in_order(text: str, names: list[str], *, every: bool) -> None:
    chosen = ReleaseSelection.parse(text, every=every)

    assert [one.release for one in await chosen.releases(cast("Registry", Tags()))] == names


@pytest.mark.parametrize(
    ("text", "every", "message"),
    [
        (REPOSITORY, False, "the release is missing"),
        (f"{REPOSITORY}:{NAME}", True, "--all cannot be combined"),
        (f"{REPOSITORY}:latest", False, "is not .*release"),
        ("stacks:v*", False, "is not a valid reference"),
        (f"{REPOSITORY}:none-*", False, "has no release with a name like none-\\*: 'csctl list"),
    ],
)
async def test_selection_without_a_release_is_refused(text: str, message: str, *, every: bool) -> None:
    with pytest.raises((click.UsageError, ClusterStacksError), match=message):
        await ReleaseSelection.parse(text, every=every).releases(cast("Registry", Tags()))
