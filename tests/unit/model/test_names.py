from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.names import InvalidName, ReleaseName, parse_class, parse_release
from clusterstacks.model.versions import KubernetesMinor, StackVersion

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = st.from_regex(r"[a-z0-9]{1,10}", fullmatch=True)
WORDS = st.from_regex(r"[0-9a-z_]{1,8}", fullmatch=True)
NAMES = st.builds(
    ReleaseName,
    PARTS,
    st.lists(PARTS | st.just("v1"), min_size=1, max_size=5).map("-".join),
    st.builds(KubernetesMinor, st.integers(0, 9), st.integers(0, 99)),
    st.builds(StackVersion, st.integers(0, 999))
    | st.builds(StackVersion, st.integers(0, 999), WORDS.filter(lambda word: word != "stable"), WORDS),
)


@given(NAMES)
def test_both_spellings_are_parsed_to_the_same_name(name: ReleaseName) -> None:
    assert parse_release(name.release) == parse_class(name.class_name) == name


@given(st.text() | st.from_regex(r"[a-z0-9.-]{0,40}", fullmatch=True))
def test_arbitrary_text_is_parsed_or_raises_invalid_name(text: str) -> None:
    for parse in (parse_release, parse_class):
        try:
            name = parse(text)
        except InvalidName:
            continue
        assert text.startswith(name.series)


@pytest.mark.parametrize(
    ("release", "class_name"),
    [
        ("docker-ferrol-1-27-v1", "docker-ferrol-1-27-v1"),
        ("docker-ferrol-1-27-v0-sha-hipstsw", "docker-ferrol-1-27-v0-sha.hipstsw"),
        ("openstack-scs2-1-34-v0-ttl-1763000000", "openstack-scs2-1-34-v0-ttl.1763000000"),
        ("openstack-hosted-control-plane-1-34-v1", "openstack-hosted-control-plane-1-34-v1"),
        ("docker-a-1-27-v1-1-28-v0-sha-hipstsw", "docker-a-1-27-v1-1-28-v0-sha.hipstsw"),
    ],
)
def test_release_and_class_name_are_parsed_to_the_same_name(release: str, class_name: str) -> None:
    """D9: the two spellings are never compared as texts."""
    name = parse_release(release)

    assert name == parse_class(class_name)
    assert (name.release, name.class_name) == (release, class_name)


def test_names_of_one_series_sort_by_version() -> None:
    names = [parse_release(f"docker-ferrol-1-27-v{major}") for major in (10, 9, 1)]

    assert [name.version.major for name in sorted(names)] == [1, 9, 10]
    assert {name.series for name in names} == {"docker-ferrol-1-27"}


@pytest.mark.parametrize(
    "text",
    ["quick-start", "docker-ferrol-1-27", "docker--1-27-v1", "docker-my--stack-1-27-v1", "a-b-1-x-v1", "", None, 7],
)
def test_foreign_class_name_is_rejected_with_the_expected_form(text: object) -> None:
    with pytest.raises(
        InvalidName, match=r"is not a valid cluster class name.*write <provider>-<stack>-<major>-<minor>-<version>"
    ):
        parse_class(text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_release, "docker-ferrol-1-27-v0-sha.abc"), (parse_class, "docker-ferrol-1-27-v0-sha-abc")],
)
def test_class_spelling_is_rejected_for_releases_and_vice_versa(
    parse: Callable[[object], ReleaseName], text: str
) -> None:
    with pytest.raises(InvalidName):
        parse(text)


@pytest.mark.parametrize(
    ("provider", "stack"), [("open-stack", "scs"), ("openstack", "s.c"), ("", "scs"), ("A", "scs"), ("a", "b-")]
)
def test_invalid_name_parts_are_rejected(provider: str, stack: str) -> None:
    with pytest.raises(InvalidName, match="use only lower-case letters and digits"):
        ReleaseName(provider, stack, KubernetesMinor(1, 34), StackVersion(1))
