from __future__ import annotations

from dataclasses import replace

import pytest

from clusterstacks.model.names import InvalidName, parse_release
from clusterstacks.model.versions import KubernetesMinor, StackVersion
from clusterstacks.operator.controllers.clusterstack.retention import (
    CANDIDATE,
    FOREIGN,
    LAST_READY,
    LATEST,
    NOT_NEEDED,
    UNKNOWN_SOURCE,
    WANTED,
    ExistingRelease,
    ReleaseAction,
    Retention,
    Subscription,
    decide_retention,
)

STACK = Subscription("docker", "ferrol", KubernetesMinor(1, 27), "stable")


def stack(*versions: str, channel: str = "stable", auto_subscribe: bool = True) -> Subscription:
    wanted = tuple(map(StackVersion.parse, versions))
    return replace(STACK, versions=wanted, channel=channel, auto_subscribe=auto_subscribe)


def name(version: str) -> str:
    return STACK.release(StackVersion.parse(version)).release


def class_name(version: str) -> str:
    return STACK.release(StackVersion.parse(version)).class_name


def ready(*versions: str) -> list[ExistingRelease]:
    return [ExistingRelease(name(version), ready=True) for version in versions]


def fresh(*versions: str) -> list[ExistingRelease]:
    return [ExistingRelease(name(version)) for version in versions]


def decisions(retention: Retention) -> dict[str, tuple[str, ...]]:
    return {decision.name: (decision.action.value, *decision.reasons) for decision in retention.decisions}


def test_latest_release_is_created_and_last_ready_one_is_kept_until_replaced() -> None:
    listed = [name("v9"), name("v10")]

    assert decisions(decide_retention(STACK, listed=listed, existing=ready("v8", "v9"), classes_in_use=[])) == {
        name("v8"): ("delete", NOT_NEEDED),
        name("v9"): ("keep", LAST_READY),
        name("v10"): ("create", LATEST),
    }
    settled = decide_retention(STACK, listed=listed, existing=ready("v9", "v10"), classes_in_use=[])
    assert decisions(settled) == {name("v9"): ("delete", NOT_NEEDED), name("v10"): ("keep", LATEST, LAST_READY)}


@pytest.mark.regression("D9")
def test_release_of_another_channel_is_kept_while_in_use() -> None:
    retention = decide_retention(
        STACK,
        listed=[name("v1")],
        existing=[*ready("v1"), *fresh("v0-sha.abc1234")],
        classes_in_use=[class_name("v0-sha.abc1234")] * 2,
    )

    assert decisions(retention)[name("v0-sha.abc1234")] == ("keep", "in use by 2 clusters")


@pytest.mark.regression("D9")
def test_release_of_another_channel_is_kept_while_it_is_the_last_ready_one() -> None:
    existing = [*ready("v0-sha.abc1234"), *fresh("v1")]
    retention = decide_retention(STACK, listed=[name("v1")], existing=existing, classes_in_use=[])

    assert decisions(retention)[name("v0-sha.abc1234")] == ("keep", LAST_READY)


def test_pinned_build_replaces_another_build_of_any_hash() -> None:
    pinned = stack("v0-sha.aaa", channel="custom", auto_subscribe=False)
    retention = decide_retention(pinned, listed=[], existing=ready("v0-sha.aaa", "v0-sha.zzz"), classes_in_use=[])

    assert decisions(retention) == {
        name("v0-sha.aaa"): ("keep", LAST_READY, WANTED),
        name("v0-sha.zzz"): ("delete", NOT_NEEDED),
    }


@pytest.mark.regression("D22")
def test_deleted_release_in_use_is_created_again() -> None:
    retention = decide_retention(
        STACK,
        listed=[name("v2")],
        existing=ready("v2"),
        classes_in_use=[class_name("v1")],
        granted=[parse_release(name("v1"))],
    )

    assert decisions(retention)[name("v1")] == ("create", "in use by 1 cluster")


@pytest.mark.regression("SEC-28")
def test_release_that_no_cluster_may_use_is_kept_but_never_created() -> None:
    used = [class_name("v1"), class_name("v2")]
    retention = decide_retention(STACK, listed=[name("v2"), name("v3")], existing=ready("v1"), classes_in_use=used)

    assert decisions(retention) == {
        name("v1"): ("keep", LAST_READY, "in use by 1 cluster"),
        name("v3"): ("create", LATEST),
    }


def test_newest_ready_release_of_the_channel_precedes_an_older_wanted_one() -> None:
    retention = decide_retention(
        stack("v1"), listed=[name("v1"), name("v2")], existing=ready("v1", "v2"), classes_in_use=[]
    )

    assert retention.latest_ready == parse_release(name("v2"))


