"""What ``csctl copy`` reads on its command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.verbs.copy import CopyPlace, selected
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.net.oci.reference import Reference
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from clusterstacks.net.oci.registry import Registry

REPOSITORY = "registry.example.org/kaas/stacks"
NAME = "local-shop-1-35-v1"
DIGEST = f"sha256:{'a' * 64}"
ALL = ["local-shop-1-35-v2", "local-shop-1-35-v10", "local-shop-1-36-v1"]


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
        (REPOSITORY, True, ALL),
        ("localhost:5000/stacks", True, ALL),
        ("oci-layout:disk", True, ALL),
        ("oci-layout:disk:*-v[12]", False, ["local-shop-1-35-v2", "local-shop-1-36-v1"]),
        (f"oci-layout:disk:{NAME}@{DIGEST}", False, [NAME]),
    ],
)
async def test_name_pattern_and_all_select_releases_in_order(text: str, names: list[str], *, every: bool) -> None:
    chosen = selected(CopyPlace.parse(text), every=every)

    assert [one.release for one in await chosen.releases(cast("Registry", Tags()))] == names


@pytest.mark.parametrize(
    ("text", "every", "message"),
    [
        (REPOSITORY, False, "the release is missing"),
        ("oci-layout:disk", False, "the release is missing"),
        (f"{REPOSITORY}:{NAME}", True, "--all cannot be combined"),
        (f"{REPOSITORY}:latest", False, "is not .*release"),
        ("stacks:v*", False, "is not a valid reference"),
        ("oci-layout:", False, "is not a valid reference"),
        (f"{REPOSITORY}:none-*", False, r"no release with a name like none-\*; its tags: latest, .* sha256-aa.sig"),
        ("oci-layout:disk:none-*", False, r"oci-layout:disk has no release with a name like none-\*"),
    ],
)
async def test_selection_without_a_release_is_refused(text: str, message: str, *, every: bool) -> None:
    with pytest.raises((click.UsageError, ClusterStacksError), match=message):
        await selected(CopyPlace.parse(text), every=every).releases(cast("Registry", Tags()))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("oci-layout:disk", CopyPlace(Path("disk"), "", "")),
        ("oci-layout:/media/usb/x:y/disk", CopyPlace(Path("/media/usb/x:y/disk"), "", "")),
        (f"oci-layout:../a b@c:{NAME}", CopyPlace(Path("../a b@c"), NAME, "")),
        (f"oci-layout:disk@{DIGEST}", CopyPlace(Path("disk"), "", DIGEST)),
        (f"oci://{REPOSITORY}:{NAME}@{DIGEST}", CopyPlace(Reference.parse(REPOSITORY), NAME, DIGEST)),
    ],
)
def test_place_is_a_repository_or_a_directory(text: str, place: CopyPlace) -> None:
    assert CopyPlace.parse(text) == place


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((f"oci-layout:a:{NAME}", "oci-layout:b"), "both are directories"),
        ((f"{REPOSITORY}:{NAME}", f"oci-layout:b@{DIGEST}"), "expected a target without a digest"),
        ((f"{REPOSITORY}:{NAME}", "oci-layout:b:local-shop-1-35-v2"), "the tag of a release is its name"),
        ((f"oci-layout:missing:{NAME}", REPOSITORY), "missing is not a directory in OCI image layout"),
    ],
)
def test_contradicting_arguments_are_refused_before_anything_is_written(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    assert call_csctl("copy", *arguments) == output.MUST_CHANGE
    assert message in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
