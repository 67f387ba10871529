"""The alerts fire when they should, as promtool computes it, and each has a runbook."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusterstacks.model.yaml import load
from deploy.manifests import CHART, MONITORING
from tests.support.servers.prometheus import prometheus_program

ALERTS = CHART / "files/alerts.yaml"
RUNBOOKS = Path(__file__).parents[3] / "docs/reference/alerts.md"
SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
SINCE = "clusterstacks_object_problem_since_timestamp_seconds"
HEALTHY = {
    'clusterstacks_build_info{version="1"}': "1x300",
    'clusterstacks_leader{pod="a"}': "1x300",
    'clusterstacks_leader{pod="b"}': "0x300",
    'clusterstacks_readiness_check_failing{check="releases"}': "0x300",
    'clusterstacks_failing_since_timestamp_seconds{part="p"}': "0x300",
    'clusterstacks_last_success_timestamp_seconds{part="p"}': "0+60x300",
    'clusterstacks_reconcile_total{controller="c",result="success"}': "0+100x300",
    'clusterstacks_reconcile_total{controller="c",result="error"}': "0+1x300",
    'clusterstacks_reconcile_total{controller="c",result="bug"}': "0x300",
    'clusterstacks_longest_running_reconcile_seconds{controller="c"}': "9x300",
    'clusterstacks_queue_oldest_wait_seconds{controller="c"}': "1x300",
    'clusterstacks_render_failures_total{cause="timeout"}': "3x300",
    "clusterstacks_upgrade_holds_not_honoured_total": "2x300",
    'clusterstacks_stalled_objects{controller="c"}': "0x300",
    'clusterstacks_unreadable_objects{kind="Cluster"}': "0x300",
    "clusterstacks_sources_failing": "0x300",
    "clusterstacks_sources_oldest_success_timestamp_seconds": "0+60x300",
    'clusterstacks_webhook_responses_total{code="200"}': "0+60x300",
    'clusterstacks_webhook_responses_total{code="503"}': "0x300",
    'clusterstacks_webhook_seconds_bucket{kind="Cluster",le="0.1"}': "0+60x300",
    'clusterstacks_webhook_seconds_bucket{kind="Cluster",le="+Inf"}': "0+60x300",
    'clusterstacks_admission_decisions_total{kind="Cluster",decision="refused"}': "0+1x300",
    "clusterstacks_webhook_certificate_expiry_timestamp_seconds": "2592000x300",
    'clusterstacks_kubernetes_support_days{minor="1.36"}': "61x300",
}
"""Series of a healthy operator, a value a minute from 0 s on."""


def problem(name: str, kind: str = "ClusterAddon", reason: str = "R") -> str:
    return f'{SINCE}{{kind="{kind}",object_namespace="ns",object_name="one",problem="{name}",reason="{reason}"}}'


FIRING: dict[str, tuple[dict[str, str], int, int]] = {
    "ClusterStacksOperatorAbsent": ({'clusterstacks_build_info{version="1"}': "1x10 stale"}, 15, 17),
    "ClusterStacksNoLeader": ({'clusterstacks_leader{pod="a"}': "1x10 0x300"}, 12, 14),
    "ClusterStacksTwoLeaders": ({'clusterstacks_leader{pod="b"}': "0x10 1x300"}, 11, 13),
    "ClusterStacksNotReady": ({'clusterstacks_readiness_check_failing{check="releases"}': "0x10 1x300"}, 15, 17),
    "ClusterStacksPartFailing": ({'clusterstacks_failing_since_timestamp_seconds{part="p"}': "0x10 660x300"}, 16, 17),
    "ClusterStacksPartSilent": ({'clusterstacks_last_success_timestamp_seconds{part="p"}': "0+60x10 600x300"}, 15, 16),
    "ClusterStacksVersionsDiffer": ({'clusterstacks_build_info{version="2"}': "1x300"}, 59, 61),
    "ClusterStacksReconcileErrors": (
        {'clusterstacks_reconcile_total{controller="c",result="error"}': "0+200x300"},
        14,
        20,
    ),
    "ClusterStacksReconcileBug": ({'clusterstacks_reconcile_total{controller="c",result="bug"}': "0x20 1x300"}, 20, 22),
    "ClusterStacksReconcileHangs": (
        {'clusterstacks_longest_running_reconcile_seconds{controller="c"}': "0+60x9 0x300"},
        7,
        8,
    ),
    "ClusterStacksQueueGrows": ({'clusterstacks_queue_oldest_wait_seconds{controller="c"}': "0+60x300"}, 12, 14),
    "ClusterStacksRenderFailures": ({'clusterstacks_render_failures_total{cause="timeout"}': "3x20 4x300"}, 20, 22),
    "ClusterWithoutAddons": ({problem("Ready"): "60x300"}, 15, 17),
    "ClusterAddonsUnhealthy": ({problem("Healthy"): "60x300"}, 30, 32),
    "ClusterAddonsContested": ({problem("InSync", reason="CorrectionsReverted"): "60x300"}, 10, 12),
    "ClusterUpgradeHeld": ({problem("UpgradeHeld"): "60x300"}, 60, 62),
    "ClusterUpgradeHoldNotHonoured": ({"clusterstacks_upgrade_holds_not_honoured_total": "2x20 3x300"}, 20, 22),
    "ClusterOutOfRanges": ({problem("WithinRanges"): "60x300"}, 60, 62),
    "KubernetesSupportEnds": ({'clusterstacks_kubernetes_support_days{minor="1.35"}': "61x10 60x300"}, 10, 12),
    "ClusterStackNotReady": ({problem("Ready", "ClusterStackRelease"): "60x300"}, 15, 17),
    "ClusterResourceSyncNotReady": ({problem("Ready", "ClusterResourceSyncBinding"): "60x300"}, 15, 17),
    "ClusterStacksStalled": ({'clusterstacks_stalled_objects{controller="c"}': "0x10 1x300"}, 15, 17),
    "ClusterStacksUnreadableObjects": ({'clusterstacks_unreadable_objects{kind="Cluster"}': "0x10 1x300"}, 10, 12),
    "ClusterStacksSourceFailing": ({"clusterstacks_sources_failing": "0x10 1x300"}, 25, 27),
    "ClusterStacksSourceOutdated": (
        {"clusterstacks_sources_oldest_success_timestamp_seconds": "0+60x10 600x300"},
        70,
        71,
    ),
    "ClusterStacksWebhooksFail": ({'clusterstacks_webhook_responses_total{code="503"}': "0x10 0+2x300"}, 11, 16),
    "ClusterStacksWebhooksSlow": (
        {
            'clusterstacks_webhook_seconds_bucket{kind="Cluster",le="2.5"}': "0+60x300",
            'clusterstacks_webhook_seconds_bucket{kind="Cluster",le="0.1"}': "0+30x300",
        },
        10,
        13,
    ),
    "ClusterStacksManyRefusals": (
        {'clusterstacks_admission_decisions_total{kind="Cluster",decision="refused"}': "0+1x10 10+10x300"},
        11,
        15,
    ),
    "ClusterStacksCertificateExpires": (
        {"clusterstacks_webhook_certificate_expiry_timestamp_seconds": "605400x300"},
        9,
        12,
    ),
}
"""By alert: the series that differ from those of a healthy operator, a minute when it does not fire, and one when it
does."""


def rules() -> list[dict[str, Any]]:
    document = load(ALERTS.read_text(), name="alerts")
    return [rule for group in document["groups"] for rule in group["rules"]]


def run(directory: Path, tests: list[dict[str, Any]]) -> None:
    """Run unit tests of promtool."""
    file = directory / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    program = prometheus_program("promtool")
    done = subprocess.run([program, "test", "rules", file], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def firing(series: dict[str, str], expected: dict[int, list[str]]) -> dict[str, Any]:
    """Return a test of promtool: the names of the firing alerts by minute."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)],
            }
            for minute, alerts in expected.items()
        ],
    }


