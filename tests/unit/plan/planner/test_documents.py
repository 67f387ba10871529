"""What a plan is told as: document, patches, words."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.addon_annotations import annotations_digest
from clusterstacks.model.names import parse_target
from clusterstacks.plan.compat.world import Candidate, World
from clusterstacks.plan.planner.plan_document import plan_document
from clusterstacks.plan.planner.planner import NoPlan, Plan, find_plan
from clusterstacks.plan.planner.state_file import parse_state
from tests.support.planner_oracle import candidate

PREFIX = "clusterstack.x-k8s.io/addon."


def release(name: str, kubernetes: str, stated: str, *components: dict[str, Any]) -> Candidate:
    return candidate(name, kubernetes, {"kubernetes": stated, "components": list(components)})


def component(addon: str, version: str, kubernetes: str, **more: Any) -> dict[str, Any]:
    return {"name": f"{addon}-software", "addon": addon, "version": version, "kubernetes": kubernetes, **more}


OLD = release(
    "p-s-1-35-v1",
    "v1.35.1",
    ">=1.34 <1.37",
    component("cni", "1.17.0", ">=1.30 <1.36", source="https://example.com/matrix"),
    component("csi", "1.1.0", ">=1.30"),
)
NEW = release(
    "p-s-1-36-v1",
    "v1.36.1",
    ">=1.36 <1.38",
    component("cni", "1.18.0", ">=1.33 <1.37"),
    component("csi", "1.1.0", ">=1.30"),
    component("dns", "1.0.0", ">=1.30 <1.36", kind="tested"),
)


def document(*releases: Candidate, state: dict[str, Any], to: str) -> dict[str, Any]:
    world, start, target = World(releases), parse_state(state, file="STATE.yaml"), parse_target(to)
    answer = find_plan(world, start, target)
    assert isinstance(answer, (Plan, NoPlan))
    return plan_document(world, start, target, answer)


def observed(field: str, value: str, timeout: str = "15m") -> dict[str, Any]:
    return {"kind": "ClusterAddon", "for": f"jsonpath={{.status.{field}}}={value}", "timeout": timeout}


def delivered(addon: str, name: str) -> dict[str, Any]:
    return observed(f'addons[?(@.name=="{addon}")].release', name)


ADDONS_READY = {"kind": "Cluster", "for": "condition=ClusterStackAddonsReady", "timeout": "15m"}


@pytest.mark.regression("LIVE-H5")
def test_the_end_of_a_removed_addon_is_awaited_by_the_annotations_it_leaves() -> None:
    fewer = release("p-s-1-35-v2", "v1.35.1", ">=1.34 <1.37", component("cni", "1.17.0", ">=1.30 <1.36"))
    found = document(OLD, fewer, state={"kubernetes": "v1.35.1", "class": "p-s-1-35-v1"}, to="p-s-1-35-v2")
    cluster: dict[str, Any] = {"example.org/other": "y"}
    awaited = []
    for step in found["steps"]:
        changed = (step["patch"].get("metadata") or {}).get("annotations") or {}
        cluster = {key: value for key, value in {**cluster, **changed}.items() if value is not None}
        if step["kind"] == "addon" and step["to"] is None:
            awaited.append(step["waits"])
            assert step["waits"] == [observed("observedAddonAnnotations", annotations_digest(cluster)), ADDONS_READY]
    assert len(awaited) == 1


def test_the_whole_document_of_a_plan() -> None:
    found = document(OLD, NEW, state={"kubernetes": "v1.35.1", "class": "p-s-1-35-v1"}, to="p-s-1-36-v1")

    assert found["from"] == {
        "kubernetes": "v1.35.1",
        "class": "p-s-1-35-v1",
        "addons": {"cni": "1.17.0", "csi": "1.1.0"},
    }
    assert found["to"] == {
        "kubernetes": "v1.36.1",
        "class": "p-s-1-36-v1",
        "addons": {"cni": "1.18.0", "csi": "1.1.0", "dns": "1.0.0"},
    }
    assert (found["cost"], found["refused"]) == (12, None)
    assert found["steps"] == [
        {
            "kind": "addon",
            "name": "cni",
            "from": "1.17.0",
            "to": "1.18.0",
            "release": "p-s-1-36-v1",
            "kubernetes": "v1.35.1",
            "patch": {"metadata": {"annotations": {f"{PREFIX}cni": "p-s-1-36-v1"}}},
            "reason": "needed for Kubernetes v1.36.1: cni-software 1.17.0 works with Kubernetes >=1.30 <1.36",
            "waits": [delivered("cni", "p-s-1-36-v1")],
        },
        {
            "kind": "class",
            "name": None,
            "from": "p-s-1-35-v1",
            "to": "p-s-1-36-v1",
            "release": "p-s-1-36-v1",
            "kubernetes": "v1.36.1",
            # csi is the same in both releases: it needs no annotation before nor after.
            "patch": {
                "metadata": {"annotations": {f"{PREFIX}cni": None, f"{PREFIX}dns": "none"}},
                "spec": {"topology": {"classRef": {"name": "p-s-1-36-v1"}, "version": "v1.36.1"}},
            },
            "reason": "the release asked for",
            "waits": [
                {"kind": "Cluster", "for": "condition=TopologyReconciled", "timeout": "2h"},
                observed("observedKubernetesVersion", "v1.36.1", "2h"),
                ADDONS_READY,
            ],
        },
        {
            "kind": "addon",
            "name": "dns",
            "from": None,
            "to": "1.0.0",
            "release": "p-s-1-36-v1",
            "kubernetes": "v1.36.1",
            "patch": {"metadata": {"annotations": {f"{PREFIX}dns": None}}},
            "reason": "release p-s-1-36-v1 has it",
            "waits": [delivered("dns", "p-s-1-36-v1")],
        },
    ]
    assert found["warnings"] == [
        "untested: dns-software 1.0.0 is tested with Kubernetes >=1.30 <1.36, and the plan passes Kubernetes v1.36.1"
    ]


def test_a_class_that_moves_while_an_addon_stays_behind_names_its_release() -> None:
    newer = release("p-s-1-35-v2", "v1.35.1", ">=1.35 <1.37", component("cni", "1.19.0", ">=1.36"))
    found = document(OLD, newer, state={"kubernetes": "v1.35.1", "class": "p-s-1-35-v1"}, to="p-s-1-35-v2")
    assert found["refused"]["message"].startswith("release p-s-1-35-v2 is out of reach")

    newer = release("p-s-1-35-v2", "v1.35.1", ">=1.35 <1.37", component("cni", "1.17.0", ">=1.30 <1.37"))
    only_cni = {"kubernetes": "v1.35.1", "class": "p-s-1-35-v1", "addons": {"cni": "1.17.0"}}
    found = document(OLD, newer, state=only_cni, to="p-s-1-35-v2")
    (step,) = found["steps"]
    assert step["patch"]["metadata"]["annotations"] == {f"{PREFIX}cni": "p-s-1-35-v1", f"{PREFIX}csi": None}


def test_waiting_for_workers_writes_nothing() -> None:
    state = {"kubernetes": "v1.35.1", "workers": "v1.34.2", "class": "p-s-1-35-v1"}
    (step,) = document(OLD, state=state, to="v1.35.1")["steps"]
    assert (step["kind"], step["from"], step["to"], step["patch"]) == ("workers", "v1.34.2", "v1.35.1", None)


def test_a_refusal_names_the_facts_their_sources_and_what_comes_closest() -> None:
    stuck = release("p-s-1-36-v1", "v1.36.1", ">=1.35 <1.38", component("cni", "1.18.0", ">=1.36 <1.37"))
    found = document(OLD, stuck, state={"kubernetes": "v1.35.1", "class": "p-s-1-35-v1"}, to="v1.36.1")

    assert found["steps"] == []
    assert found["to"] == {"kubernetes": "v1.36.1", "class": None, "addons": None}
    refused = found["refused"]
    assert [fact["id"] for fact in refused["facts"]] == [
        "component:cni-software@1.17.0:kubernetes",
        "component:cni-software@1.18.0:kubernetes",
    ]
    assert refused["facts"][0]["source"] == "https://example.com/matrix"
    assert refused["message"] == (
        "no release offers a version of cni-software that works with both Kubernetes 1.35 and 1.36; "
        "cni-software 1.17.0 of release p-s-1-35-v1 comes closest, which works with Kubernetes >=1.30 <1.36"
    )
    assert refused["nearest"].startswith("cni-software 1.17.0")


@pytest.mark.parametrize(
    ("state", "to", "message"),
    [
        ({"kubernetes": "v1.35.1"}, "v1.34.0", "Kubernetes never goes down, and the cluster has v1.35.1"),
        ({"kubernetes": "v1.35.1"}, "v1.38.0", "no release names a version of 1.37"),
    ],
)
def test_where_the_laws_alone_forbid_it_the_message_says_which(state: dict[str, Any], to: str, message: str) -> None:
    found = document(OLD, NEW, state={**state, "class": "p-s-1-35-v1"}, to=to)
    assert found["refused"]["facts"] == []
    assert message in found["refused"]["message"]


def test_a_cluster_outside_its_ranges_is_warned_of() -> None:
    found = document(OLD, NEW, state={"kubernetes": "v1.36.1", "class": "p-s-1-35-v1"}, to="p-s-1-36-v1")
    assert found["warnings"][0] == (
        "the cluster is outside what is allowed already: cni-software 1.17.0 works with Kubernetes >=1.30 <1.36"
    )


@pytest.mark.parametrize(
    ("state", "complaint"),
    [
        ([], "the document is a list: write a mapping"),
        ({"class": "p-s-1-35-v1"}, "kubernetes is missing: expected a full Kubernetes version"),
        ({"kubernetes": "1.35", "class": "p-s-1-35-v1"}, r"kubernetes is '1\.35'"),
        ({"kubernetes": "v1.35.1"}, "class is missing: expected the release"),
        ({"kubernetes": "v1.35.1", "class": "nonsense"}, "class is 'nonsense': expected the name of a release"),
        ({"kubernetes": "v1.35.1", "class": "p-s-1-35-v1", "addon": {}}, "unknown field addon: known are kubernetes"),
        ({"kubernetes": "v1.35.1", "class": "p-s-1-35-v1", "addons": {"cni": 1.1}}, r"addons\.cni is 1\.1"),
        ({"kubernetes": "v1.35.1", "class": "p-s-1-35-v1", "addons": {"cni": "main"}}, r"addons\.cni is 'main'"),
        ({"kubernetes": "v1.35.1", "class": "p-s-1-35-v1", "labels": {"a": 1}}, r"labels\.a is 1"),
    ],
)
def test_a_state_that_cannot_be_read_is_refused_with_its_field(state: object, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        parse_state(state, file="STATE.yaml")


def test_class_and_target_may_be_named_either_way() -> None:
    state = parse_state({"kubernetes": "1.35.1", "class": "p-s-1-35-v0-sha.abc"}, file="STATE.yaml")
    assert state.release.release == "p-s-1-35-v0-sha-abc"
    assert str(parse_target("p-s-1-35-v0-sha.abc")) == "p-s-1-35-v0-sha-abc"
    with pytest.raises(SpecError, match="is not a valid target"):
        parse_target("latest")