def test_release_being_deleted_is_ignored_and_neither_ready_nor_usable() -> None:
    leaving = ExistingRelease(name("v2"), ready=True, deleting=True)
    retention = decide_retention(STACK, listed=[name("v2")], existing=[leaving, *ready("v1")], classes_in_use=[])

    assert decisions(retention) == {name("v1"): ("keep", LAST_READY), name("v2"): ("leaving", LATEST)}
    assert retention.latest_ready == parse_release(name("v1"))
    assert retention.usable == (StackVersion(1),)


@pytest.mark.regression("D20")
def test_failed_listing_has_no_latest_release_and_deletes_nothing() -> None:
    retention = decide_retention(STACK, listed=None, existing=[*ready("v1"), *fresh("v0", "v2")], classes_in_use=[])

    assert retention.latest is None
    assert decisions(retention) == {
        name("v0"): ("keep", UNKNOWN_SOURCE),
        name("v1"): ("keep", LAST_READY),
        name("v2"): ("keep", UNKNOWN_SOURCE),
    }


@pytest.mark.regression("D20")
def test_no_release_is_latest_if_none_matches() -> None:
    listed = ["docker-ferrol-1-28-v3", "docker-other-1-27-v3", "latest", name("v0-sha.abc"), name("v1") + "-stable-3"]
    retention = decide_retention(STACK, listed=listed, existing=[], classes_in_use=["quick-start"])

    assert retention.latest is None
    assert retention.decisions == ()
    assert retention.foreign == 4


def test_without_auto_subscribe_only_listed_versions_are_created() -> None:
    retention = decide_retention(stack("v1", auto_subscribe=False), listed=[name("v2")], existing=[], classes_in_use=[])

    assert decisions(retention) == {name("v1"): ("create", WANTED)}
    assert decide_retention(stack(auto_subscribe=False), listed=None, existing=fresh("v1"), classes_in_use=[]).doing(
        ReleaseAction.DELETE
    )


def test_custom_channel_follows_its_builds_by_number() -> None:
    listed = [name("v1-custom.9"), name("v1-custom.10"), name("v7")]
    retention = decide_retention(stack(channel="custom"), listed=listed, existing=[], classes_in_use=[])

    assert decisions(retention) == {name("v1-custom.10"): ("create", LATEST)}


@pytest.mark.parametrize("foreign", ["something", "docker-ferrol-1-28-v1", "docker-ferrol-1-27-v1-stable-3"])
def test_existing_release_with_a_foreign_name_is_not_deleted(foreign: str) -> None:
    existing = [ExistingRelease(foreign, ready=True)]
    retention = decide_retention(STACK, listed=[], existing=existing, classes_in_use=[])

    assert decisions(retention) == {foreign: ("keep", FOREIGN)}
    assert retention.usable == ()


def test_provider_invalid_in_a_name_is_rejected() -> None:
    with pytest.raises(InvalidName, match="open-stack"):
        decide_retention(replace(STACK, provider="open-stack"), listed=[name("v1")], existing=[], classes_in_use=[])


def test_release_with_addons_in_use_is_kept_and_created_only_if_granted() -> None:
    used = [name("v1"), name("v1"), name("v2"), name("v7"), "other-stack-1-35-v1", "nonsense"]
    retention = decide_retention(
        STACK,
        listed=[name("v2"), name("v9")],
        existing=ready("v1", "v9"),
        classes_in_use=[],
        addons_in_use=used,
        granted={parse_release(name("v2"))},
    )

    assert decisions(retention) == {
        name("v1"): ("keep", "addons in use by 2 clusters"),
        name("v2"): ("create", "addons in use by 1 cluster"),
        name("v9"): ("keep", "latest", "last ready"),
    }


def test_any_newer_release_may_be_the_next_one_that_passes_its_stages() -> None:
    """Otherwise v9 would never be offered if its evidence comes after v10 is published, and v10 fails."""
    staged = replace(STACK, staged=True)
    listed = [name(version) for version in ("v7", "v8", "v9", "v10", "v1-custom.5")]

    assert decisions(decide_retention(staged, listed=listed, existing=ready("v8"), classes_in_use=[])) == {
        name("v8"): ("keep", LAST_READY),
        name("v9"): ("create", CANDIDATE),
        name("v10"): ("create", LATEST),
    }
    passed = decide_retention(staged, listed=listed, existing=[*ready("v8", "v9"), *fresh("v10")], classes_in_use=[])
    assert decisions(passed) == {
        name("v8"): ("delete", NOT_NEEDED),
        name("v9"): ("keep", LAST_READY),
        name("v10"): ("keep", LATEST),
    }


def test_after_all_ready_releases_failed_the_newest_ones_are_looked_at_again() -> None:
    staged = replace(STACK, staged=True)
    listed = [name(f"v{number}") for number in range(1, 10)]

    retention = decide_retention(staged, listed=listed, existing=fresh("v9"), classes_in_use=[])

    assert [one.name for one in retention.decisions] == [name(f"v{number}") for number in range(5, 10)]
