"""The built-in facts, the reader of facts files, and files that users install."""

from __future__ import annotations

from datetime import date
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusterstacks.model import yaml
from clusterstacks.model.documents import DocumentError
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import UpgradeRule
from clusterstacks.model.semver import SemVer
from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
from clusterstacks.plan.compat import library
from clusterstacks.plan.compat.facts_reader import check_consistency, parse_facts
from clusterstacks.plan.compat.kubernetes import judge_api, known_minors, skew_rules, supported_minors
from clusterstacks.plan.compat.library import facts, install
from clusterstacks.plan.compat.rules.skew import OTHER_API_SERVERS, judge_skew
from clusterstacks.plan.compat.verdicts import Verdict

if TYPE_CHECKING:
    from pathlib import Path

DAY = date(2026, 11, 27)
FILES = sorted(
    file.name for file in resources.files(library.__package__).joinpath("facts").iterdir() if file.name != "README.md"
)

NET = """\
schemaVersion: 1
component: net
title: A network
category: cni
semantics: Listed minors are tested.
sources:
- {id: page, url: https://net.example/matrix, retrieved: '2026-11-20', authority: upstream}
versions:
- {version: '1.2', kubernetes: '>=1.30 <1.34', kind: tested, source: page}
- {version: '1.2', kubernetesHard: '>=1.20', hardSource: page, kind: built-with, source: page}
upgrade: {maxMinorStep: 1, since: '1.1.0', source: page}
"""


def document(**changes: Any) -> dict[str, Any]:
    return {**yaml.load(NET, name="net.yaml"), **changes}


def statement(**changes: Any) -> dict[str, Any]:
    return document(versions=[{**document()["versions"][0], **changes}])


def source(**changes: Any) -> dict[str, Any]:
    return document(sources=[{**document()["sources"][0], **changes}])


def parse(content: object) -> None:
    parse_facts(content, file="net.yaml", supported=supported_minors)


@pytest.mark.parametrize("file", FILES)
def test_every_facts_file_follows_the_schema(file: str) -> None:
    content = resources.files(library.__package__).joinpath("facts", file).read_bytes()

    check_consistency(yaml.load(content, name=file), file=file, today=DAY)


def test_every_facts_file_has_the_name_of_its_component() -> None:
    known = facts().components

    assert len(known) == len(FILES) - 2  # those of Kubernetes itself
    assert all(known[name].name == name and known[name].read in {"2026-11-20", "2026-11-27"} for name in known)


OUTSIDE = {
    "argo-cd": "untested",
    "aws-cloud-controller-manager": "incompatible",
    "aws-ebs-csi-driver": "unknown",
    "azure-cloud-controller-manager": "incompatible",
    "azuredisk-csi-driver": "incompatible",
    "calico": "untested",
    "cdi": None,
    "cert-manager": "untested",
    "cilium": "untested",
    "cluster-api": "untested",
    "cluster-api-provider-openstack": "untested",
    "cluster-autoscaler": "untested",
    "containerd": "untested",
    "contour": "untested",
    "coredns": "unknown",
    "descheduler": "untested",
    "etcd": "unknown",
    "external-dns": "incompatible",
    "external-secrets": "untested",
    "falco": None,
    "fluent-bit": None,
    "flux": "untested",
    "gatekeeper": "untested",
    "gateway-api": "untested",
    "harbor": "incompatible",
    "hcloud-cloud-controller-manager": "untested",
    "hcloud-csi-driver": "untested",
    "helm": "untested",
    "ingress-nginx": "untested",
    "istio": "untested",
    "keda": "untested",
    "kube-prometheus-stack": "incompatible",
    "kube-proxy": "incompatible",
    "kube-vip": None,
    "kubevirt": "untested",
    "kyverno": "untested",
    "linkerd": "untested",
    "local-path-provisioner": "unknown",
    "longhorn": "incompatible",
    "metallb": "incompatible",
    "metrics-server": "incompatible",
    "multus": "unknown",
    "node-problem-detector": None,
    "openstack-cinder-csi": "unknown",
    "openstack-cloud-controller-manager": "incompatible",
    "openstack-resource-controller": "incompatible",
    "rook-ceph": "untested",
    "snapshot-controller": "incompatible",
    "traefik": "incompatible",
    "trivy-operator": None,
    "velero": "untested",
}
"""What holds outside of the ranges, component by component, as the projects' words ask for."""


