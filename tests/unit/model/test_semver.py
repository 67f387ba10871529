from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.semver import Constraint, InvalidConstraint, SemVer
from clusterstacks.model.versions import InvalidVersion

IN_ORDER = [
    "0.0.0",
    "0.0.1-0",
    "0.0.1",
    "0.1.0",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.9.0",
    "1.10.0",
    "2.0.0",
]

# Every line was answered the same by Masterminds/semver 3.4 and 3.5, the library of Helm 3 and 4.
ALLOWED = [
    ("1.2.3", ["1.2.3", "v1.2.3", "1.2.3+build"], ["1.2.4", "1.2.3-rc.1"]),
    ("= v1.2.3", ["1.2.3"], ["1.2.2"]),
    ("1.2.3-rc.1", ["1.2.3-rc.1"], ["1.2.3", "1.2.3-rc.2"]),
    ("!=1.2.3", ["1.2.4", "0.1.0"], ["1.2.3", "1.2.4-rc.1"]),
    ("!=1.2.x", ["1.3.0", "2.2.0"], ["1.2.0", "1.2.9"]),
    ("!=1", ["2.0.0", "0.9.0"], ["1.0.0", "1.9.9"]),
    (">1.2.3", ["1.2.4", "2.0.0"], ["1.2.3", "1.2.4-rc.1"]),
    (">1.2", ["1.3.0", "2.0.0"], ["1.2.0", "1.2.9"]),
    (">1", ["2.0.0"], ["1.0.0", "1.9.9"]),
    (">=1.2", ["1.2.0", "9.0.0"], ["1.1.9"]),
    ("=>1.2", ["1.2.0"], ["1.1.9"]),
    ("<1.2", ["1.1.9"], ["1.2.0", "1.2.0-rc.1"]),
    ("<=1.2", ["1.2.0", "1.2.9", "0.1.0"], ["1.3.0"]),
    ("<=1", ["1.9.9"], ["2.0.0"]),
    ("=<1.2.3", ["1.2.3"], ["1.2.4"]),
    ("~1.2.3", ["1.2.3", "1.2.9"], ["1.2.2", "1.3.0"]),
    ("~>1.2", ["1.2.0", "1.2.9"], ["1.3.0", "1.1.9"]),
    ("~1", ["1.0.0", "1.9.9"], ["2.0.0", "0.9.0"]),
    ("~0.0.0", ["0.0.0", "5.0.0"], []),
    ("^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0"]),
    ("^1.2", ["1.2.0", "1.9.0"], ["1.1.9", "2.0.0"]),
    ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0", "0.2.2"]),
    ("^0.2", ["0.2.0", "0.2.9"], ["0.3.0"]),
    ("^0.0.3", ["0.0.3"], ["0.0.4", "0.0.2"]),
    ("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"]),
    ("^0", ["0.0.0", "0.9.0"], ["1.0.0"]),
    ("1.2.x", ["1.2.0", "1.2.9"], ["1.3.0"]),
    ("1.2.*", ["1.2.9"], ["1.1.0"]),
    ("1.X", ["1.0.0", "1.9.9"], ["2.0.0"]),
    ("1", ["1.5.0"], ["2.0.0"]),
    ("*", ["0.0.0", "9.9.9"], ["1.0.0-rc.1"]),
    ("*-0", ["1.0.0-rc.1", "1.0.0"], []),
    (">=0", ["0.0.0", "3.0.0"], ["3.0.0-rc.1"]),
    (">=1.2 <1.4", ["1.2.0", "1.3.9"], ["1.4.0", "1.1.0"]),
    (">= 1.2, < 1.4", ["1.2.0", "1.3.9"], ["1.4.0", "1.1.0"]),
    (">=1.2 , !=1.3.1", ["1.3.0"], ["1.3.1"]),
    ("1.2 || 2.x || >4", ["1.2.3", "2.9.0", "5.0.0"], ["1.3.0", "3.0.0", "4.5.0"]),
    ("1.2 - 1.4.5", ["1.2.0", "1.4.5"], ["1.4.6", "1.1.9"]),
    ("1.2 - 1.4", ["1.2.0", "1.4.9"], ["1.5.0", "1.1.9"]),
    ("1.2 - 1.4 || 2.0 - 2.1", ["1.3.0", "2.1.5"], ["1.9.0"]),
    ("1.2 - 1.4 !=1.3.0", ["1.3.1"], ["1.3.0"]),
    (">=1.2.0-0", ["1.2.0-rc.1", "1.3.0-alpha", "1.2.0"], ["1.1.9"]),
    (">=1.2.0-beta <2", ["1.2.0-rc.1", "1.5.0-alpha", "2.0.0-rc.1"], ["1.2.0-alpha", "2.0.0"]),
    ("~1.2.3-beta.2", ["1.2.3-beta.4", "1.2.3", "1.2.4-alpha"], ["1.2.3-beta.1", "1.3.0-beta.3"]),
    ("^1.2.0-alpha", ["1.2.0-beta", "1.9.0-alpha"], ["2.0.0-alpha", "1.1.0"]),
    ("1.0.0-rc.1 || >=2", ["1.0.0-rc.1", "2.0.0"], ["2.1.0-rc.1"]),
]
INVALID = [
    "",
    "  ",
    "||",
    "1.2 ||",
    "1.2,",
    ",1.2",
    "==1.2",
    "> =1.2",
    ">=1.2<2",
    "one",
    "1.2.3.4",
    "1.2 -",
    "1.0.0-01",
]

