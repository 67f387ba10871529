from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from clusterstacks.runtime.tracing import configure_tracing, span

if TYPE_CHECKING:
    import pytest


def test_without_an_endpoint_a_span_does_nothing() -> None:
    configure_tracing({}, "0.1.0")()

    assert span("reconcile", controller="a") is span("render")


def test_without_an_endpoint_the_operator_imports_nothing_of_opentelemetry() -> None:
    code = (
        "import sys, clusterstacks.operator.startup\n"
        "from clusterstacks.runtime.tracing import configure_tracing\n"
        "configure_tracing({}, '1')\n"
        "assert not [one for one in sys.modules if one.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_without_the_extra_a_warning_names_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    configure_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, "0.1.0")()

    assert "install cluster-stacks[otel]" in caplog.text
    assert span("reconcile") is span("render")