def test_verdict_outside_the_ranges_is_set_for_each_project() -> None:
    assert {name: one.outside_verdict for name, one in facts().components.items()} == OUTSIDE


@pytest.mark.parametrize(
    ("component", "version", "kubernetes", "verdict", "words"),
    [
        ("openstack-cloud-controller-manager", "1.34.1", "v1.34.2", "ok", "is documented for Kubernetes >=1.34 <1.35"),
        ("openstack-cloud-controller-manager", "1.34.1", "v1.35.0", "ok", "for the time of an upgrade"),
        ("openstack-cloud-controller-manager", "1.34.1", "v1.36.0", "incompatible", ">=1.34 <1.36"),
        ("openstack-cloud-controller-manager", "1.34.1", "v1.33.9", "incompatible", "and may run"),
        ("aws-cloud-controller-manager", "1.33.0", "v1.35.0", "incompatible", "supports Kubernetes >=1.33 <1.34"),
        ("openstack-cinder-csi", "1.34.0", "v1.34.2", "ok", "is documented for"),
        ("openstack-cinder-csi", "1.34.0", "v1.35.0", "unknown", "is documented for"),
        ("kube-proxy", "1.33.1", "v1.36.2", "ok", "supports"),
        ("kube-proxy", "1.33.1", "v1.37.0", "incompatible", "supports"),
        ("kube-proxy", "1.33.1", "v1.32.0", "incompatible", "supports"),
        ("hcloud-csi-driver", "2.18.3", "v1.33.0", "ok", ">=1.33 <1.34"),
        ("hcloud-csi-driver", "2.18.3", "v1.36.0", "untested", "supports Kubernetes >=1.32 <1.36"),
        ("longhorn", "1.11.2", "v1.30.0", "ok", ">=1.25"),
        ("longhorn", "1.11.3", "v1.30.0", "incompatible", ">=1.34"),
        ("longhorn", "1.3.0", "v1.25.0", "incompatible", ">=1.18 <1.25"),
        ("cert-manager", "1.20.0", "v1.36.0", "untested", "is tested with"),
        ("ingress-nginx", "1.9.6", "v1.29.0", "ok", ">=1.25 <1.30"),
        ("ingress-nginx", "1.9.5", "v1.29.0", "untested", ">=1.25 <1.29"),
        ("aws-ebs-csi-driver", "1.40.0", "v1.37.0", "ok", ">=1.35 <1.38"),
        ("aws-ebs-csi-driver", "1.40.0", "v1.30.0", "unknown", ">=1.35 <1.38"),
        ("aws-ebs-csi-driver", "1.40.0", "v1.16.0", "incompatible", "needs Kubernetes >=1.17"),
        ("cluster-api", "1.13.0", "v1.20.0", "untested", "is tested with"),
        ("etcd", "3.5.24", "v1.33.6", "ok", "kubeadm deploys"),
        ("etcd", "3.5.24", "v1.33.5", "unknown", "kubeadm deploys"),
        ("kube-vip", "1.0.0", "v1.33.0", "unknown", "no range of Kubernetes versions is published"),
        ("cilium", "1.20.2", "v1.34.0", "ok", "(low confidence, facts of"),
        ("cilium", "1.18.2", "v1.33.0-rc.1", "incompatible", "v1.33.0-rc.1 is a pre-release, which is in no range"),
        ("cilium", "1.18.0-rc.1", "v1.33.0", "unknown", "nothing is known about cilium 1.18.0-rc.1"),
        ("external-dns", "0.17.0", "v1.33.0", "incompatible", "supports Kubernetes >=1.19 <1.33"),
        ("external-dns", "0.18.0", "v1.36.0", "ok", ">=1.21"),
        ("argo-cd", "3.1.4", "v1.30.0", "ok", ">=1.30 <1.34"),
        ("argo-cd", "3.5.0", "v1.24.0", "incompatible", "needs Kubernetes >=1.25"),
        ("istio", "1.28.1", "v1.35.0", "untested", "supports Kubernetes >=1.29 <1.35"),
        ("snapshot-controller", "8.2.0", "v1.24.0", "incompatible", ">=1.25"),
        ("flux", "2.9.1", "v1.32.0", "untested", ">=1.33"),
        ("traefik", "3.7.1", "v1.24.0", "incompatible", "needs Kubernetes >=1.25"),
        ("gatekeeper", "3.23.0", "v1.37.0", "ok", ">=1.35 <1.38"),
        ("velero", "1.18.1", "v1.36.0", "ok", "is documented for Kubernetes >=1.18"),
        ("fluent-bit", "5.1.1", "v1.36.0", "unknown", "no range of Kubernetes versions is published"),
        ("openstack-resource-controller", "2.6.0", "v1.36.0", "unknown", "nothing is known about openstack-resource"),
        ("mine", "1.0.0", "v1.33.0", "unknown", "nothing is known about mine"),
    ],
)
def test_verdict_of_a_version_pair_follows_the_statement_of_the_project(
    component: str, version: str, kubernetes: str, verdict: str, words: str
) -> None:
    judgement = facts().judge(component, SemVer.parse(version), KubernetesVersion.parse(kubernetes))

    assert judgement.verdict == verdict
    assert words in judgement.text


