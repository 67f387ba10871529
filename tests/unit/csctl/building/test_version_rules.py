from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.csctl.building.version_rules import (
    NextRelease,
    NothingChanged,
    PreviousRelease,
    StackSource,
    beta_release,
    custom_release,
    differences,
    hash_release,
    next_stable,
    stable_release,
)
from clusterstacks.model.files.hashes import Hashes
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.names import parse_release
from clusterstacks.model.versions import STABLE, KubernetesVersion, StackVersion
from clusterstacks.release.published_releases import BETA, PublishedReleases, beta_line, read_listing
from tests.support.builders.stack_directories import versions

NAME = parse_release("local-tiny-1-34-v3")
HASHES = Hashes("stack", "addons", "values", "image", "images")
SOURCE = StackSource(KubernetesVersion.parse("v1.34.2"), HASHES)
BEFORE = PreviousRelease(NAME, versions("v3", "v2", "v1"), HASHES)


def texts(release: NextRelease) -> list[str]:
    return [f"{move.component} {move.before} -> {move.after}: {move.reason}" for move in release.changes]


def changed(**hashes: str) -> StackSource:
    return replace(SOURCE, hashes=replace(HASHES, cluster_stack="other", **hashes))


def listing(*dots: str) -> PublishedReleases:
    return PublishedReleases(tuple(sorted(StackVersion.parse(dot) for dot in dots)), 0)


def test_the_first_release_is_v1_everywhere() -> None:
    assert stable_release(SOURCE, None).metadata == versions("v1", "v1", "v1")


def test_unchanged_source_gives_no_release() -> None:
    with pytest.raises(NothingChanged, match="nothing changed since local-tiny-1-34-v3"):
        stable_release(SOURCE, BEFORE)


CHANGES = {
    "class": ({}, ("cluster-class/values.yaml",), ("v4", "v2", "v1")),
    "an addon": ({"cluster_addon_dir": "x"}, ("cluster-addon/cni/values.yaml",), ("v4", "v3", "v1")),
    "the values": ({"cluster_addon_values": "x"}, ("cluster-addon-values.yaml",), ("v4", "v3", "v1")),
    "a version in versions.yaml": ({"cluster_addon_pinned": "x"}, (), ("v4", "v3", "v1")),
    "node-image/": ({"node_image_dir": "x"}, (), ("v4", "v2", "v2")),
    "node-images/": ({"node_images_dir": "x"}, (), ("v4", "v2", "v2")),
    "all": ({"cluster_addon_dir": "x", "node_image_dir": "y"}, (), ("v4", "v3", "v2")),
}


@pytest.mark.parametrize("case", CHANGES)
def test_only_changed_components_get_a_new_version(case: str) -> None:
    hashes, files, after = CHANGES[case]

    release = stable_release(changed(**hashes), replace(BEFORE, changed=files))

    assert tuple(move.after for move in release.changes) == after
    assert all(move.reason for move in release.changes)
    assert release.metadata == versions(*after)


def test_reason_names_the_changed_files() -> None:
    before = replace(BEFORE, changed=("cluster-addon/cni/values.yaml", "cluster-class/templates/a.yaml"))

    assert texts(stable_release(changed(cluster_addon_dir="x"), before)) == [
        "clusterStack v3 -> v4: cluster-addon/cni/values.yaml, cluster-class/templates/a.yaml changed",
        "clusterAddon v2 -> v3: cluster-addon/cni/values.yaml changed",
        "nodeImage v1 -> v1: unchanged",
    ]


def test_reason_names_the_directory_without_known_files() -> None:
    assert texts(stable_release(changed(cluster_addon_dir="x", node_images_dir="y"), BEFORE)) == [
        "clusterStack v3 -> v4: node-images/ changed",
        "clusterAddon v2 -> v3: cluster-addon/ changed",
        "nodeImage v1 -> v2: node-images/ changed",
    ]


def test_reason_counts_further_files() -> None:
    before = replace(BEFORE, changed=tuple(f"cluster-class/{number}" for number in range(5)))

    assert "cluster-class/2 and 2 more changed" in stable_release(changed(), before).changes[0].reason


