"""D61: a release is accepted as it was signed, or rejected."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.names import parse_release
from clusterstacks.release.contents import read_contents
from clusterstacks.release.signing.errors import SignatureRequired
from clusterstacks.release.signing.verifier import enforce, verify
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.signature_store import sign_beside, signature_file
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.builders.signatures import ecdsa_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.regression("D61")

KEY = ecdsa_key("release.pub")
LATER = parse_release("local-tiny-1-35-v3")


def replace_a_chart(releases: Path) -> None:
    (releases / STAGED.release / "local-tiny-1-35-cluster-addon-v1.tgz").write_bytes(b"another chart")


def add_a_file(releases: Path) -> None:
    (releases / STAGED.release / "csctl.yaml").write_bytes(b"")


def leave_a_file_out(releases: Path) -> None:
    (releases / STAGED.release / "hashes.json").unlink()


def take_the_signature_away(releases: Path) -> None:
    (releases / f"{STAGED}.dsse.json").unlink()


async def look(releases: Path, into: Path, name: object = STAGED) -> str:
    """Fetch a release and its signatures as the operator does."""
    release = parse_release(str(name))
    source = DirectorySource(releases)
    await source.fetch(release, into)
    return enforce(
        release, verify(release, read_contents(release, into).files, await source.evidence(release), [KEY.public])
    )


@pytest.fixture
async def releases(tmp_path: Path) -> Path:
    contents = read_contents(STAGED, write_release(tmp_path / "releases" / STAGED.release, staged_release()))
    await sign_beside(contents, KEY)
    assert signature_file(contents).exists()
    return contents.root.parent


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "into"
    directory.mkdir()
    return directory


@pytest.mark.regression("D61")
async def test_signed_release_is_accepted(releases: Path, into: Path) -> None:
    assert await look(releases, into) == ""


@pytest.mark.regression("D61")
@pytest.mark.parametrize("attack", [replace_a_chart, add_a_file, leave_a_file_out, take_the_signature_away])
async def test_release_changed_after_signing_is_rejected(
    releases: Path, into: Path, attack: Callable[[Path], None]
) -> None:
    attack(releases)

    with pytest.raises(SignatureRequired):
        await look(releases, into)


@pytest.mark.regression("D61")
async def test_old_release_under_a_new_name_is_rejected(releases: Path, into: Path) -> None:
    shutil.copytree(releases / STAGED.release, releases / LATER.release)
    shutil.copy(releases / f"{STAGED}.dsse.json", releases / f"{LATER}.dsse.json")

    with pytest.raises(SignatureRequired, match="it is for release 'local-tiny-1-35-v2', not for local-tiny-1-35-v3"):
        await look(releases, into, LATER)