@pytest.mark.parametrize(
    ("component", "version", "rule"),
    [
        ("cilium", "1.18.2", UpgradeRule(1)),
        ("longhorn", "1.5.0", UpgradeRule(1)),
        ("longhorn", "1.4.9", None),  # the rule holds since 1.5.0
        ("cluster-api", "1.11.0", UpgradeRule(3)),
        ("cert-manager", "1.20.0", None),  # only recommended
        ("hcloud-csi-driver", "2.18.0", None),  # any step
        ("calico", "3.32.0", None),  # nothing stated
        ("mine", "1.0.0", None),
    ],
)
def test_only_binding_upgrade_rules_are_returned(component: str, version: str, rule: UpgradeRule | None) -> None:
    assert facts().upgrade_rule(component, SemVer.parse(version)) == rule


@pytest.mark.parametrize(
    ("program", "minor", "reference", "verdict", "words"),
    [
        ("kubelet", "1.33", "1.36", "ok", "at most 3 minors older and never newer than kube-apiserver 1.36"),
        ("kubelet", "1.32", "1.36", "incompatible", "at most 3 minors older"),
        ("kubelet", "1.24", "1.27", "incompatible", "at most 2 minors older"),
        ("kubelet", "1.37", "1.36", "incompatible", "never newer"),
        ("kube-proxy", "1.33", "1.36", "ok", ""),
        ("kube-controller-manager", "1.35", "1.36", "ok", "at most 1 minor older"),
        ("kube-controller-manager", "1.34", "1.36", "incompatible", ""),
        ("kube-scheduler", "1.37", "1.36", "incompatible", ""),
        ("cloud-controller-manager", "1.35", "1.36", "ok", ""),
        ("cloud-controller-manager", "1.34", "1.36", "incompatible", ""),
        ("kubectl", "1.37", "1.36", "ok", "at most 1 minors older and 1 newer"),
        ("kubelet", "2.36", "1.36", "incompatible", ""),
        ("mine", "1.36", "1.36", "unknown", "no rule is known"),
    ],
)
def test_version_skew_limits_of_kubernetes_components_are_known(
    program: str, minor: str, reference: str, verdict: str, words: str
) -> None:
    judgement = judge_skew(skew_rules(), program, KubernetesMinor.parse(minor), KubernetesMinor.parse(reference))

    assert judgement.verdict == verdict
    assert words in judgement.text


