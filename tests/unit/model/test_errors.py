from __future__ import annotations

import pytest

from clusterstacks.model.errors import DependencyError, SpecError, error_context


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
def test_place_is_prepended_to_messages_without_it(place: str, message: str, shown: str) -> None:
    for kind in (SpecError, DependencyError):
        with pytest.raises(kind) as error, error_context(place):
            raise kind("Code", message)
        assert (error.value.code, error.value.message) == ("Code", shown)


def test_other_exceptions_are_not_changed() -> None:
    with pytest.raises(KeyError), error_context("a"):
        raise KeyError("x")
