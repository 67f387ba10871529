"""Stacks and releases as the operator renders them, and their differences."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.authoring.example_objects import make_example_objects, read_example_objects
from clusterstacks.csctl.authoring.open_directory import open_as_release
from clusterstacks.csctl.authoring.release_diff import compare, diff_document, diff_lines
from clusterstacks.csctl.authoring.render_release import RenderedRelease, render_release
from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.model.errors import SpecError
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.release.charts.vendor import ChartDependencies
from tests.support.builders.tiny_stack import DEPLOYMENT, IMAGE, SETTINGS, tiny, write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.csctl.authoring.release_diff import ReleaseDiff
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.versions import KubernetesMinor

pytestmark = pytest.mark.asyncio(loop_scope="module")

NET = "cluster-addon/net/templates/deployment.yaml"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\nstringData:\n  key: {}\n"


async def newest(minor: KubernetesMinor) -> KubernetesVersion:
    return KubernetesVersion(minor.major, minor.minor, 9)


def built(source: Path, into: Path, version: str = "v1") -> Path:
    name = build_release(source, into, cluster_stack=version, cluster_addon=version, node_image="v1")
    return into / name.release


@asynccontextmanager
async def side(directory: Path, renderer: Renderer) -> AsyncIterator[RenderedRelease]:
    async with open_as_release(directory, newest) as release:
        yield await render_release(release, renderer)


async def difference(before: Path, after: Path, renderer: Renderer) -> ReleaseDiff:
    async with side(before, renderer) as one, side(after, renderer) as other:
        return compare(one, other)


class TestOpening:
    async def test_stack_and_its_release_render_equally(self, tmp_path: Path, renderer: Renderer) -> None:
        source = write(tmp_path / "stack", tiny())
        release = built(source, tmp_path / "releases")
        found = await difference(source, release, renderer)

        assert (found.values, found.objects) == ((), ())
        assert {change.place for change in found.versions} == {"clusterStack", "clusterAddon", "nodeImage"}

    async def test_temporary_build_of_a_stack_is_deleted(self, tmp_path: Path) -> None:
        async with open_as_release(write(tmp_path / "stack", tiny()), newest) as release:
            root = release.contents.root
            assert root.is_dir()

        assert not root.exists()

    async def test_stack_without_a_patch_version_uses_the_newest_patch(self, tmp_path: Path) -> None:
        text = 'provider: test\nclusterStackName: tiny\nkubernetesVersion: "1.35"\n'
        source = write(tmp_path / "stack", tiny({"csctl.yaml": None, "stack.yaml": text}))
        async with open_as_release(source, newest) as release:
            assert release.metadata.kubernetes.text == "v1.35.9"

    async def test_stack_for_several_minors_requires_a_selection(self, tmp_path: Path) -> None:
        both: dict[str, str | None] = {"versions.yaml": "- kubernetes: 1.34.2\n- kubernetes: 1.35.4\n"}
        async with open_as_release(write(tmp_path / "named", tiny(both)), newest) as release:
            assert release.name.series == "test-tiny-1-35"
        unnamed = {"csctl.yaml": None, "stack.yaml": "provider: test\nclusterStackName: tiny\n"}
        source = write(tmp_path / "stack", tiny({**both, **unnamed}))
        with pytest.raises(SpecError, match=r"1\.34, 1\.35: choose one with --kubernetes"):
            async with open_as_release(source, newest):
                pass
        async with open_as_release(source, newest, kubernetes="1-34") as release:
            assert release.name.series == "test-tiny-1-34"

    async def test_missing_dependencies_of_a_release_are_added_as_in_the_operator(self, tmp_path: Path) -> None:
        needy = "apiVersion: v2\nname: net\nversion: 1.0.0\ndependencies:\n  - {name: a, version: 1.0.0, repository: 'https://a.example'}\n"
        source = write(tmp_path / "stack", tiny({"cluster-addon/net/Chart.yaml": needy}))
        release = built(source, tmp_path / "releases")
        async with open_as_release(release, newest) as left:
            assert list(left.lacking) == ["cluster-addon/net"]
        async with HTTPClient() as web:
            dependencies = ChartDependencies(web, None, offline=True)
            with pytest.raises(SpecError, match=r"https://a\.example"):
                async with open_as_release(release, newest, dependencies=dependencies):
                    pass


class TestRendering:
    async def test_values_equal_those_of_the_operator(self, tmp_path: Path, renderer: Renderer) -> None:
        async with side(write(tmp_path / "stack", tiny()), renderer) as one:
            assert one.addons["net"].values.strip() == "cluster: sample"
            (deployment,) = one.addons["net"].objects
            assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == ["--cluster=sample"]
            assert one.images == (IMAGE,)

    async def test_example_objects_can_be_read_back_from_a_file(self, tmp_path: Path, renderer: Renderer) -> None:
        async with side(write(tmp_path / "stack", tiny()), renderer) as one:
            sample = make_example_objects(one.release.name, one.release.metadata.kubernetes, one.class_objects)

        assert read_example_objects(sample.text().encode(), "sample.yaml") == sample
        assert sample.cluster["spec"]["topology"]["variables"] == [{"name": "size", "value": "small"}]
        assert sample.infrastructure["kind"] == "TinyCluster"
        assert sample.infrastructure["spec"]["flavour"] == "plain"

    async def test_unknown_addon_is_rejected_with_the_known_names(self, tmp_path: Path, renderer: Renderer) -> None:
        async with open_as_release(write(tmp_path / "stack", tiny()), newest) as release:
            with pytest.raises(SpecError, match=r"has no addon dns \(its addons: net\)"):
                await render_release(release, renderer, only=["dns"])


class TestComparing:
    async def test_release_has_no_difference_to_itself(self, tmp_path: Path, renderer: Renderer) -> None:
        release = built(write(tmp_path / "stack", tiny()), tmp_path / "releases")

        assert (await difference(release, release, renderer)).empty

    async def test_changed_class_name_is_not_a_change_of_its_objects(self, tmp_path: Path, renderer: Renderer) -> None:
        source = write(tmp_path / "stack", tiny())
        found = await difference(
            built(source, tmp_path / "releases"), built(source, tmp_path / "releases", "v2"), renderer
        )

        assert found.objects == ()
        assert [(one.before, one.after) for one in found.versions if one.place == "clusterStack"] == [("v1", "v2")]

    async def test_changed_fields_are_named_with_their_path(self, tmp_path: Path, renderer: Renderer) -> None:
        changes = {NET: DEPLOYMENT.replace("spec:\n", "spec:\n  replicas: 3\n", 1).replace("--cluster", "--name")}
        one, other = write(tmp_path / "one", tiny()), write(tmp_path / "other", tiny(changes))
        found = await difference(one, other, renderer)

        (changed,) = found.objects
        assert (changed.part, changed.identity, changed.kind) == ("addon net", "Deployment.apps net", "changed")
        assert [(field.place, field.before, field.after) for field in changed.fields] == [
            ("spec.template.spec.containers[0].args[0]", "--cluster=sample", "--name=sample"),
            ("spec.replicas", None, 3),
        ]
        assert "+  replicas: 3" in list(diff_lines(found))
        assert f" {NET} changed" in list(diff_lines(found))

    async def test_added_and_removed_objects_files_and_values_are_listed(
        self, tmp_path: Path, renderer: Renderer
    ) -> None:
        more = {
            "cluster-addon/net/templates/secret.yaml": SECRET.format("a"),
            "cluster-addon/net/overwrite.yaml": "cluster: other\n",
        }
        one, other = write(tmp_path / "one", tiny()), write(tmp_path / "other", tiny(more))
        there, back = await difference(one, other, renderer), await difference(other, one, renderer)

        assert [(change.identity, change.kind) for change in there.objects if change.kind != "changed"] == [
            ("Secret key", "added")
        ]
        assert [(change.identity, change.kind) for change in back.objects if change.kind != "changed"] == [
            ("Secret key", "removed")
        ]
        assert "+cluster-addon/net/templates/secret.yaml" in list(diff_lines(there))
        assert {"# values of addon net", "+cluster: other", "-cluster: sample"} <= set(diff_lines(there))

    async def test_changed_secret_is_listed_without_its_data(self, tmp_path: Path, renderer: Renderer) -> None:
        secret = "cluster-addon/net/templates/secret.yaml"
        one = write(tmp_path / "one", tiny({secret: SECRET.format("hunter2")}))
        other = write(tmp_path / "other", tiny({secret: SECRET.format("hunter3")}))
        found = await difference(one, other, renderer)

        assert [field.place for change in found.objects for field in change.fields] == ["stringData.key"]
        assert "hunter" not in f"{diff_document(found)} {list(diff_lines(found))}"

    async def test_changed_kubernetes_version_is_a_difference(self, tmp_path: Path, renderer: Renderer) -> None:
        newer = {"csctl.yaml": SETTINGS.replace("1.35.4", "1.35.5")}
        one, other = write(tmp_path / "one", tiny()), write(tmp_path / "other", tiny(newer))
        found = await difference(one, other, renderer)

        assert " kubernetes v1.35.4 -> v1.35.5" in list(diff_lines(found))
        assert diff_document(found)["versions"][-2] == {"place": "kubernetes", "before": "v1.35.4", "after": "v1.35.5"}
