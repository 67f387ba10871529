from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.previous_release import Remote
from clusterstacks.csctl.building.release_builder import ReleaseBuilder
from clusterstacks.csctl.building.version_inputs import CustomVersions, VersionChooser
from clusterstacks.csctl.building.version_rules import Mode, NothingChanged
from clusterstacks.model.versions import StackVersion
from clusterstacks.net.http.errors import NotThere
from clusterstacks.release.errors import ReleaseBroken
from clusterstacks.release.sources.directory import DirectorySource
from tests.support.builders.stack_directories import copied, first_stack, versions

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.csctl.building.version_inputs import VersionChoice
    from clusterstacks.model.files.metadata import Metadata


class Author:
    """Edits the stack ``staged``, whose metadata.yaml has v3, v2, v1, builds it and publishes it to a directory."""

    def __init__(self, root: Path, *, metadata: bool = True) -> None:
        self.stack = copied("staged", root)
        self.built = root / "built"
        self.published = root / "published"
        self.published.mkdir()
        if not metadata:
            (self.stack / "metadata.yaml").unlink()

    def edit(self, path: str, text: str = "x: 1\n") -> None:
        file = self.stack / path
        file.parent.mkdir(exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + text)

    async def choose(self, mode: Mode = Mode.STABLE, *, remote: bool = True) -> VersionChoice:
        return await VersionChooser(mode, self.remote if remote else None, self.built).choose(first_stack(self.stack))

    async def publish(self, metadata: Metadata) -> None:
        await ReleaseBuilder(into=self.published).build(first_stack(self.stack), metadata)

    async def build(self, metadata: Metadata, *, writes_metadata: bool = False) -> None:
        await ReleaseBuilder(into=self.built, writes_metadata=writes_metadata).build(first_stack(self.stack), metadata)

    @property
    def remote(self) -> Remote:
        return Remote("the directory", DirectorySource(self.published))


def after(choice: VersionChoice) -> list[str]:
    return [move.after for move in choice.release.changes]


async def test_newest_release_of_the_remote_is_the_base(tmp_path: Path) -> None:
    author = Author(tmp_path, metadata=False)
    await author.publish(versions("v9", "v1"))
    await author.publish(versions("v10", "v4"))
    author.edit("cluster-addon/network/values.yaml")

    choice = await author.choose()

    assert (after(choice), choice.previous) == (["v11", "v5", "v1"], "local-staged-1-34-v10")
    assert choice.release.changes[1].reason == "cluster-addon/network/values.yaml changed"


async def test_empty_remote_gives_v1_with_a_note_about_metadata_yaml(tmp_path: Path) -> None:
    choice = await Author(tmp_path).choose()

    assert after(choice) == ["v1", "v1", "v1"]
    assert choice.notes == ("metadata.yaml has v3, but nothing is released yet: the remote takes precedence",)


async def test_different_metadata_yaml_is_noted(tmp_path: Path) -> None:
    author = Author(tmp_path)
    await author.publish(versions("v2", "v2", "v1"))
    author.edit("cluster-class/values.yaml")

    choice = await author.choose()

    assert after(choice) == ["v3", "v2", "v1"]
    assert choice.notes == (
        "metadata.yaml has clusterStack v3 instead of v2 of local-staged-1-34-v2: the remote takes precedence",
    )


async def test_metadata_yaml_is_the_base_without_a_remote(tmp_path: Path) -> None:
    choice = await Author(tmp_path).choose(remote=False)

    assert after(choice) == ["v4", "v3", "v1"]
    assert choice.release.changes[0].reason == "Kubernetes v1.34.1 -> v1.34.2"
    assert choice.release.changes[1].reason.startswith("local-staged-1-34-v3 has no hash of cluster-addon/")


async def test_earlier_build_is_compared_without_a_remote(tmp_path: Path) -> None:
    author = Author(tmp_path)
    await author.build(versions("v4", "v3", "v1"), writes_metadata=True)
    with pytest.raises(NothingChanged, match="local-staged-1-34-v4"):
        await author.choose(remote=False)

    author.edit("cluster-class/values.yaml")
    choice = await author.choose(remote=False)

    assert after(choice) == ["v5", "v3", "v1"]
    assert choice.release.changes[0].reason == "cluster-class/values.yaml changed"


async def test_first_release_without_remote_and_metadata_yaml(tmp_path: Path) -> None:
    assert after(await Author(tmp_path, metadata=False).choose(remote=False)) == ["v1", "v1", "v1"]


