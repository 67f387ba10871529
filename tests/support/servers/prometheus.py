"""A real Prometheus and promtool: Debian's package, fetched once into the cache of this project.

``CLUSTERSTACKS_PROMETHEUS`` may name a directory with both programs, version 2.42 or newer.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from clusterstacks.dev.binaries import cache_directory
from clusterstacks.dev.loopback import LOOPBACK
from clusterstacks.dev.processes import Command, Process, start_on_free_port
from tests.support.servers import debian_packages as debian

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "CLUSTERSTACKS_PROMETHEUS"
SECONDS = 30
"""How long one answer of Prometheus may take."""


def prometheus_program(name: str) -> Path:
    """Return ``prometheus`` or ``promtool``.

    Raises:
        PackageUnavailable: The package cannot be fetched.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named, name).absolute()
    return debian.program("prometheus", f"usr/bin/{name}", cache_directory().parent)


@dataclass(frozen=True)
class PrometheusServer:
    """A Prometheus process that scrapes one address every second."""

    url: str
    process: Process

    def launch(self) -> None:
        self.process.launch()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query."""
        found = self._get(f"/api/v1/query?{urlencode({'query': expression})}")["data"]
        assert found["resultType"] == "vector", expression
        return [one for one in found["result"] if one["value"][1] != "NaN"]

    def rules(self) -> list[dict[str, Any]]:
        """Return the rules with their state."""
        return [rule for group in self._get("/api/v1/rules")["data"]["groups"] for rule in group["rules"]]

    def _get(self, path: str) -> dict[str, Any]:
        with urlopen(f"{self.url}{path}", timeout=SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@contextmanager
def running_prometheus(root: Path, target: str, rules: Path) -> Iterator[PrometheusServer]:
    """Run a Prometheus; ``target`` is the address that it scrapes, ``rules`` a file that it evaluates every second."""
    program = prometheus_program("prometheus")
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "cluster-stack-operator", "static_configs": [{"targets": [target]}]}],
    }
    config = root / "prometheus.yml"
    config.write_text(json.dumps(settings))  # its YAML reader takes JSON
    server = start_on_free_port(lambda port: _server(program, root, config, port))
    try:
        yield server
    finally:
        server.process.stop(timedelta(0))


def _server(program: Path, root: Path, config: Path, port: int) -> PrometheusServer:
    url = f"http://{LOOPBACK}:{port}"
    arguments = (
        f"--config.file={config}",
        f"--storage.tsdb.path={root / 'data'}",
        f"--web.listen-address={LOOPBACK}:{port}",
    )
    command = Command(
        name="prometheus", argv=(str(program), *arguments), log=root / "prometheus.log", ready=lambda: _is_ready(url)
    )
    return PrometheusServer(url, Process(command))


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready", timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
