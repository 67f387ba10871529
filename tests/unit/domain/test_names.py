from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.domain.names import InvalidName, ReleaseName, parse_class, parse_release
from clusterstacks.domain.versions import KubernetesMinor, StackVersion

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = st.from_regex(r"[a-z0-9]{1,10}", fullmatch=True)
WORDS = st.from_regex(r"[0-9a-z_]{1,8}", fullmatch=True)
NAMES = st.builds(
    ReleaseName,
    PARTS,
    PARTS,
    st.builds(KubernetesMinor, st.integers(0, 9), st.integers(0, 99)),
    st.builds(StackVersion, st.integers(0, 999))
    | st.builds(StackVersion, st.integers(0, 999), WORDS.filter(lambda word: word != "stable"), WORDS),
)


@given(NAMES)
def test_both_spellings_lead_back_to_the_name(name: ReleaseName) -> None:
    assert parse_release(name.release) == parse_class(name.class_name) == name


@given(st.text() | st.from_regex(r"[a-z0-9.-]{0,40}", fullmatch=True))
def test_any_other_text_is_an_invalid_name_and_nothing_else(text: str) -> None:
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
    ],
)
def test_a_release_and_its_class_are_one_name(release: str, class_name: str) -> None:
    """D9: the two spellings are never compared as texts."""
    name = parse_release(release)

    assert name == parse_class(class_name)
    assert (name.release, name.class_name) == (release, class_name)


def test_names_of_one_series_sort_by_version() -> None:
    names = [parse_release(f"docker-ferrol-1-27-v{major}") for major in (10, 9, 1)]

    assert [name.version.major for name in sorted(names)] == [1, 9, 10]
    assert {name.series for name in names} == {"docker-ferrol-1-27"}


@pytest.mark.parametrize(
    "text", ["quick-start", "docker-ferrol-1-27", "docker-my-stack-1-27-v1", "a-b-1-x-v1", "", None, 7]
)
def test_a_foreign_class_is_refused_with_the_form_expected(text: object) -> None:
    with pytest.raises(
        InvalidName, match=r"is not a valid cluster class name.*write <provider>-<stack>-<major>-<minor>-<version>"
    ):
        parse_class(text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_release, "docker-ferrol-1-27-v0-sha.abc"), (parse_class, "docker-ferrol-1-27-v0-sha-abc")],
)
def test_the_spelling_of_the_other_kind_is_refused(parse: Callable[[object], ReleaseName], text: str) -> None:
    with pytest.raises(InvalidName):
        parse(text)


@pytest.mark.parametrize(
    ("provider", "stack"), [("open-stack", "scs"), ("openstack", "s.c"), ("", "scs"), ("A", "scs")]
)
def test_parts_that_make_no_name_are_refused(provider: str, stack: str) -> None:
    with pytest.raises(InvalidName, match="without dashes"):
        ReleaseName(provider, stack, KubernetesMinor(1, 34), StackVersion(1))
