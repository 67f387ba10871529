"""Messages about versions that the source does not have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.names import ReleaseName, parse_release
from clusterstacks.model.versions import KubernetesMinor, StackVersion
from clusterstacks.operator.controllers.clusterstack.missing_versions import lacking, nothing
from clusterstacks.operator.controllers.clusterstack.retention import Subscription

SOURCE = "directory demo"


def release(version: str, stack: str = "fleet") -> ReleaseName:
    return ReleaseName("local", stack, KubernetesMinor(1, 35), StackVersion.parse(version))


@pytest.mark.regression("LIVE-M6")
def test_existing_versions_are_listed() -> None:
    listed = ["local-fleet-1-35-v1", "local-fleet-1-35-v3", "local-fleet-1-36-v2", "rubbish"]
    assert lacking([release("v2")], listed, SOURCE) == (
        "release local-fleet-1-35-v2 is not in directory demo: of local-fleet-1-35 it has v1, v3"
    )
    assert lacking([release("v78"), release("v3"), release("v77")], listed, SOURCE) == (
        "releases local-fleet-1-35-v77, local-fleet-1-35-v78 are not in directory demo: "
        "of local-fleet-1-35 it has v1, v3"
    )
    assert not lacking([release("v1"), release("v3")], listed, SOURCE)


@pytest.mark.regression("LIVE-M6")
def test_similar_stack_names_are_suggested_if_a_stack_has_no_release() -> None:
    listed = ["local-fleet-1-35-v1", "local-demo-1-35-v1"]
    assert lacking([release("v1", "flete")], listed, SOURCE) == (
        "release local-flete-1-35-v1 is not in directory demo, which has no release of local-flete-1-35; "
        "similar: local-fleet-1-35, local-demo-1-35"
    )
    assert lacking([release("v1", "ghost")], [], SOURCE) == (
        "release local-ghost-1-35-v1 is not in directory demo, which has no release of local-ghost-1-35"
    )


@pytest.mark.regression("LIVE-M6")
def test_empty_channel_is_reported_with_the_searched_names() -> None:
    subscription = Subscription("local", "fleet", KubernetesMinor(1, 35), "stable")
    assert nothing(subscription, release("v0"), ["local-fleet-1-35-v0-beta-1"], SOURCE) == (
        "directory demo has no release local-fleet-1-35-* on channel stable, and spec.versions is empty; "
        "of local-fleet-1-35 it has v0-beta.1; publish one, or correct provider, name, kubernetesVersion or channel "
        "in the spec"
    )


@pytest.mark.regression("LIVE-M6")
@given(st.sets(st.integers(0, 50)), st.sets(st.integers(0, 50)))
def test_message_exists_exactly_if_a_version_is_missing(wanted: set[int], present: set[int]) -> None:
    listed = [release(f"v{number}").release for number in present]
    message = lacking([release(f"v{number}") for number in wanted], listed, SOURCE)
    assert bool(message) == bool(wanted - present)
    assert len(message) < 1000
    assert all(parse_release(name) for name in listed)