VERSIONS = st.builds(
    SemVer,
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 20),
    st.sampled_from(["", "", "0", "alpha", "alpha.1", "rc.10", "x-y.2"]),
    st.sampled_from(["", "build.01"]),
)


def test_versions_are_ordered_as_in_the_specification() -> None:
    assert all(SemVer.parse(one) < SemVer.parse(two) for one, two in pairwise(IN_ORDER))
    assert sorted(map(SemVer.parse, reversed(IN_ORDER))) == list(map(SemVer.parse, IN_ORDER))


def test_build_metadata_is_ignored_in_comparisons() -> None:
    assert SemVer.parse("1.2.3+a") == SemVer.parse("1.2.3+b")
    assert len({SemVer.parse("1.2.3+a"), SemVer.parse("1.2.3")}) == 1
    assert str(SemVer.parse("1.2.3+a")) == "1.2.3+a"


@pytest.mark.parametrize(
    ("text", "whole"), [("v1.2.3", "1.2.3"), ("1", "1.0.0"), ("1.2-rc.1", "1.2.0-rc.1"), ("01.002.3", "1.2.3")]
)
def test_incomplete_spellings_are_completed(text: str, whole: str) -> None:
    assert str(SemVer.parse(text)) == whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v",
        "x",
        "1.",
        "1.2.3.4",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3-a..b",
        "1.2.3+",
        "V1",
        " 1.2",
        "1\n",
        1,
        None,
        "1" * 300,
    ],
)
def test_invalid_version_is_rejected(text: object) -> None:
    with pytest.raises(InvalidVersion, match=r"not a valid semantic version .expected for example 1\.2\.3"):
        SemVer.parse(text)


@pytest.mark.parametrize(("constraint", "allowed", "refused"), ALLOWED)
def test_constraint_allows_the_same_versions_as_helm(constraint: str, allowed: list[str], refused: list[str]) -> None:
    parsed = Constraint.parse(constraint)

    assert [text for text in [*allowed, *refused] if parsed.allows(SemVer.parse(text))] == allowed


@pytest.mark.parametrize("text", ["1.2.3", "v1.2.3", "1.2.3-rc.1+b"])
def test_constraint_of_one_exact_version_is_recognized(text: str) -> None:
    assert Constraint.parse(text).exact == text


@pytest.mark.parametrize("text", ["1.2", "=1.2.3", "1.2.x", "1.2.3 || 2", "*"])
def test_constraint_of_several_versions_has_no_exact_version(text: str) -> None:
    assert Constraint.parse(text).exact == ""


def test_caret_with_wildcard_allows_every_release() -> None:
    assert Constraint.parse("^*").allows(SemVer.parse("3.2.1"))


@pytest.mark.parametrize("text", [*INVALID, None, 1.2, "1 " * 300, "||".join(["1"] * 33)])
def test_invalid_constraint_is_rejected(text: object) -> None:
    with pytest.raises(InvalidConstraint, match=r"not a valid version constraint .expected for example"):
        Constraint.parse(text)


def test_hostile_constraint_is_rejected_quickly() -> None:
    for text in ("1" + " " * 510, " - " * 170, "1 - " * 128, "~" * 512, "x.x." * 128):
        try:
            Constraint.parse(text)
        except InvalidConstraint:
            continue


@given(VERSIONS)
def test_version_is_parsed_from_its_text(version: SemVer) -> None:
    again = SemVer.parse(str(version))

    assert (again, again.build) == (version, version.build)


@given(VERSIONS, VERSIONS)
def test_comparison_operators_agree_with_the_order(one: SemVer, two: SemVer) -> None:
    # Another alternative of the same series would let pre-releases in: the term itself names one here.
    base = SemVer(two.major, two.minor, two.patch, two.pre or "0")

    assert Constraint.parse(f">={base}").allows(one) == (one >= base)
    assert Constraint.parse(f"<{base}").allows(one) == (one < base)
    assert Constraint.parse(f"={base}").allows(one) == (one == base)
    assert Constraint.parse(f">{base}").allows(one) != Constraint.parse(f"<={base}").allows(one)
