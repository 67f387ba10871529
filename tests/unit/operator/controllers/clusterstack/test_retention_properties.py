from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.names import ReleaseName
from clusterstacks.model.versions import KubernetesMinor, StackVersion
from clusterstacks.operator.controllers.clusterstack.retention import (
    ExistingRelease,
    ReleaseAction,
    Retention,
    Subscription,
    decide_retention,
)

MINOR = KubernetesMinor(1, 27)
VERSIONS = st.builds(StackVersion, st.integers(0, 3)) | st.builds(
    StackVersion, st.integers(0, 1), st.sampled_from(["sha", "custom"]), st.sampled_from(["1", "2", "10", "abc"])
)
NAMES = st.builds(ReleaseName, st.just("docker"), st.sampled_from(["ferrol", "other"]), st.just(MINOR), VERSIONS)
RELEASES = NAMES.map(lambda name: name.release) | st.sampled_from(["foreign", "docker-ferrol-1-27-v1-stable-1"])
QUESTIONS = st.fixed_dictionaries(
    {
        "subscription": st.builds(
            Subscription,
            st.just("docker"),
            st.just("ferrol"),
            st.just(MINOR),
            st.sampled_from(["stable", "custom"]),
            st.lists(VERSIONS, max_size=3).map(tuple),
            st.booleans(),
        ),
        "listed": st.none() | st.lists(RELEASES),
        "existing": st.lists(
            st.builds(ExistingRelease, RELEASES, st.booleans(), st.booleans()), unique_by=lambda release: release.name
        ),
        "classes_in_use": st.lists(NAMES.map(lambda name: name.class_name) | st.just("quick-start")),
        "granted": st.lists(NAMES),
    }
)


def asked(question: dict[str, Any]) -> Retention:
    return decide_retention(
        question["subscription"], **{key: question[key] for key in ("listed", "existing", "classes_in_use", "granted")}
    )


def deleted(retention: Retention) -> set[str]:
    return {decision.name for decision in retention.doing(ReleaseAction.DELETE)}


def applied(question: dict[str, Any]) -> dict[str, Any]:
    """Apply the decision: create, delete, and remove releases being deleted."""
    retention = asked(question)
    gone = deleted(retention) | {decision.name for decision in retention.doing(ReleaseAction.LEAVING)}
    created = [ExistingRelease(decision.name) for decision in retention.doing(ReleaseAction.CREATE)]
    return question | {"existing": [release for release in question["existing"] if release.name not in gone] + created}


@given(QUESTIONS)
def test_required_releases_are_never_deleted(question: dict[str, Any]) -> None:
    retention = asked(question)
    subscription = question["subscription"]
    needed = {subscription.release(version).release for version in subscription.versions}
    needed |= {release.release for release in (retention.latest, retention.latest_ready) if release}
    classes = set(question["classes_in_use"])

    for decision in retention.doing(ReleaseAction.DELETE):
        assert decision.release is not None
        assert decision.name not in needed
        assert decision.release.class_name not in classes


@pytest.mark.regression("SEC-28")
@given(QUESTIONS)
def test_clusters_have_only_granted_releases_created(question: dict[str, Any]) -> None:
    retention, subscription = asked(question), question["subscription"]
    own = {subscription.release(version) for version in subscription.versions} | {retention.latest}

    assert {one.release for one in retention.doing(ReleaseAction.CREATE)} <= own | set(question["granted"])


@given(QUESTIONS)
def test_one_ready_release_is_always_kept(question: dict[str, Any]) -> None:
    retention = asked(question)
    own_ready = {
        release.name
        for release in question["existing"]
        if release.ready and not release.deleting and release.name.startswith("docker-ferrol-1-27-v")
    } - {"docker-ferrol-1-27-v1-stable-1"}

    assert bool(own_ready) == bool(retention.usable) == (retention.latest_ready is not None)
    assert not own_ready or own_ready - deleted(retention)


@given(QUESTIONS)
def test_every_release_gets_one_decision_with_a_reason(question: dict[str, Any]) -> None:
    retention = asked(question)
    names = [decision.name for decision in retention.decisions]

    assert len(names) == len(set(names))
    assert {release.name for release in question["existing"]} <= set(names)
    assert all(decision.reasons or decision.action is ReleaseAction.LEAVING for decision in retention.decisions)


@given(st.data(), QUESTIONS)
def test_order_of_the_input_does_not_matter(data: st.DataObject, question: dict[str, Any]) -> None:
    shuffled = {
        key: data.draw(st.permutations(value)) if isinstance(value, list) else value for key, value in question.items()
    }

    assert asked(shuffled) == asked(question)


@given(QUESTIONS)
def test_applied_decision_is_stable(question: dict[str, Any]) -> None:
    # The second round creates again what was leaving and is needed.
    again = asked(applied(applied(question)))

    assert {decision.action for decision in again.decisions} <= {ReleaseAction.KEEP}


@given(QUESTIONS)
def test_failed_listing_deletes_nothing_of_a_subscribed_stack(question: dict[str, Any]) -> None:
    retention = asked(question | {"listed": None})

    assert not question["subscription"].auto_subscribe or not deleted(retention)
