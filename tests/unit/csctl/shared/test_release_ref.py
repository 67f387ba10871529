"""References to releases on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from clusterstacks.csctl.shared.release_ref import DIRECTORY_OR_REF, ReleaseRef

if TYPE_CHECKING:
    from pathlib import Path


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
