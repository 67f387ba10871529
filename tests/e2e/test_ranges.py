"""``csctl demo --ranges`` as its users type it: the refused upgrade, the way out, and a plan followed to its end."""

from __future__ import annotations

import re

import pytest

from tests.support.running.csctl import demo_output


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints."""
    return demo_output(tmp_path_factory.mktemp("states"), "--ranges")


def passage(told: str, title: str) -> dict[str, list[str]]:
    """The changes of one write, by what happened to the objects."""
    _, _, after = told.partition(f"\n{title}")
    found: dict[str, list[str]] = {}
    happened = ""
    for line in after.splitlines()[1:]:
        matched = re.fullmatch(r"  (created|changed|removed|left| {7}) +(.+)", line)
        if matched is None:
            break
        happened = matched[1].strip() or happened
        found.setdefault(happened, []).append(matched[2])
    return found


def test_the_upgrade_is_refused_in_words_that_name_fact_and_way_out(told: str) -> None:
    assert 'admission webhook "clusters.clusterstack.x-k8s.io" denied the request' in told
    assert "cluster addon network: demo-network 2.3.1 works with Kubernetes >=1.33 <1.36" in told
    assert "upgrade cluster addon network to 2.4.0 (release local-ranges-1-36-v1 has it)" in told


def test_the_annotation_moves_the_one_addon(told: str) -> None:
    assert passage(told, "Addon network to 2.4.0") == {
        "created": ["Service kube-system/demo-network-flows"],
        "changed": ["DaemonSet.apps kube-system/demo-network-agent"],
        "removed": ["nothing"],
        "left": ["4 objects exactly as they were"],
    }


def test_then_kubernetes_moves_and_nothing_else(told: str) -> None:
    untouched = {
        "created": ["nothing"],
        "changed": ["nothing"],
        "removed": ["nothing"],
        "left": ["6 objects exactly as they were"],
    }
    assert passage(told, "Kubernetes from v1.35.4 to v1.36.3, in class local-ranges-1-35-v1") == untouched
    assert "The cluster serves v1.36; infrastructure and control plane are the same objects as before." in told


def test_the_printed_plan_leads_to_its_release(told: str) -> None:
    planned = re.findall(
        r"^(\d)\. (?:change the|update) (class|addon metrics) from (\S+) to ([^\s,]+)", told, re.MULTILINE
    )
    assert planned == [
        ("1", "class", "local-ranges-1-35-v1", "local-ranges-1-36-v1"),
        ("2", "addon metrics", "0.8.1", "0.9.0"),
    ]
    assert passage(told, "Step 1, class to local-ranges-1-36-v1")["left"] == ["6 objects exactly as they were"]
    assert passage(told, "Step 2, addon metrics to 0.9.0")["changed"] == ["Deployment.apps kube-system/demo-metrics"]
