from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.runtime.health_checks import Probes

if TYPE_CHECKING:
    import pytest


def test_a_process_without_checks_is_alive_and_ready() -> None:
    probes = Probes()

    assert probes.alive().passed
    assert probes.ready().passed


def test_each_check_has_its_line() -> None:
    probes = Probes()
    probes.add_ready("caches", lambda: "")
    probes.add_ready("leader", lambda: "another replica leads")

    assert probes.ready().text == "[+]caches ok\n[-]leader failed: another replica leads\ncheck failed\n"
    assert not probes.ready().passed
    assert probes.alive().passed


def test_a_check_that_fails_itself_counts_as_failed(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> str:
        raise ZeroDivisionError("secret")

    probes = Probes()
    probes.add_ready("odd", broken)

    assert not probes.ready().passed
    assert "secret" not in probes.ready().text
    assert "Check odd is broken" in caplog.text
