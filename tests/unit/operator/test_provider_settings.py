"""Kinds of providers, as the command line names them."""

from __future__ import annotations

import pytest

from clusterstacks.api.provider_refs import DEFAULT_KINDS, KindPattern
from clusterstacks.operator.settings import parse_settings


def test_kinds_of_providers_replace_the_usual_ones() -> None:
    found = parse_settings(["--provider-kinds=A.x.org,ATemplate.x.org", "--provider-kinds=*B.y.org"])

    assert parse_settings([]).provider_kinds == frozenset(DEFAULT_KINDS)
    assert parse_settings(["--provider-kinds="]).provider_kinds == frozenset(DEFAULT_KINDS)
    assert found.provider_kinds == {
        KindPattern("x.org", "A"),
        KindPattern("x.org", "ATemplate"),
        KindPattern("y.org", "*B"),
    }


def test_a_kind_without_group_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--provider-kinds=Secret"])

    assert "'Secret' is not a kind" in capsys.readouterr().err