def test_api_servers_of_one_cluster_are_one_minor_apart() -> None:
    judged = [
        judge_skew(skew_rules(), "kube-apiserver", KubernetesMinor(1, minor), KubernetesMinor(1, 35), OTHER_API_SERVERS)
        for minor in (33, 34, 35, 36, 37)
    ]

    assert [one.verdict == "ok" for one in judged] == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("minor", "verdict"), [("1.24", Verdict.OK), ("1.25", Verdict.INCOMPATIBLE), ("1.30", Verdict.INCOMPATIBLE)]
)
def test_removed_api_version_is_judged_by_the_minor_that_removes_it(minor: str, verdict: Verdict) -> None:
    judgement = judge_api("policy/v1beta1", "PodDisruptionBudget", KubernetesMinor.parse(minor))

    assert judgement.verdict is verdict
    assert "Kubernetes 1.25" in judgement.text
    assert "write it as policy/v1" in judgement.text
    assert judge_api("apps/v1", "Deployment", KubernetesMinor.parse(minor)).verdict is Verdict.OK


def test_kubernetes_minors_are_ordered_and_supported_until_their_end_of_life() -> None:
    assert known_minors()[0] == KubernetesMinor(1, 22)
    assert known_minors()[-1] == KubernetesMinor(1, 37)
    assert str(supported_minors()) == ">=1.35 <1.38"


WRONG: list[tuple[object, str]] = [
    (None, r"net\.yaml: the document is missing"),
    ([], r"net\.yaml: the document is a list"),
    (document(schemaVersion=2), r"schemaVersion is 2: write 1"),
    (document(component="../net"), r"component is '\.\./net'"),
    (document(component=1), r"component is 1"),
    (document(mine=1), r"has the unknown field mine"),
    (document(semantics=""), r"semantics is ''"),
    (document(outside="ok"), r"outside is 'ok': write untested, incompatible or unknown"),
    (document(sources=[]), r"sources is a list: name at least one"),
    (document(sources=document()["sources"] * 2), r"sources\[1\]\.id is 'page'"),
    (source(retrieved="yesterday"), r"sources\[0\]\.retrieved is 'yesterday': write a day"),
    (source(retrieved=None), r"sources\[0\]\.retrieved is missing"),
    (source(authority="me"), r"sources\[0\]\.authority is 'me'"),
    (source(mine=1), r"sources\[0\] has the unknown field mine"),
    (statement(version=1.2), r"versions\[0\]\.version is 1\.2"),
    (statement(version="new"), r"versions\[0\]\.version: 'new' is not a valid version range"),
    (statement(kubernetes=">=1.34 <1.30"), r"versions\[0\]\.kubernetes: .*contains no version"),
    (statement(kind="sure"), r"versions\[0\]\.kind is 'sure': write tested, recommended"),
    (statement(source="pages"), r"versions\[0\]\.source is 'pages': write the id of a source: page"),
    (statement(source=["page"]), r"versions\[0\]\.source is a list"),
    (statement(kubernetesHard=">=1.20"), r"versions\[0\]\.hardSource is missing"),
    (statement(kubernetsHard=">=1.20"), r"versions\[0\] has the unknown field kubernetsHard"),
    (statement(kubernetesRule="all"), r"versions\[0\]\.kubernetesRule is 'all'"),
    (statement(role="user"), r"versions\[0\]\.role is 'user'"),
    (statement(confidence="high"), r"versions\[0\]\.confidence is 'high'"),
    (document(upgrade={"maxMinorStep": 0, "source": "page"}), r"upgrade\.maxMinorStep is 0"),
    (document(upgrade={"maxMinorStep": True, "source": "page"}), r"upgrade\.maxMinorStep is True"),
    (document(upgrade={"downgrade": "no", "source": "page"}), r"upgrade\.downgrade is 'no'"),
    (document(upgrade={"maxMinorStep": 1, "since": "x", "source": "page"}), r"upgrade\.since is 'x'"),
    (document(upgrade={"maxMinorStep": 1}), r"upgrade\.source is missing"),
    (document(charts=[{"name": "net"}]), r"charts\[0\]\.repository is missing"),
]