def test_new_kubernetes_patch_is_a_change() -> None:
    source = replace(SOURCE, kubernetes=KubernetesVersion.parse("v1.34.3"))

    release = stable_release(source, BEFORE)

    assert release.changes[0].reason == "Kubernetes v1.34.2 -> v1.34.3"
    assert release.metadata == versions("v4", "v2", "v1", "v1.34.3")


def test_unknown_difference_counts_as_a_change() -> None:
    release = stable_release(SOURCE, replace(BEFORE, hashes=Hashes(cluster_stack="9fceb02d0ae598e95dc970b74767f193")))

    assert release.metadata == versions("v4", "v3", "v2")
    assert "local-tiny-1-34-v3 has no hash of cluster-addon/" in release.changes[1].reason


def test_release_without_hashes_is_named_in_the_reason() -> None:
    release = stable_release(StackSource(SOURCE.kubernetes, Hashes("stack")), replace(BEFORE, hashes=Hashes()))

    assert release.changes[0].reason == "local-tiny-1-34-v3 has no hash of its source"


@pytest.mark.parametrize(
    ("before", "written", "hashed", "after"),
    [
        (None, None, "new", None),
        (None, "v2", "new", "v3"),
        ("v4", None, "new", "v5"),
        ("v4", "v9", "class", "v4"),
    ],
)
def test_version_of_the_class_is_chosen_where_one_is_counted(
    before: str | None, written: str | None, hashed: str, after: str | None
) -> None:
    there, here = (StackVersion.parse(text) if text else None for text in (before, written))
    source = replace(changed(cluster_class_dir=hashed), cluster_class=here)
    hashes = replace(BEFORE.hashes, cluster_class_dir="class")

    stable = stable_release(
        source, replace(BEFORE, metadata=replace(BEFORE.metadata, cluster_class=there), hashes=hashes)
    )

    assert stable.metadata.cluster_class == (StackVersion.parse(after) if after else None)
    assert (hash_release(source).metadata.cluster_class is None) is (written is None)


NEXT = {"v0": "v1", "v3": "v4", "v3-beta.7": "v3", "v0-beta.3": "v1", "v0-sha.1234567": "v1", "v10-custom.9": "v10"}


@pytest.mark.parametrize("before", NEXT)
def test_next_stable_version(before: str) -> None:
    assert next_stable(StackVersion.parse(before)).dot == NEXT[before]


BETAS = {
    (): "v0-beta.1",
    ("v0-beta.1", "v0-beta.2"): "v0-beta.3",
    ("v0-beta.9", "v0-beta.10"): "v0-beta.11",
    ("v3",): "v4-beta.1",
    ("v3", "v0-beta.8"): "v4-beta.1",
    ("v3", "v4-beta.1", "v4-beta.2"): "v4-beta.3",
    ("v4", "v4-beta.1"): "v5-beta.1",
    ("v1", "v7-beta.2"): "v7-beta.3",
    ("v0-beta.rc", "v0-sha.abcdefg", "v0-custom.4"): "v0-beta.1",
}


@pytest.mark.parametrize("there", BETAS)
def test_the_next_beta(there: tuple[str, ...]) -> None:
    assert beta_release(SOURCE, listing(*there), None).metadata.cluster_stack.dot == BETAS[there]


def test_beta_of_the_same_source_is_rejected() -> None:
    with pytest.raises(NothingChanged):
        beta_release(SOURCE, listing("v3", "v4-beta.1"), BEFORE)


def test_beta_version_is_used_for_every_component_with_its_reason() -> None:
    release = beta_release(
        changed(), listing("v3", "v4-beta.1"), replace(BEFORE, metadata=versions(*["v4-beta.1"] * 3))
    )

    assert release.metadata == versions(*["v4-beta.2"] * 3)
    assert texts(release)[1] == "clusterAddon v4-beta.1 -> v4-beta.2: on the way to v4, v3 is the newest stable one"


def test_hash_mode_derives_the_version_from_the_source() -> None:
    source = StackSource(SOURCE.kubernetes, Hashes(cluster_stack="azlfam7rgn823z07ou"))

    assert hash_release(source).metadata == versions(*["v0-sha.azlfam7"] * 3)