async def test_beta_follows_the_newest_beta(tmp_path: Path) -> None:
    author = Author(tmp_path, metadata=False)
    assert after(await author.choose(Mode.BETA)) == ["v0-beta.1"] * 3
    await author.publish(versions("v3", "v3", "v3"))
    await author.publish(versions(*["v4-beta.9"] * 3))
    await author.publish(versions(*["v4-beta.10"] * 3))

    with pytest.raises(NothingChanged, match="local-staged-1-34-v4-beta-10"):
        await author.choose(Mode.BETA)
    author.edit("clusteraddon.yaml", "# other\n")
    choice = await author.choose(Mode.BETA)

    assert (after(choice), choice.previous) == (["v4-beta.11"] * 3, "local-staged-1-34-v4-beta-10")


async def test_betas_without_a_remote_count_metadata_yaml_and_builds(tmp_path: Path) -> None:
    author = Author(tmp_path)
    assert after(await author.choose(Mode.BETA, remote=False)) == ["v4-beta.1"] * 3
    await author.build(versions(*["v4-beta.1"] * 3))
    author.edit("cluster-class/values.yaml")

    assert after(await author.choose(Mode.BETA, remote=False)) == ["v4-beta.2"] * 3


async def test_foreign_names_are_counted_once_for_all_stacks(tmp_path: Path) -> None:
    author = Author(tmp_path, metadata=False)
    for name in ("latest", "v1", "Some-Thing"):
        (author.published / name).mkdir()
    chooser = VersionChooser(Mode.STABLE, author.remote, author.built)
    stack = first_stack(author.stack)

    assert (await chooser.choose(stack)).notes == ("3 names in the directory skipped: not a release name",)
    assert (await chooser.choose(stack)).notes == ()


async def test_only_a_repository_created_by_publishing_may_be_missing(tmp_path: Path) -> None:
    class Missing(DirectorySource):
        async def list(self) -> tuple[str, ...]:
            raise NotThere("registry.example.com/stacks")

    stack = first_stack(Author(tmp_path, metadata=False).stack)

    made = Remote("the registry", Missing(tmp_path), made_by_publishing=True)
    assert after(await VersionChooser(Mode.STABLE, made, tmp_path).choose(stack)) == ["v1"] * 3
    with pytest.raises(NotThere):
        await VersionChooser(Mode.STABLE, Remote("GitHub", Missing(tmp_path)), tmp_path).choose(stack)


async def test_invalid_newest_release_is_named_in_the_error(tmp_path: Path) -> None:
    author = Author(tmp_path, metadata=False)
    (author.published / "local-staged-1-34-v7").mkdir()

    with pytest.raises(ReleaseBroken, match=r"local-staged-1-34-v7: metadata.yaml is missing"):
        await author.choose()


async def test_hash_and_custom_modes_read_no_remote(tmp_path: Path) -> None:
    stack = first_stack(copied("single", tmp_path))
    given = CustomVersions(StackVersion(9), StackVersion(8), StackVersion(0, "foo", "3"))

    assert after(await VersionChooser(Mode.HASH, None, tmp_path).choose(stack)) == [f"v0-sha.{stack.hashes.short}"] * 3
    assert after(await VersionChooser(Mode.CUSTOM, None, tmp_path, given).choose(stack)) == ["v9", "v8", "v0-foo.3"]


async def test_custom_mode_keeps_the_version_of_the_class(tmp_path: Path) -> None:
    author = Author(tmp_path)
    author.edit("metadata.yaml", "    clusterClass: v7\n")
    given = CustomVersions(StackVersion(9), StackVersion(8), StackVersion(3))

    for wanted, kept in ((given, "v7"), (replace(given, cluster_class=StackVersion(2)), "v2")):
        chosen = await VersionChooser(Mode.CUSTOM, None, tmp_path, wanted).choose(first_stack(author.stack))
        assert after(chosen) == ["v9", "v8", "v3", kept]
    await author.build(chosen.release.metadata)

    (hashes,) = author.built.glob("*/hashes.json")
    assert "clusterClassDir" in hashes.read_text()


async def test_first_release_notes_that_earlier_builds_do_not_count(tmp_path: Path) -> None:
    author = Author(tmp_path, metadata=False)
    assert (await author.choose(remote=False)).notes == ()

    await author.build(versions("v1", "v1"))

    assert "--write-metadata creates this file" in (await author.choose(remote=False)).notes[0]
