from __future__ import annotations

import pytest

from clusterstacks.domain.errors import DependencyError, SpecError, told_of


@pytest.mark.parametrize(
    ("place", "message", "shown"),
    [
        ("w", "who knows", "w: who knows"),
        (".", "x.yaml is missing.", ".: x.yaml is missing."),
        ("a/b", "a/b is not a valid stack", "a/b is not a valid stack"),
        ("a/b", "a/b/c.yaml is missing", "a/b/c.yaml is missing"),
        ("a/b", "x/a/b is missing", "a/b: x/a/b is missing"),
        ("a/b", "a/bc is missing", "a/b: a/bc is missing"),
    ],
)
def test_a_place_is_put_before_messages_that_do_not_name_it(place: str, message: str, shown: str) -> None:
    for kind in (SpecError, DependencyError):
        with pytest.raises(kind) as error, told_of(place):
            raise kind("Code", message)
        assert (error.value.code, error.value.message) == ("Code", shown)


def test_what_is_no_error_of_ours_goes_through() -> None:
    with pytest.raises(KeyError), told_of("a"):
        raise KeyError("x")
