"""The metrics tell that something waits for a person, without naming objects, and the alerts of the docs fit them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from clusterstacks.api.names import API_VERSION, Kind
from clusterstacks.devcluster.loopback import free_port
from tests.support.builders.stacks import config_map, templates
from tests.support.running.admission import guarded
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.running.world import World

DOCS = Path(__file__).parents[2] / "docs"
WORDS_OF_PROMQL = frozenset(["and", "by", "count", "for", "increase", "or", "rate", "sum", "time", "unless", "without"])
SELECTOR = re.compile(r"([a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r'([a-z_]+)(=~|!=|!~|=)"([^"]*)"')


class Expression:
    """A PromQL expression, as far as an alert of the docs needs it.

    Args:
        text: On one line.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        plain = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(?:by|without) \([^)]*\)", " ", text)
        self.metrics = set(re.findall(r"[a-z_]{2,}", plain)) - WORDS_OF_PROMQL

    def labels(self) -> Iterator[tuple[str, str, str]]:
        """Yield metric, label and value; the value is empty unless it must be equal."""
        for metric, inside in SELECTOR.findall(self.text):
            for label, operator, value in MATCHER.findall(inside):
                yield metric, label, value if operator == "=" else ""
        for labels, argument in re.findall(r"by \(([^)]*)\) \(([a-z_]+)", self.text):
            yield from ((argument, label.strip(), "") for label in labels.split(","))


def alerts() -> dict[str, Expression]:
    """Read the alerts that the docs show."""
    found: dict[str, Expression] = {}
    for page in sorted(DOCS.rglob("*.md")):
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
            if "alert:" in block and "expr:" in block:
                rules = [one for group in yaml.safe_load(block)["groups"] for one in group["rules"]]
                found |= {one["alert"]: Expression(one["expr"]) for one in rules}
    return found


def served(text: str) -> dict[str, list[dict[str, str]]]:
    """Read the labels of the series of every metric, also of one that has no series yet."""
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(text):
        found[f"{family.name}_total" if family.type == "counter" else family.name] = []
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


@pytest.mark.parametrize(
    ("text", "metrics", "labels"),
    [
        ("a_b > 0 and time() - a_b > 300", {"a_b"}, []),
        ('increase(a_b{le="1.0"}[10m]) - increase(c_d[10m]) > 20', {"a_b", "c_d"}, [("a_b", "le", "1.0")]),
        ('a_b{x!="1", y=~"2|3"} > 86400 * 7', {"a_b"}, [("a_b", "x", ""), ("a_b", "y", "")]),
        ("count(count by (version) (a_b)) > 1", {"a_b"}, [("a_b", "version", "")]),
    ],
)
def test_metrics_and_labels_are_found_in_an_expression(
    text: str, metrics: set[str], labels: list[tuple[str, str, str]]
) -> None:
    assert Expression(text).metrics == metrics
    assert [*Expression(text).labels()] == labels


async def test_live_m1_the_alerts_of_the_docs_are_about_series_that_the_operator_serves(world: World) -> None:
    port, name = free_port(), world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with guarded(world, metrics_address=("127.0.0.1", port)) as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        operator._metrics.note_stall(0.1, 0.1)
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as response:
            series = served(await response.text())
    found = alerts()

    assert len(found) >= 12
    for alert, expression in found.items():
        assert expression.metrics, alert
        assert not expression.metrics - series.keys(), alert
        for metric, label, value in expression.labels():
            known = {one[label] for one in series[metric] if label in one}
            assert known, f"{alert}: {metric} has no label {label}"
            assert not value or value in known, f"{alert}: {metric} has no series with {label}={value}"


async def test_live_m1_requests_are_counted_by_target(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        before = operator._metrics.expose().decode()
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        after = operator._metrics.expose().decode()

    assert 'target="management"' in before
    assert 'target="workload"' not in before
    assert 'clusterstacks_api_requests_total{code="201",method="PATCH",target="workload"}' in after
    assert world.namespace not in after


async def test_live_m1_a_stalled_release_is_in_the_metrics_and_once_in_the_log(world: World) -> None:
    metadata = {"name": "nonsense", "namespace": world.namespace}
    async with world.operator() as operator:
        made = await world.create({"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK_RELEASE, "metadata": metadata})
        await world.says(Kind.CLUSTER_STACK_RELEASE, "nonsense", "Ready", "IssueWithReleaseAssets")
        await world.look_again(operator, "clusterstackrelease", made)

        async def shown() -> bool:
            lines = operator._metrics.expose().decode().splitlines()
            assert 'clusterstacks_not_ready_objects{kind="ClusterStackRelease"} 1.0' in lines
            assert 'clusterstacks_stalled_objects{controller="clusterstackrelease"} 1.0' in lines
            assert 'clusterstacks_reconcile_total{controller="clusterstackrelease",result="success"} 0.0' in lines
            assert 'clusterstacks_not_ready_since_timestamp_seconds{kind="ClusterAddon"} 0.0' in lines
            return True

        await eventually(shown, seconds=10, about="the metrics")