def test_custom_versions_are_used() -> None:
    assert custom_release(versions("v9", "v1-foo.2", "v3")).metadata == versions("v9", "v1-foo.2", "v3")


def test_listing_counts_foreign_names_and_skips_other_stacks() -> None:
    names = [
        "local-tiny-1-34-v2",
        "local-tiny-1-34-v10",
        "local-tiny-1-34-v0-sha-abcdefg",
        "local-tiny-1-35-v7",
        "local-other-1-34-v9",
        "latest",
        "sha256-0a1b.sig",
        "a-b-c-d-e-f-g-h",
    ]

    found = read_listing(names, NAME)

    assert [version.dot for version in found.versions] == ["v0-sha.abcdefg", "v2", "v10"]
    assert found.foreign == 3
    assert found.newest(STABLE) == StackVersion(10)


def test_differences_name_the_versions() -> None:
    changes = differences(versions("v4", "v2", "v1"), versions("v3", "v2", ""))

    assert [(move.component, move.before, move.after) for move in changes] == [
        ("clusterStack", "v3", "v4"),
        ("nodeImage", "", "v1"),
    ]


STACK_VERSIONS = st.builds(
    StackVersion, st.integers(0, 30), st.sampled_from([BETA, "sha", "custom"]), st.integers(0, 30).map(str)
) | st.builds(StackVersion, st.integers(0, 30))
WORDS = st.sampled_from(["", "a", "b"])
ANY_HASHES = st.builds(Hashes, WORDS, WORDS, WORDS, WORDS, WORDS, WORDS)
ANY_METADATA = st.builds(
    Metadata,
    st.builds(StackVersion, st.integers(0, 30)),
    st.just(SOURCE.kubernetes),
    STACK_VERSIONS,
    STACK_VERSIONS | st.none(),
)


@given(st.lists(STACK_VERSIONS))
def test_beta_is_newer_than_all_betas_and_above_the_newest_stable_release(there: list[StackVersion]) -> None:
    found = PublishedReleases(tuple(sorted(set(there))), 0)

    after = beta_release(SOURCE, found, None).metadata.cluster_stack

    assert after.channel == BETA
    assert all(after > one for one in there if one.channel == BETA)
    stable = found.newest(STABLE)
    assert after.major == beta_line(found) > (stable.major if stable else -1)


@given(st.lists(STACK_VERSIONS))
def test_next_beta_increments_only_the_build(there: list[StackVersion]) -> None:
    found = PublishedReleases(tuple(sorted(set(there))), 0)

    after = beta_release(SOURCE, found, None).metadata.cluster_stack
    again = beta_release(SOURCE, PublishedReleases(tuple(sorted({*there, after})), 0), None).metadata.cluster_stack

    assert again == replace(after, build=str(int(after.build) + 1))


@given(ANY_HASHES, ANY_HASHES, ANY_METADATA)
def test_stable_release_increments_versions_by_at_most_one(now: Hashes, then: Hashes, metadata: Metadata) -> None:
    before = PreviousRelease(NAME, metadata, then)
    source = StackSource(SOURCE.kubernetes, now)
    if now.cluster_stack == then.cluster_stack:
        with pytest.raises(NothingChanged):
            stable_release(source, before)
        return

    after = stable_release(source, before).metadata

    assert after.cluster_stack == StackVersion(metadata.cluster_stack.major + 1)
    addon_differs = (now.cluster_addon_dir, now.cluster_addon_values) != (
        then.cluster_addon_dir,
        then.cluster_addon_values,
    )
    if addon_differs or now.cluster_addon_pinned != then.cluster_addon_pinned:
        assert after.cluster_addon == next_stable(metadata.cluster_addon)
    else:
        assert after.cluster_addon == metadata.cluster_addon
    image_differs = (now.node_image_dir, now.node_images_dir) != (then.node_image_dir, then.node_images_dir)
    if metadata.node_image is None:
        assert after.node_image == StackVersion(1)
    else:
        assert after.node_image == (next_stable(metadata.node_image) if image_differs else metadata.node_image)
