from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.versions import InvalidVersion, KubernetesMinor, KubernetesVersion, StackVersion

WORDS = st.from_regex(r"[0-9A-Za-z_]{1,12}", fullmatch=True)
STACK_VERSIONS = st.builds(StackVersion, st.integers(0, 10**9)) | st.builds(
    StackVersion, st.integers(0, 10**9), WORDS.filter(lambda word: word != "stable"), WORDS
)
KUBERNETES_VERSIONS = st.builds(
    KubernetesVersion,
    st.integers(0, 2),
    st.integers(0, 99),
    st.integers(0, 99),
    st.sampled_from(["", "alpha.0", "alpha.2", "beta.10", "rc.1"]),
    st.sampled_from(["", "+k3s1", "-eks-1", "-gke.12+x"]),
)

IN_ORDER = [
    ["v0", "v1", "v2", "v10"],
    ["v0-beta.1", "v0-beta.2", "v0-beta.10", "v0-beta.rc", "v1-beta.0"],
]

KUBERNETES_IN_ORDER = [
    "v1.34.7",
    "v1.35.0-alpha.0.123+0a1b2c",
    "v1.35.0-alpha.3",
    "v1.35.0-beta.0",
    "v1.35.0-rc.2",
    "v1.35.0-rc.10",
    "v1.35.0",
    "v1.35.0+k3s1",
    "v1.35.2",
    "v1.35.10",
    "v1.100.0",
]


@pytest.mark.parametrize("versions", IN_ORDER)
def test_builds_of_one_channel_compare_as_numbers(versions: list[str]) -> None:
    """D50."""
    for lower, higher in combinations(map(StackVersion.parse, versions), 2):
        assert lower < higher
        assert not higher < lower


@given(st.data(), st.lists(STACK_VERSIONS))
def test_order_of_versions_is_total_across_channels(data: st.DataObject, versions: list[StackVersion]) -> None:
    shuffled = data.draw(st.permutations(versions))

    assert sorted(versions) == sorted(shuffled)


@given(STACK_VERSIONS, STACK_VERSIONS)
def test_the_order_agrees_with_equality(one: StackVersion, other: StackVersion) -> None:
    assert (one == other) == (not one < other and not other < one)


@given(STACK_VERSIONS)
def test_both_spellings_are_parsed_to_the_same_version(version: StackVersion) -> None:
    assert StackVersion.parse(version.dot) == StackVersion.parse(version.dash) == version
    assert StackVersion.parse_dot(version.dot) == StackVersion.parse_dash(version.dash) == version


def test_build_of_the_stable_channel_is_dropped() -> None:
    assert str(StackVersion.parse("v1-stable.3")) == "v1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "v",
        "v1.",
        "v1-beta",
        "v1-beta.",
        "v1-beta.1.2",
        "v1-beta-1-2",
        "v01",
        "v1\n",
        "V1",
        "v-1",
        "v1-b eta.1",
    ],
)
def test_invalid_stack_version_is_rejected(text: str) -> None:
    with pytest.raises(InvalidVersion, match="expected for example v3"):
        StackVersion.parse(text)


@pytest.mark.parametrize("text", ["v\u0661", "v1-beta.é", "v" + "9" * 5000, None, 3, ["v1"]])
def test_non_ascii_digits_huge_numbers_and_other_types_are_rejected(text: object) -> None:
    with pytest.raises(InvalidVersion):
        StackVersion.parse(text)


def test_parser_of_one_spelling_rejects_the_other() -> None:
    with pytest.raises(InvalidVersion):
        StackVersion.parse_dot("v0-beta-1")
    with pytest.raises(InvalidVersion):
        StackVersion.parse_dash("v0-beta.1")


def test_kubernetes_versions_are_totally_ordered() -> None:
    for lower, higher in combinations(map(KubernetesVersion.parse, KUBERNETES_IN_ORDER), 2):
        assert lower < higher


@given(KUBERNETES_VERSIONS)
def test_kubernetes_version_is_parsed_from_its_text(version: KubernetesVersion) -> None:
    assert KubernetesVersion.parse(version.text) == version
    assert KubernetesVersion.parse(version.text.removeprefix("v")) == version


@given(KUBERNETES_VERSIONS, KUBERNETES_VERSIONS)
def test_two_versions_reach_each_other_only_if_they_are_equal(one: KubernetesVersion, other: KubernetesVersion) -> None:
    assert one.reaches(one)
    if one.reaches(other) and other.reaches(one):
        assert (one.series, one.patch, one.pre) == (other.series, other.patch, other.pre)


@pytest.mark.parametrize(
    ("reported", "wanted", "reached"),
    [
        ("v1.35.4", "v1.35.4", True),
        ("v1.35.4+k3s1", "v1.35.4", True),
        ("v1.35.4-eks-abc", "v1.35.4", True),
        ("v1.35.4+k3s1", "v1.35.4+k3s2", False),
        ("v1.35.5", "v1.35.4", True),
        ("v1.35.3", "v1.35.4", False),
        ("v1.34.9", "v1.35.0", False),
        ("v1.36.0-rc.1", "v1.36.0", False),
    ],
)
def test_control_plane_reaches_a_version_once_it_reports_it(reported: str, wanted: str, *, reached: bool) -> None:
    assert KubernetesVersion.parse(reported).reaches(KubernetesVersion.parse(wanted)) is reached


def test_series_is_the_minor_version() -> None:
    assert KubernetesVersion.parse("1.34.7").series == KubernetesMinor.parse("v1.34") == KubernetesMinor(1, 34)
    assert str(KubernetesMinor(1, 34)) == "1.34"
    assert KubernetesMinor(1, 9) < KubernetesMinor(1, 10)


@pytest.mark.parametrize("text", ["1", "v1.34", "v1.34.x", "v1.034.1", "1.34.7 ", "v1.34.7+", 1.34, None])
def test_invalid_kubernetes_version_is_rejected(text: object) -> None:
    with pytest.raises(InvalidVersion, match=r"v1\.34\.7"):
        KubernetesVersion.parse(text)


@pytest.mark.parametrize("text", ["1", "1.34.7", "1.x", 1.34, None])
def test_invalid_minor_is_rejected(text: object) -> None:
    with pytest.raises(InvalidVersion, match="in quotes"):
        KubernetesMinor.parse(text)