@pytest.mark.parametrize(("content", "told"), WRONG)
def test_facts_file_of_another_shape_is_rejected_with_file_and_field(content: object, told: str) -> None:
    with pytest.raises(DocumentError, match=told):
        parse(content)


INCONSISTENT: list[tuple[object, str]] = [
    (statement(corroboratedBy=["blog"]), r"versions\[0\]\.corroboratedBy\[0\] is 'blog'"),
    (document(rules=[{"id": "a", "source": "blog"}]), r"rules\[0\]\.source is 'blog'"),
    (document(sources=[*document()["sources"], {**document()["sources"][0], "id": "b"}]), r"b is not referenced"),
    (source(published="2026-11-28"), r"sources\[0\]\.published is '2026-11-28': .*today is 2026-11-27"),
    (statement(released="2026-01-02", eol="2026-01-02"), r"versions\[0\]\.eol .*after 2026-01-02"),
    (document(versions=document()["versions"][:1] * 2), r"versions\[1\] repeats"),
]


@pytest.mark.parametrize(("content", "told"), INCONSISTENT)
def test_contradicting_facts_file_is_rejected(content: object, told: str) -> None:
    parse(content)
    with pytest.raises(DocumentError, match=told):
        check_consistency(content, file="net.yaml", today=DAY)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just("page"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*document(), "id", "kind"]), inner),
    max_leaves=6,
)


@example("category", {"sources": {}})
@given(st.sampled_from(sorted(document())), VALUES)
def test_arbitrary_field_value_is_read_or_rejected(field: str, value: object) -> None:
    try:
        parse(document(**{field: value}))
        check_consistency(document(**{field: value}), file="net.yaml", today=DAY)
    except DocumentError as error:
        assert error.message.startswith("net.yaml: ")  # noqa: PT017 - either outcome is fine


def test_installed_file_replaces_the_built_in_file(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(NET.replace("component: net", "component: cilium"))
    into = tmp_path / "installed"
    found = install(file, into, DAY)

    known = facts(into).components
    assert known["cilium"].origin == found.origin == str(into / "cilium.yaml")
    assert [path.name for path in into.iterdir()] == ["cilium.yaml"]
    assert known["cilium"].judge(SemVer(1, 2), KubernetesVersion(1, 33, 0)).verdict is Verdict.OK
    assert known["calico"].origin == ""
    assert facts().components["cilium"].origin == ""


def test_installed_file_may_describe_a_new_component(tmp_path: Path) -> None:
    file = tmp_path / "net.yaml"
    file.write_text(NET)
    install(file, tmp_path / "installed", DAY)

    known = facts(tmp_path / "installed").components
    assert "net" in known
    assert "net" in list(known)
    assert len(known) == len(facts().components) + 1
    assert facts(tmp_path / "installed").upgrade_rule("net", SemVer(1, 2)) == UpgradeRule(1)


@pytest.mark.parametrize("component", ["kubernetes", "kubernetes-api"])
def test_facts_on_kubernetes_itself_are_not_installed(tmp_path: Path, component: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(NET.replace("component: net", f"component: {component}"))

    with pytest.raises(SpecError, match="about Kubernetes itself"):
        install(file, tmp_path / "installed", DAY)


@pytest.mark.parametrize("content", [b"", b"[", b"\xff", NET.replace("1.30", "new").encode()])
def test_invalid_file_is_not_installed(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(content)

    with pytest.raises(SpecError, match=r"x\.yaml"):
        install(file, tmp_path / "installed", DAY)
    assert not (tmp_path / "installed").exists()


def test_damaged_installed_file_is_named_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "cilium.yaml").write_text(NET)
    (tmp_path / "calico.yaml").write_text("[")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "longhorn.yaml").mkdir()
    known = facts(tmp_path).components

    assert known["metrics-server"].origin == ""
    for name, told in (
        ("cilium", "is about net"),
        ("calico", r"calico\.yaml, line .*remove it"),
        ("longhorn", "cannot be read: .*remove it"),
    ):
        with pytest.raises(SpecError, match=told):
            known[name]
