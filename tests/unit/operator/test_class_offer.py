"""Whether a Cluster may use a release, as one rule for admission, creation and deletion."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.names import ReleaseName, parse_release
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.class_offer import OfferState, ReleaseUse, StackOffer, decide_offer, similar_classes

V1, V2 = parse_release("local-demo-1-35-v1"), parse_release("local-demo-1-35-v2")
CLUSTER = ObjectKey("team", "one")
USE = ReleaseUse(CLUSTER, "stacks", V1)
ADDONS = ReleaseUse(CLUSTER, "stacks", V1, is_class=False)


def stack(*releases: ReleaseName, admits: bool = True, is_listed: bool = True, problem: str = "") -> StackOffer:
    return StackOffer(ObjectKey("stacks", "demo"), "local", admits, frozenset(releases), is_listed, problem)


OFFERED, PENDING, REFUSED = OfferState.OFFERED, OfferState.PENDING, OfferState.REFUSED


@pytest.mark.regression("SEC-28")
@pytest.mark.parametrize(
    ("stacks", "state"),
    [
        ([], PENDING),
        ([stack(V1)], OFFERED),
        ([stack(V2)], REFUSED),
        ([stack()], REFUSED),
        ([stack(V1, admits=False)], REFUSED),
        ([stack(V2, is_listed=False)], PENDING),
        ([stack(V1, is_listed=False)], OFFERED),
        ([stack(V1, admits=False, is_listed=False)], REFUSED),
        # Each ClusterStack offers its own releases to its own namespaces.
        ([stack(V1, admits=False), stack(V2)], REFUSED),
        ([stack(V1), stack(V2, admits=False)], OFFERED),
        ([stack(problem="spec.x is wrong")], REFUSED),
        ([stack(problem="spec.x is wrong"), stack(V1)], OFFERED),
    ],
)
def test_new_use_needs_a_stack_that_offers_the_release(stacks: list[StackOffer], state: OfferState) -> None:
    assert decide_offer(USE, stacks).state is state
    assert decide_offer(ADDONS, stacks).state is state


def test_release_without_a_stack_may_be_used_until_a_stack_decides() -> None:
    assert decide_offer(USE, [], is_unowned=True).state is OFFERED
    assert decide_offer(USE, [stack(V2)], is_unowned=True).state is REFUSED


@pytest.mark.regression("U-26")
def test_u_26_an_unknown_class_of_a_stack_names_the_offered_ones_and_others_the_similar_ones() -> None:
    typed = parse_release("local-demo-1-35-v9")
    assert f"offers {V2}, {V1}; use another class" in decide_offer(replace(USE, release=typed), [stack(V1, V2)]).message

    misspelt = parse_release("local-dmeo-1-35-v2")
    assert similar_classes(misspelt, [V1, V2, parse_release("aws-prod-1-35-v2"), misspelt]) == [V2, V1]
    assert decide_offer(USE, [], similar=["a", "b"]).message.endswith("another one; did you mean a or b?")


ASK = "ask the administrators of namespace stacks"
STACK = "ClusterStack stacks/demo (provider local)"


@pytest.mark.parametrize(
    ("use", "stacks", "message"),
    [
        (
            USE,
            [stack(V2)],
            (
                f"class stacks/{V1} is not offered to namespace team: {STACK} offers {V2}; "
                f"use another class, or {ASK} to add v1 to its spec.versions"
            ),
        ),
        (
            ADDONS,
            [stack()],
            (
                f"release stacks/{V1}, which an annotation names, is not offered to namespace team: {STACK} offers no "
                f"release yet; name another release, or {ASK} to add v1 to its spec.versions"
            ),
        ),
        (
            USE,
            [stack(V1, admits=False)],
            (
                f"class stacks/{V1} is not offered to namespace team: spec.clusterNamespaces of its ClusterStack "
                f"does not include it; use another class, or {ASK} to include it"
            ),
        ),
        (
            USE,
            [],
            (
                f"no ClusterStack of namespace stacks offers class stacks/{V1} yet, so nothing is created for Cluster "
                "team/one: create a ClusterStack there for provider local, name demo and Kubernetes 1.35, or name "
                "another one"
            ),
        ),
        (
            USE,
            [stack(is_listed=False)],
            (
                f"it is not known yet whether {STACK} offers class stacks/{V1}, so nothing is created for Cluster "
                "team/one: wait until its source is listed; its condition ReleasesSynced reports errors"
            ),
        ),
        (USE, [stack(V2), stack(problem="spec.x is wrong")], "spec.x is wrong"),
    ],
)
def test_message_says_why_and_what_to_do(use: ReleaseUse, stacks: list[StackOffer], message: str) -> None:
    assert decide_offer(use, stacks).message == message


def test_newest_releases_are_named_and_the_others_counted() -> None:
    many = [parse_release(f"local-demo-1-35-v{number}") for number in range(2, 12)]

    assert "offers local-demo-1-35-v11, local-demo-1-35-v10, " in decide_offer(USE, [stack(*many)]).message
    assert "local-demo-1-35-v7 and 5 more; use" in decide_offer(USE, [stack(*many)]).message


STACKS = st.lists(
    st.builds(stack, st.sampled_from([V1, V2]), admits=st.booleans(), is_listed=st.booleans())
    | st.just(stack(problem="spec.x is wrong")),
    max_size=4,
)


@pytest.mark.regression("SEC-28")
@given(stacks=STACKS, is_unowned=st.booleans())
def test_only_a_stack_that_admits_the_namespace_offers(stacks: list[StackOffer], *, is_unowned: bool) -> None:
    offered = decide_offer(USE, stacks, is_unowned=is_unowned).state is OFFERED

    assert offered == (any(one.admits and V1 in one.releases for one in stacks) or (is_unowned and not stacks))


@given(STACKS, STACKS)
def test_another_stack_never_takes_an_offer_away(some: list[StackOffer], more: list[StackOffer]) -> None:
    if decide_offer(USE, some).state is OFFERED:
        assert decide_offer(USE, [*more, *some]).state is OFFERED
