"""Alerts and dashboard, evaluated by a real Prometheus that scrapes a live operator."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.dev.loopback import free_port
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.kinds.names import API_VERSION, Kind, Reason
from clusterstacks.operator.controllers.object_problems import PROBLEMS
from deploy.manifests import CHART, MONITORING
from tests.support.builders.stacks import config_map, templates
from tests.support.running.admission import guarded
from tests.support.servers.prometheus import running_prometheus
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.running.world import World
    from tests.support.servers.prometheus import PrometheusServer

SECONDS = 120
MATCHER = re.compile(r'([a-z_]+)(=~|!=|!~|=)"([^"]*)"')
SELECTOR = re.compile(r"(clusterstacks_\w+|process_\w+)(?:\{([^}]*)\})?")


@pytest.mark.regression("LIVE-M1")
async def test_alerts_and_dashboard_have_the_metrics_of_a_live_operator(world: World, tmp_path: Path) -> None:
    port, name = free_port(), world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with guarded(world, metrics_address=("127.0.0.1", port)):
        with running_prometheus(tmp_path, f"127.0.0.1:{port}", CHART / "files/alerts.yaml") as prometheus:
            await eventually(lambda: _scraped(prometheus), seconds=SECONDS, about="the first scrape")
            await world.create(world.stack.manifest(world.namespace, "v1", autoSubscribe=True))
            metadata = {"name": "nonsense", "namespace": world.namespace}
            await world.create({"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK_RELEASE, "metadata": metadata})
            await world.release_ready(name)
            await world.cluster("one", name.class_name)
            await world.addons_ready("one", name.class_name)
            await world.says(Kind.CLUSTER_STACK_RELEASE, "nonsense", "Ready", "IssueWithReleaseAssets")
            await _panels_have_data(world, prometheus)
            await eventually(lambda: _rules_work(prometheus), seconds=SECONDS, about="the alerts")
            await _alerts_name_the_object(world, prometheus)


async def _scraped(prometheus: PrometheusServer) -> bool:
    return bool(await asyncio.to_thread(prometheus.query, "clusterstacks_queue_added_total"))


async def _panels_have_data(world: World, prometheus: PrometheusServer) -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    queries = {panel["title"]: panel["targets"][0]["expr"] for panel in dashboard["panels"] if panel["type"] != "row"}
    assert len(queries) > 30

    async def all_have_data() -> bool:
        await _refused_write(world)  # rates of series that appear late need another event
        empty = [
            title
            for title, query in queries.items()
            if not await asyncio.to_thread(prometheus.query, _filled_in(query))
        ]
        assert empty == []
        return True

    await eventually(all_have_data, seconds=SECONDS, about="data in all panels")


def _filled_in(query: str) -> str:
    """Replace the variables of the dashboard as Grafana does."""
    return query.replace("$__rate_interval", "5m").replace("$job", ".+")


async def _refused_write(world: World) -> None:
    addon = {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_ADDON,
        "metadata": {"name": "probe", "namespace": world.namespace},
        "spec": {"clusterRef": {"kind": "Cluster"}},
    }
    with suppress(ClusterStacksError):
        await world.create(addon)


async def _rules_work(prometheus: PrometheusServer) -> bool:
    rules = await asyncio.to_thread(prometheus.rules)
    assert len(rules) >= 27
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    states = {rule["name"]: rule["state"] for rule in rules}
    assert states["ClusterStacksStalled"] in {"pending", "firing"}
    assert states["ClusterStacksOperatorAbsent"] == states["ClusterStacksNoLeader"] == "inactive"
    for rule in rules:
        for metric, label, value in _labels(rule["query"]):
            series = await asyncio.to_thread(prometheus.query, metric)
            known = {one["metric"][label] for one in series if label in one["metric"]}
            assert series, f"{rule['name']}: {metric} has no series"
            assert known or not label, f"{rule['name']}: {metric} has no label {label}"
            assert not value or value in known | {*PROBLEMS, *Reason, *Kind}, (
                f"{rule['name']}: {metric} has no {label}={value}"
            )
    return True


def _labels(query: str) -> Iterator[tuple[str, str, str]]:
    """Yield metric, label and value of the selectors; the value is empty unless it must be equal."""
    for metric, inside in SELECTOR.findall(query):
        yield metric, "", ""
        for label, operator, value in MATCHER.findall(inside):
            yield metric, label, value if operator == "=" else ""


async def _alerts_name_the_object(world: World, prometheus: PrometheusServer) -> None:
    series: list[dict[str, Any]] = await asyncio.to_thread(
        prometheus.query, 'clusterstacks_object_problem_since_timestamp_seconds{problem="Ready"}'
    )
    assert [(one["metric"]["object_namespace"], one["metric"]["object_name"]) for one in series] == [
        (world.namespace, "nonsense")
    ]
    assert series[0]["metric"]["reason"] == "IssueWithReleaseAssets"
