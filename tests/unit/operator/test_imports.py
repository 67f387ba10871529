"""Modules that the operator loads at startup."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

UNNEEDED = (
    "cel_expr_python",
    "click",
    "clusterstacks.csctl.authoring",
    "clusterstacks.csctl.building",
    "clusterstacks.release.charts.vendor",
    "clusterstacks.csctl.verbs",
    "clusterstacks.dev",
    "clusterstacks.net.oci.registry",
    "clusterstacks.operator.webhook_wiring",
    "clusterstacks.plan.planner",
    "clusterstacks.deliver.render.gotemplate",
    "clusterstacks.deliver.render.helm",
    "clusterstacks.deliver.render.worker",
    "clusterstacks.release.sources.github.assets",
    "clusterstacks.release.sources.oci_publish",
    "clusterstacks.operator.webhooks.server",
    "clusterstacks.operator.webhooks.suggestions",
    "cryptography",
    "helm_python",
    "jsonschema",
    "rich",
)
"""Heavy modules, and those of csctl, of render workers, of signatures, and of sources and webhooks, which have to be
configured."""


def test_the_operator_loads_no_module_that_it_may_not_need() -> None:
    code = f"import sys, clusterstacks.operator.startup; print([name for name in {UNNEEDED!r} if name in sys.modules])"

    assert run(code) == "[]"


def test_garbage_collections_are_on_while_the_operator_runs_and_leave_the_modules_out() -> None:
    code = """
import gc
from clusterstacks.operator import main, startup
startup.run = lambda: print(gc.isenabled(), gc.get_freeze_count() > 50_000)
main.main()
"""
    assert run(code) == "True True"


@pytest.mark.parametrize("configured", [None, "/etc/ssl/own.pem"])
def test_the_imports_read_no_cas_and_leave_their_configuration(configured: str | None) -> None:
    code = """
import os, ssl, sys
read, loaded = ssl.SSLContext.set_default_verify_paths, []
def count(context):
    read(context)
    loaded.append(context.cert_store_stats()["x509"])
ssl.SSLContext.set_default_verify_paths = count
from clusterstacks.operator.main import main
sys.argv[1:] = ["--help"]
try:
    main()
except SystemExit:
    print(set(loaded), os.environ.get("SSL_CERT_FILE"))
"""
    environ = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    environ |= {"SSL_CERT_FILE": configured} if configured else {}

    assert run(code, environ).splitlines()[-1] == f"{{0}} {configured}"


def run(code: str, environ: Mapping[str, str] | None = None) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.strip()