def test_no_alert_fires_for_a_healthy_operator(tmp_path: Path) -> None:
    run(tmp_path, [firing(HEALTHY, {minute: [] for minute in (1, 10, 60, 299)})])


def test_each_alert_fires_after_its_time_and_no_other_one(tmp_path: Path) -> None:
    assert {rule["alert"] for rule in rules()} == FIRING.keys()

    run(
        tmp_path,
        [firing(HEALTHY | series, {quiet: [], loud: [alert]}) for alert, (series, quiet, loud) in FIRING.items()],
    )


def test_sync_whose_bindings_are_not_ready_is_not_reported_twice(tmp_path: Path) -> None:
    series = {problem("Ready", "ClusterResourceSync", "ClustersNotSynced"): "60x300"}

    run(tmp_path, [firing(HEALTHY | series, {60: []})])


def test_prometheus_accepts_the_plain_file() -> None:
    program = prometheus_program("promtool")
    subprocess.run([program, "check", "rules", MONITORING / "alerts.yaml"], check=True, capture_output=True, timeout=60)


def test_every_alert_has_a_runbook_with_meaning_checks_and_remedy() -> None:
    runbooks = dict(SECTION.findall(RUNBOOKS.read_text()))
    assert [*runbooks] == [rule["alert"] for rule in rules()]
    for rule in rules():
        text = runbooks[rule["alert"]]
        assert rule["annotations"]["runbook"] == f"docs/reference/alerts.md#{rule['alert'].lower()}"
        for part in ("**Meaning.** ", "**Look at.** ", "**Do.** "):
            assert part in text, (rule["alert"], part)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_has_a_severity_and_a_summary_in_one_sentence(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"].endswith(".")
