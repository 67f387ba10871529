from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.semver import SemVer
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.plan.compat.community_facts import facts_of_endoflife, facts_of_plural
from clusterstacks.plan.compat.library import read_facts

if TYPE_CHECKING:
    from clusterstacks.plan.compat.statements import ComponentFacts

TODAY = date(2026, 11, 27)
PLURAL = {
    "helm_repository_url": "https://charts.example.org",
    "versions": [
        {"version": "1.2.3", "kube": ["1.36", "1.35"], "chart_version": "4.0.0"},
        {"version": "1.2.0", "kube": ["1.34", "1.32", 1.3]},
        {"version": "0.9.0-rc.1", "kube": ["1.30"]},
        {"version": "latest", "kube": ["1.30"]},
        {"version": "0.8.0", "kube": 1.3},
        {"version": "0.7.0+build", "kube": ["1.30"]},
        "none",
    ],
}
ENDOFLIFE = """\
---
title: A mesh
releases:
  - releaseCycle: "1.29"
    releaseDate: 2026-02-16
    eol: 2026-08-31
    supportedKubernetesVersions: "1.31 - 1.35"
  - releaseCycle: "3"
    eol: 2026-01-01
  - releaseCycle: "1.8"
    releaseDate: 2022-10-10
    eol: false
    supportedK8sVersions: 1.23.3 - 1.25
  - releaseCycle: "1.7"
    eol: false
    supportedK8sVersions: N/A # not listed
  - releaseCycle: "next"
    eol: 2026-01-01
---

> text
"""


def read(document: object) -> ComponentFacts:
    assert document is not None
    return read_facts(yaml.dump(document).encode(), "mesh")


@pytest.mark.parametrize(
    ("version", "kubernetes", "verdict"),
    [
        ("1.2.3", "v1.35.1", "ok"),
        ("1.2.9", "v1.36.1", "ok"),
        ("1.2.3", "v1.34.1", "untested"),
        ("1.2.2", "v1.34.1", "ok"),
        ("1.2.2", "v1.33.1", "untested"),
        ("1.3.0", "v1.36.1", "unknown"),
        ("0.8.0", "v1.36.1", "unknown"),
    ],
)
def test_row_of_plural_is_about_its_version_and_the_patches_after_it(
    version: str, kubernetes: str, verdict: str
) -> None:
    facts = read(facts_of_plural("mesh", PLURAL, TODAY))

    judgement = facts.judge(SemVer.parse(version), KubernetesVersion.parse(kubernetes))

    assert judgement.verdict == verdict
    assert ("community facts of 2026-11-27" in judgement.text) is (verdict != "unknown")


def test_community_facts_never_make_a_pair_incompatible() -> None:
    document = facts_of_plural("mesh", PLURAL, TODAY)
    assert document is not None
    hard = {"kubernetesHard": ">=1.35", "hardSource": "plural"}
    facts = read({**document, "outside": "incompatible", "versions": [{**document["versions"][-1], **hard}]})

    for kubernetes in ("v1.33.0", "v1.37.0"):
        assert facts.judge(SemVer.parse("1.2.3"), KubernetesVersion.parse(kubernetes)).verdict == "untested"


def test_product_of_endoflife_has_ranges_and_days() -> None:
    facts = read(facts_of_endoflife("mesh", ENDOFLIFE, TODAY))

    assert [
        (one.text, str(one.kubernetes), str(one.support_end and one.support_end.day)) for one in facts.statements
    ] == [
        ("1.29", ">=1.31 <1.36", "2026-08-31"),
        (">=3.0 <4.0", "None", "2026-01-01"),
        ("1.8", ">=1.23.3 <1.26", "None"),
    ]


def test_data_without_a_usable_row_gives_no_facts() -> None:
    assert facts_of_plural("mesh", {"versions": []}, TODAY) is None
    assert facts_of_endoflife("mesh", "---\nreleases: []\n---\n", TODAY) is None


@pytest.mark.parametrize(
    "content", ["", "-----BEGIN PRIVATE KEY-----\nAA\n", "---\ntitle: a\n---\n", "---\nreleases: 1\n---\n"]
)
def test_another_file_than_a_product_is_refused(content: str) -> None:
    with pytest.raises(SpecError, match="name a file of the directory products"):
        facts_of_endoflife("mesh", content, TODAY)
