"""D35: every accepted flag has an effect or prints a notice with a remedy."""

from __future__ import annotations

import pytest

from clusterstacks.operator.go_operator import WITHOUT_MEANING
from clusterstacks.operator.settings import option_parser, parse_settings

pytestmark = pytest.mark.regression("D35")

ARGUMENTS = {
    "kubeconfig": "/some/kubeconfig",
    "release-dir": "/some/releases",
    "cache-dir": "/some/cache",
    "namespace": "team",
    "operator-namespace": "stacks-system",
    "watch-filter": "ours",
    "shard": "emea",
    "shards": "emea,apac",
    "metrics-bind-address": ":9",
    "health-probe-bind-address": ":9",
    "node-image-bind-address": ":9",
    "node-image-url": "https://images.example.org",
    "node-image-cert-dir": "/some/certificate",
    "class-kinds": "Widget.example.org",
    "provider-kinds": "Widget.example.org",
    "providers": "openstack",
    "webhook-port": "9444",
    "webhook-service": "stacks/webhooks",
    "webhook-cluster-failure-policy": "Fail",
    "webhook-url": "https://127.0.0.1:9444",
    "clusterstack-concurrency": "3",
    "clusterstackrelease-concurrency": "3",
    "clusteraddon-concurrency": "3",
    "leader-elect": "false",
    "leader-elect-namespace": "stacks",
    "leader-elect-identity": "one",
    "log-level": "debug",
    "log-format": "text",
    "source": "oci",
    "local": "true",
    "take-over": "",
    "release-upgrades": "",
    "observe": "",
    "once": "",
    "source-location": "mirror/kaas",
    "source-interval": "10m",
    "source-plain-http": "",
    "plain-http-credentials": "registry.example.org",
    "source-ca": __file__,
    "verification-keys": __file__,
    "verification-policy": "Warn",
    "allowed-sources": "registry.example.org",
    "chart-repositories": "charts.example.org",
    "drift-interval": "10m",
}
"""A value other than the default for each flag with an effect; one without a value is empty."""

NEEDED = {
    "node-image-bind-address": ["--node-image-url=https://images.example.org", "--operator-namespace=stacks-system"],
    "once": ["--observe"],
    "local": ["--source=oci", "--source-location=registry.example.org/kaas"],
    "source": ["--source-location=registry.example.org/kaas"],
    "source-plain-http": ["--source=oci", "--source-location=registry.example.org/kaas"],
    "verification-policy": [f"--verification-keys={__file__}"],
}
"""What a flag goes with."""


def flags() -> set[str]:
    actions = option_parser()._actions
    return {option.removeprefix("--") for action in actions for option in action.option_strings if option[:2] == "--"}


@pytest.mark.regression("D35")
def test_every_flag_of_the_go_operator_is_accepted() -> None:
    assert flags() - {"help", "version"} == ARGUMENTS.keys() | WITHOUT_MEANING.keys()


@pytest.mark.regression("D35")
@pytest.mark.parametrize("flag", ARGUMENTS)
def test_flag_with_an_effect_changes_the_settings(flag: str) -> None:
    needed, value = NEEDED.get(flag, []), ARGUMENTS[flag]
    changed = parse_settings([*needed, f"--{flag}={value}" if value else f"--{flag}"])
    plain = parse_settings([] if flag == "source" else needed)
    assert changed != plain
    assert changed.notices == ()


@pytest.mark.regression("D35")
@pytest.mark.parametrize("flag", WITHOUT_MEANING)
def test_flag_without_an_effect_prints_a_notice(flag: str) -> None:
    notices = parse_settings([f"--{flag}=1"]).notices
    assert [notice for notice in notices if notice.startswith(f"--{flag} has no effect: ")] == list(notices) != []


@pytest.mark.regression("D35")
def test_metrics_are_served_at_the_metrics_address() -> None:
    assert parse_settings(["--metrics-bind-address=127.0.0.1:9"]).metrics_address == ("127.0.0.1", 9)
