"""What a sync delivers when objects left its sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.prune_hold import positions, revision_of, revision_until
from clusterstacks.deliver.apply.source_objects import SourceObjects
from clusterstacks.model.objects import Manifest, object_id
from tests.support.builders.manifests import config_map, crd

A, B, C = config_map("a"), config_map("b"), config_map("c")
WIDGETS = crd("Widget", "example.org")


def source(*manifests: Manifest, faults: tuple[str, ...] = (), title: str = "ConfigMap team/cni") -> SourceObjects:
    return SourceObjects(title, manifests, faults)


def test_object_that_left_all_sources_leaves() -> None:
    revision = revision_of([source(A), source(C)], [A, B, C])

    assert revision.manifests == (A, C)
    assert revision.leaving == (object_id(B),)
    assert revision.held == ""


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param([source(A), source(faults=("ConfigMap x does not exist",))], id="missing source"),
        pytest.param([source(A, faults=("key y.yaml, document 3",))], id="unreadable document"),
        pytest.param([source(faults=("key y.yaml",)), source(A)], id="unreadable key"),
    ],
)
def test_nothing_leaves_while_a_source_cannot_be_read_completely(sources: list[SourceObjects]) -> None:
    for confirmed in ("", revision_of([source(A), source()], [A, B]).confirmation):
        revision = revision_of(sources, [A, B], confirmed=confirmed)

        assert revision.manifests == (A, B)
        assert revision.leaving == ()
        assert revision.held == ""


def test_objects_of_a_source_that_became_empty_wait_for_a_confirmation() -> None:
    sources = [source(A), source(title="Secret team/more")]

    revision = revision_of(sources, [A, B, C])

    assert revision.manifests == (A, B, C)
    assert revision.held == (
        "2 objects that left the sources will be deleted after a confirmation (ConfigMap b, ConfigMap c), because "
        "Secret team/more is empty"
    )
    confirmed = revision_of(sources, [A, B, C], confirmed=revision.confirmation)
    assert (confirmed.manifests, confirmed.leaving) == ((A,), (object_id(B), object_id(C)))
    assert revision_of(sources[1:], [A, B, C], confirmed=revision.confirmation).held, "A left as well"


def test_crd_of_which_the_cluster_has_objects_waits_for_a_confirmation() -> None:
    free = revision_of([source(A)], [A, WIDGETS])
    used = revision_of([source(A)], [A, WIDGETS], used_crds={object_id(WIDGETS)})

    assert free.leaving == (object_id(WIDGETS),)
    assert used.leaving == ()
    assert used.manifests == (A, WIDGETS)
    assert used.held.startswith(
        "1 object that left the sources will be deleted after a confirmation (CustomResourceDef"
    )


def test_changed_object_is_delivered_as_its_source_has_it() -> None:
    changed = config_map("a", key="new")

    assert revision_of([source(changed)], [A]).manifests == (changed,)


@given(
    st.lists(st.tuples(st.sets(st.sampled_from("abcdef")), st.booleans()), min_size=1, max_size=3),
    st.sets(st.sampled_from("abcdef")),
    st.booleans(),
)
def test_each_object_is_delivered_or_leaves_and_never_both(
    contents: list[tuple[set[str], bool]],
    before: set[str],
    confirms: bool,  # noqa: FBT001
) -> None:
    sources = [source(*map(config_map, sorted(names)), faults=("fault",) * broken) for names, broken in contents]
    delivered = [config_map(name) for name in sorted(before)]
    confirmed = revision_of(sources, delivered).confirmation if confirms else ""

    revision = revision_of(sources, delivered, confirmed=confirmed)

    sent = {object_id(manifest) for manifest in revision.manifests}
    assert sent.isdisjoint(revision.leaving)
    assert {object_id(manifest) for manifest in delivered} <= sent | {*revision.leaving}
    wanted = {name for names, _ in contents for name in names}
    assert all(object_id(config_map(name)) in sent for name in wanted)
    if any(broken for _, broken in contents):
        assert revision.leaving == ()


def test_objects_of_sources_that_wait_stay_as_the_cluster_has_them() -> None:
    sources = [source(config_map("a", key="new")), source(config_map("b", key="new"), C), source(WIDGETS)]

    first = revision_until(sources, [A, B, config_map("left")], 0)
    second = revision_until(sources, first, 1)

    assert first == (config_map("a", key="new"), B, WIDGETS, config_map("left"))
    assert second == (config_map("a", key="new"), config_map("b", key="new"), C, WIDGETS, config_map("left"))
    assert revision_until(sources, second, 0) == second, "what has been delivered is not taken back"


def test_position_of_an_object_is_that_of_its_source() -> None:
    assert positions([source(A, B), source(C)]) == {object_id(A): 0, object_id(B): 0, object_id(C): 1}
