from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.building.release_changes import Predecessor, StackSource
from clusterstacks.building.version_bump import (
    NextRelease,
    NothingChanged,
    beta_release,
    custom_release,
    disagreement,
    hash_release,
    next_stable,
    stable_release,
)
from clusterstacks.domain.hashes import Hashes
from clusterstacks.domain.metadata import Metadata
from clusterstacks.domain.names import parse_release
from clusterstacks.domain.versions import STABLE, KubernetesVersion, StackVersion
from clusterstacks.releases.published_releases import BETA, PublishedReleases, beta_line, read_listing
from tests.support.sources import versions

NAME = parse_release("local-tiny-1-34-v3")
HASHES = Hashes("stack", "addons", "values", "image", "images")
SOURCE = StackSource(KubernetesVersion.parse("v1.34.2"), HASHES)
BEFORE = Predecessor(NAME, versions("v3", "v2", "v1"), HASHES)


def texts(release: NextRelease) -> list[str]:
    return [f"{move.component} {move.before} -> {move.after}: {move.reason}" for move in release.moves]


def changed(**hashes: str) -> StackSource:
    return replace(SOURCE, hashes=replace(HASHES, cluster_stack="other", **hashes))


def listing(*dots: str) -> PublishedReleases:
    return PublishedReleases(tuple(sorted(StackVersion.parse(dot) for dot in dots)), 0)


def test_the_first_release_is_v1_everywhere() -> None:
    assert stable_release(SOURCE, None).metadata == versions("v1", "v1", "v1")


def test_a_source_that_did_not_change_gives_no_release() -> None:
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
def test_only_what_changed_moves(case: str) -> None:
    hashes, files, after = CHANGES[case]

    release = stable_release(changed(**hashes), replace(BEFORE, changed=files))

    assert tuple(move.after for move in release.moves) == after
    assert all(move.reason for move in release.moves)
    assert release.metadata == versions(*after)


def test_a_reason_names_the_files() -> None:
    before = replace(BEFORE, changed=("cluster-addon/cni/values.yaml", "cluster-class/templates/a.yaml"))

    assert texts(stable_release(changed(cluster_addon_dir="x"), before)) == [
        "clusterStack v3 -> v4: cluster-addon/cni/values.yaml, cluster-class/templates/a.yaml changed",
        "clusterAddon v2 -> v3: cluster-addon/cni/values.yaml changed",
        "nodeImage v1 -> v1: unchanged",
    ]


def test_a_reason_names_the_directory_where_no_file_is_known() -> None:
    assert texts(stable_release(changed(cluster_addon_dir="x", node_images_dir="y"), BEFORE)) == [
        "clusterStack v3 -> v4: node-images/ changed",
        "clusterAddon v2 -> v3: cluster-addon/ changed",
        "nodeImage v1 -> v2: node-images/ changed",
    ]


def test_many_files_are_counted() -> None:
    before = replace(BEFORE, changed=tuple(f"cluster-class/{number}" for number in range(5)))

    assert "cluster-class/2 and 2 more changed" in stable_release(changed(), before).moves[0].reason


def test_the_patch_of_kubernetes_is_a_change_though_no_file_is() -> None:
    source = replace(SOURCE, kubernetes=KubernetesVersion.parse("v1.34.3"))

    release = stable_release(source, BEFORE)

    assert release.moves[0].reason == "Kubernetes v1.34.2 -> v1.34.3"
    assert release.metadata == versions("v4", "v2", "v1", "v1.34.3")


def test_what_cannot_be_compared_counts_as_changed() -> None:
    release = stable_release(SOURCE, replace(BEFORE, hashes=Hashes(cluster_stack="9fceb02d0ae598e95dc970b74767f193")))

    assert release.metadata == versions("v4", "v3", "v2")
    assert "local-tiny-1-34-v3 has no hash of cluster-addon/" in release.moves[1].reason


def test_a_release_without_hashes_says_so() -> None:
    release = stable_release(StackSource(SOURCE.kubernetes, Hashes("stack")), replace(BEFORE, hashes=Hashes()))

    assert release.moves[0].reason == "local-tiny-1-34-v3 has no hash of its source"


NEXT = {"v0": "v1", "v3": "v4", "v3-beta.7": "v3", "v0-beta.3": "v1", "v0-sha.1234567": "v1", "v10-custom.9": "v10"}


@pytest.mark.parametrize("before", NEXT)
def test_the_stable_version_behind(before: str) -> None:
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


def test_a_beta_of_the_same_source_is_refused() -> None:
    with pytest.raises(NothingChanged):
        beta_release(SOURCE, listing("v3", "v4-beta.1"), BEFORE)


def test_a_beta_gives_its_version_to_every_component_and_says_what_it_is_for() -> None:
    release = beta_release(
        changed(), listing("v3", "v4-beta.1"), replace(BEFORE, metadata=versions(*["v4-beta.1"] * 3))
    )

    assert release.metadata == versions(*["v4-beta.2"] * 3)
    assert texts(release)[1] == "clusterAddon v4-beta.1 -> v4-beta.2: on the way to v4, v3 is the newest stable one"


def test_a_hash_makes_the_version() -> None:
    source = StackSource(SOURCE.kubernetes, Hashes(cluster_stack="azlfam7rgn823z07ou"))

    assert hash_release(source).metadata == versions(*["v0-sha.azlfam7"] * 3)


def test_given_versions_are_taken() -> None:
    assert custom_release(versions("v9", "v1-foo.2", "v3")).metadata == versions("v9", "v1-foo.2", "v3")


def test_a_listing_skips_and_counts_what_is_no_release_and_leaves_other_stacks_out() -> None:
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


def test_a_disagreement_names_the_versions() -> None:
    moves = disagreement(versions("v4", "v2", "v1"), versions("v3", "v2", ""))

    assert [(move.component, move.before, move.after) for move in moves] == [
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
def test_betas_grow_and_never_reach_a_stable_release_that_is_there(there: list[StackVersion]) -> None:
    found = PublishedReleases(tuple(sorted(set(there))), 0)

    after = beta_release(SOURCE, found, None).metadata.cluster_stack

    assert after.channel == BETA
    assert all(after > one for one in there if one.channel == BETA)
    stable = found.newest(STABLE)
    assert after.major == beta_line(found) > (stable.major if stable else -1)


@given(st.lists(STACK_VERSIONS))
def test_the_number_of_a_beta_is_never_that_of_a_beta_and_one(there: list[StackVersion]) -> None:
    found = PublishedReleases(tuple(sorted(set(there))), 0)

    after = beta_release(SOURCE, found, None).metadata.cluster_stack
    again = beta_release(SOURCE, PublishedReleases(tuple(sorted({*there, after})), 0), None).metadata.cluster_stack

    assert again == replace(after, build=str(int(after.build) + 1))


@given(ANY_HASHES, ANY_HASHES, ANY_METADATA)
def test_a_stable_release_moves_every_number_by_at_most_one_and_the_stack_always(
    now: Hashes, then: Hashes, metadata: Metadata
) -> None:
    before = Predecessor(NAME, metadata, then)
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
