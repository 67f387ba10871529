"""What a live Cluster could become: releases of its sources, rules, and where a plan begins."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.kinds.addon_annotations import AddonReleaseRefused
from clusterstacks.model.kinds.names import DIGEST_ANNOTATION
from clusterstacks.model.names import parse_release, parse_target
from clusterstacks.model.versions import KubernetesVersion, StackVersion
from clusterstacks.net.http.errors import CredentialsRefused, RateLimited
from clusterstacks.plan.clusters.context import ReleasesUnknown, moved_to
from clusterstacks.plan.compat.release_facts import ReleaseFacts
from clusterstacks.plan.compat.world import Candidate
from clusterstacks.plan.planner.planner import Plan, find_plan
from tests.support.builders.releases import FakeSource
from tests.support.fakes.management_cluster import Management, source, stated

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.clusters.context import UpgradeContext

OLD, NEW = "p-s-1-35-v1", "p-s-1-36-v1"
CNI = "clusterstack.x-k8s.io/addon.cni"
ALL = "clusterstack.x-k8s.io/addon-release"
BOTH = {
    "p_s_1_35_v1": stated("v1.35.4", ">=1.34 <1.37", cni="1.17.0", csi="1.0.0"),
    "p_s_1_36_v1": stated("v1.36.1", ">=1.36 <1.38", cni="1.18.0", csi="1.0.0"),
}


def management(**releases: Mapping[str, bytes]) -> Management:
    return Management(sources={"kaas/one": source(**(releases or BOTH))})


async def with_cluster(annotations: Mapping[str, str] | None = None, *addons: Mapping[str, str]) -> Management:
    there = management()
    await there.has_stack()
    await there.has_cluster(OLD, metadata={"annotations": dict(annotations or {})})
    if addons:
        await there.has_addons(*addons)
    return there


async def test_all_listed_releases_are_candidates_and_none_is_downloaded() -> None:
    there = management(**BOTH, p_s_1_35_v9=stated("v1.36.1", ">=1.36"), other_s_1_35_v1=stated("v1.35.1"))
    await there.has_stack()
    await there.has_stack("1.36")
    await there.has_cluster(OLD)
    context = await there.context()
    assert [one.name.release for one in context.world.candidates] == [NEW, OLD]
    (notice,) = context.notices
    assert notice.startswith("a release is left out: release p-s-1-35-v9: metadata.yaml is for Kubernetes v1.36.1")
    assert there.opener.opened == ["kaas/one"], "one source, whoever names it"
    assert not source_of(there).fetched


async def test_release_facts_in_the_management_cluster_are_not_read_from_the_source() -> None:
    there = management()
    await there.has_stack()
    await there.has_cluster(OLD)
    stated_there = ReleaseFacts(Metadata(StackVersion(1), KubernetesVersion.parse("v1.35.9"), StackVersion(1))).write()
    metadata = {"annotations": {DIGEST_ANNOTATION: "sha256:1"}}
    await there.has(
        "ClusterStackRelease", OLD, {"metadata": metadata, "status": {"digest": "sha256:1", "facts": stated_there}}
    )

    alone = await there.context(sources=False)
    asked = await there.context()

    assert [(one.name.release, str(one.kubernetes)) for one in alone.world.candidates] == [(OLD, "v1.35.9")]
    assert (alone.notices, there.opener.opened) == ((), ["kaas/one"])
    found = {one.name.release: str(one.kubernetes) for one in asked.world.candidates}
    assert found == {OLD: "v1.35.9", NEW: "v1.36.1"}


def source_of(there: Management) -> Any:
    return there.sources["kaas/one"]


async def test_unreadable_sources_are_reported_and_given_releases_replace_them() -> None:
    there = management()
    there.sources["kaas/two"] = CredentialsRefused("registry.example.org/kaas/two", 401)
    await there.has_stack(source={"directory": {"path": "team"}}, name="on-disk")
    await there.has_stack(place="kaas/two", name="private")
    await there.has_stack(source=None, name="silent")
    await there.has_cluster(OLD)
    with pytest.raises(ReleasesUnknown) as caught:
        await there.context()
    first, *evidence = caught.value.message.splitlines()
    assert first == (
        f"Cluster team/prod: release {OLD}, whose class it has, is not among those that could be read: publish it, or "
        "give it with --releases DIR"
    )
    assert len(evidence) == 3
    assert "spec.source of ClusterStack team/on-disk is a directory of the operator" in evidence[0]
    assert "ClusterStack team/silent has no spec.source, so only the operator knows its source" in evidence[1]
    assert "oci://kaas/two (spec.source of ClusterStack team/private) is not read" in evidence[2]
    assert all("give its releases with --releases DIR" in one for one in evidence)

    there.given = (
        Candidate(parse_release(OLD), KubernetesVersion.parse("v1.35.4")),
        Candidate(parse_release("other-s-1-35-v1"), KubernetesVersion.parse("v1.35.4")),
    )
    context = await there.context()
    assert [one.name.release for one in context.world.candidates] == [OLD]
    assert context.state.addons is None, "a bundle's addons are known to nobody"
    (notice,) = context.notices
    assert "oci://kaas/two" in notice, "what could be read and was not is told all the same"


class Tired(FakeSource):
    """Gives one release and then asks to be left alone."""

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        if self.fetched:
            raise RateLimited("github.com/team/stacks", timedelta(minutes=5))
        self.fetched.append(name)
        return await super().read(name, files, limit)


async def test_rate_limited_source_is_reported_with_the_number_of_read_releases() -> None:
    releases = {name: stated("v1.35.4") for name in (OLD, "p-s-1-35-v2", "p-s-1-35-v3")}
    tired = Tired({parse_release(name): files for name, files in releases.items()})
    there = Management(sources={"team/stacks": tired})
    await there.has_stack(source={"github": {"owner": "team", "repository": "stacks"}})
    await there.has_cluster("p-s-1-35-v3")
    context = await there.context()
    assert [one.name.release for one in context.world.candidates] == ["p-s-1-35-v3"], "the newest first, one at a time"
    (notice,) = context.notices
    assert "github://team/stacks (spec.source of ClusterStack team/s-1-35) gave 1 of its releases only" in notice
    assert "retry in 0:05:00" in notice


async def test_missing_permission_for_stacks_secrets_or_rules_is_reported() -> None:
    there = management()
    await there.has_stack(source={"oci": {"repository": "kaas/one"}, "credentials": {"secretName": "login"}})
    await there.has_cluster(OLD)
    there.api.forbidden = frozenset({"Secret", "CompatibilityRule"})
    there.given = (Candidate(parse_release(OLD), KubernetesVersion.parse("v1.35.4")),)
    context = await there.context()
    assert "get Secret team/login: 403 Forbidden" in context.notices[0]
    assert "the rules of the provider are not checked" in context.notices[1]
    there.api.forbidden = frozenset({"ClusterStack", "ClusterStackRelease"})
    assert "no release source is known" in (await there.context()).notices[0]


@pytest.mark.parametrize(
    ("annotations", "delivered", "expected", "told"),
    [
        ({}, {}, {"cni": "1.17.0", "csi": "1.0.0"}, []),
        ({}, {"cni": (OLD, "v1.17.0")}, {"cni": "1.17.0", "csi": "1.0.0"}, []),
        (
            {CNI: NEW},
            {"cni": (OLD, "1.17.0")},
            {"cni": "1.17.0", "csi": "1.0.0"},
            ["cluster addon cni has 1.17.0 and is being upgraded to 1.18.0"],
        ),
        ({CNI: NEW}, {"cni": (NEW, "")}, {"cni": "1.18.0", "csi": "1.0.0"}, []),
        ({ALL: NEW}, {"cni": (NEW, "1.18.0")}, {"cni": "1.18.0", "csi": "1.0.0"}, []),
        ({CNI: "none"}, {"cni": (OLD, "1.17.0")}, {"csi": "1.0.0"}, ["cluster addon cni is being removed"]),
    ],
)
async def test_addon_versions_are_the_delivered_ones_of_the_requested_addons(
    annotations: dict[str, str], delivered: dict[str, tuple[str, str]], expected: dict[str, str], told: list[str]
) -> None:
    found = [{"name": name, "release": release, "version": version} for name, (release, version) in delivered.items()]
    there = await with_cluster(annotations, *found)
    context = await there.context()
    assert context.state.addons == expected
    assert list(context.notices) == told
    assert context.state.annotations == annotations


async def test_invalid_annotations_are_reported_with_the_cluster() -> None:
    with pytest.raises(SpecError, match=r"^Cluster team/prod: annotation .* has no addon dns") as caught:
        await (await with_cluster({"clusterstack.x-k8s.io/addon.dns": NEW})).context()
    assert caught.value.code == AddonReleaseRefused("").code
    with pytest.raises(ReleasesUnknown, match="release p-s-1-35-v7, which an annotation names, is not among those"):
        await (await with_cluster({CNI: "p-s-1-35-v7"})).context()


async def test_only_current_rules_for_this_cluster_apply() -> None:
    there = await with_cluster()

    def rule(**spec: Any) -> dict[str, Any]:
        return {"spec": {"severity": "Deny", "message": "no", **spec}}

    await there.has("CompatibilityRule", "counts", rule())
    await there.has("CompatibilityRule", "expired", rule(expires="2026-01-01T00:00:00Z"))
    await there.has("CompatibilityRule", "of-another-stack", rule(stacks=[{"provider": "q"}]))
    await there.has("CompatibilityRule", "broken", rule(when={"kubernetes": ">=2.0 <1.0"}))
    context = await there.context()
    assert [one.fact for one in context.world.rules] == ["rule:counts"]
    assert len(context.notices) == 1
    assert context.notices[0].startswith("a rule does not count: CompatibilityRule broken")


async def test_missing_stacks_and_classes_are_reported_as_preparations() -> None:
    there = await with_cluster()
    context = await there.context()
    goal = parse_target(NEW)
    answer = find_plan(context.world, context.state, goal)
    assert isinstance(answer, Plan)
    lacking = f"no ClusterStack in namespace team offers release {NEW}: first create one there for Kubernetes 1.36"
    assert context.preparations(answer.steps) == [lacking]
    assert context.hints(goal) == [lacking]

    await there.has_stack("1.36")
    answer = find_plan(context.world, context.state, goal)
    context = await there.context()
    assert isinstance(answer, Plan)
    (told,) = context.preparations(answer.steps)
    assert told.startswith("class p-s-1-36-v1 does not exist yet: add v1 to spec.versions of ClusterStack team/s-1-36")

    await there.has_release(NEW, stack="s-1-36")
    assert (await there.context()).preparations(answer.steps) == []


async def test_stack_has_the_policy_of_the_leading_clusterstack() -> None:
    there = await with_cluster()
    await there.has_stack("1.36", name="a-strict-one", compatibility="Strict")
    await there.has_stack("1.36", name="b-lax-one", compatibility="Permissive")
    new = parse_release(NEW)
    assert (await there.context()).offered.policy(new) == "Strict"
    await there.has_release(NEW, stack="b-lax-one")
    context = await there.context()
    assert context.offered.policy(new) == "Permissive"
    assert context.offered.policy(parse_release("p-s-1-37-v1")) == "Range"


async def test_unknown_target_is_rejected_with_the_stack_that_should_offer_it() -> None:
    there = await with_cluster()
    context, unknown = await there.context(), parse_release("p-s-1-36-v7")
    problem = "^release p-s-1-36-v7 is not among those that could be read: check its name; "
    with pytest.raises(SpecError, match=f"{problem}no ClusterStack in namespace \\S+ offers release p-s-1-36-v7: "):
        context.candidate(unknown)
    await there.has_stack("1.36", name="s-1-36")
    with pytest.raises(SpecError, match=f"{problem}class .+: add v7 to spec.versions of ClusterStack \\S+/s-1-36 "):
        (await there.context()).candidate(unknown)
    await there.has_release("p-s-1-36-v7", stack="s-1-36")
    with pytest.raises(SpecError, match=f"{problem}if it is right, publish it"):
        (await there.context()).candidate(unknown)
    with pytest.raises(SpecError, match="stays with its provider and stack"):
        context.candidate(parse_release("p-t-1-36-v1"))


def topology(context: UpgradeContext, target: str) -> tuple[Manifest, Manifest]:
    written = moved_to(context, parse_target(target))
    return written["spec"]["topology"], written["metadata"].get("annotations", {})


async def test_topology_of_the_target_is_one_write_and_keeps_other_annotations() -> None:
    annotations = {CNI: NEW, ALL: NEW, "example.org/kept": "yes"}
    there = await with_cluster(annotations)
    context = await there.context()
    old = {"classRef": {"name": "p-s-1-35-v1"}, "version": "v1.35.4"}
    assert topology(context, "v1.36.1") == ({**old, "version": "v1.36.1"}, annotations)
    assert topology(context, OLD) == (old, {"example.org/kept": "yes"})
    new = {"classRef": {"name": "p-s-1-36-v1"}, "version": "v1.36.1"}
    assert topology(context, NEW) == (new, {"example.org/kept": "yes"})
    assert context.cluster.view.raw["spec"]["topology"] == old, "what the server has stays as it is"


async def test_topology_of_a_bundle_has_its_exact_version() -> None:
    there = management(**BOTH, p_s_1_35_v2=stated("v1.35.1"))
    await there.has_stack()
    await there.has_cluster(OLD)
    written, _ = topology(await there.context(), "p-s-1-35-v2")
    assert written["version"] == "v1.35.1"


async def test_combination_has_the_requested_addons_with_their_releases() -> None:
    context = await (await with_cluster({CNI: NEW})).context()

    combined = context.combination()

    assert combined.name.release == OLD
    assert combined.compatibility is not None
    assert [(one.addon, one.text, one.source) for one in combined.compatibility.components] == [
        ("cni", "1.18.0", f"release {NEW}"),
        ("csi", "1.0.0", f"release {OLD}"),
    ]


async def test_the_combination_of_a_bundle_is_the_bundle() -> None:
    there = management(**BOTH, p_s_1_35_v2=stated("v1.35.1"))
    await there.has_stack()
    await there.has_cluster("p-s-1-35-v2", version="v1.35.1")

    combined = (await there.context()).combination()

    assert combined.is_bundle
    assert combined.name.release == "p-s-1-35-v2"
