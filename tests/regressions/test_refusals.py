"""USER-11: denials are not circular, have one fact per line, and end with a command."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from clusterstacks.operator.webhooks.cluster_rules import ClassOffer
from clusterstacks.operator.webhooks.suggestions import Suggester
from tests.support.builders.admission import Given, cluster, judged
from tests.support.planner_oracle import candidate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.compat.world import Candidate

pytestmark = pytest.mark.regression("USER-11")

COMMAND = re.compile(r"  (csctl (plan|why|compat)|kubectl (annotate|patch|wait|get)) \S+.*")
FAR = "v1.37.2"


def ranges(
    name: str, kubernetes: str, works_with: str, network: tuple[str, str], metrics: tuple[str, str]
) -> Candidate:
    """A release like those of examples/stacks/local/ranges."""
    addons = {"network": network, "metrics": metrics}
    components = [
        {"name": f"demo-{addon}", "addon": addon, "version": version, "kubernetes": stated}
        for addon, (version, stated) in addons.items()
    ]
    return candidate(name, kubernetes, {"kubernetes": works_with, "components": components})


OLD = ranges("p-s-1-35-v1", "v1.35.4", ">=1.34 <1.37", ("2.3.1", ">=1.33 <1.36"), ("0.8.1", ">=1.33 <1.37"))
NEW = ranges("p-s-1-36-v1", "v1.36.3", ">=1.35 <1.38", ("2.4.0", ">=1.34 <1.38"), ("0.9.0", ">=1.36 <1.39"))
BUNDLE, NEXT, LATER = (candidate(f"p-s-1-{minor}-v9", f"v1.{minor}.9", None) for minor in (35, 36, 37))
GIVEN = (OLD, NEW, BUNDLE, NEXT, LATER)
NOW = {"version": "v1.35.4"}


@dataclass
class Strangers(Given):
    """A namespace with a stack of its own, and a release that is not known yet."""

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:
        found = await super().offer(namespace, release, wanted)
        return found or ClassOffer("", lacking={release: "it is being fetched for the first time"})


@pytest.fixture
def suggester() -> Iterator[Suggester]:
    made = Suggester()
    yield made
    made.close()


@pytest.mark.regression("USER-11")
async def test_suggestion_for_a_class_change_is_not_the_denied_change(suggester: Suggester) -> None:
    answer = await judged(suggester, cluster("p-s-1-36-v1", "v1.35.4"), cluster(**NOW), Given(GIVEN))

    assert answer.refusal == (
        "class p-s-1-36-v1 with Kubernetes v1.35.4 is refused:\n"
        "  cluster addon metrics: demo-metrics 0.9.0 works with Kubernetes >=1.36 <1.39\n"
        "Do this instead, one after the other:\n"
        "  1. upgrade cluster addon network to 2.4.0 (release p-s-1-36-v1 has it)\n"
        "  2. move to class p-s-1-36-v1 with Kubernetes v1.36.3\n"
        "  3. upgrade cluster addon metrics to 0.9.0 (release p-s-1-36-v1 has it)\n"
        "All steps with their commands:\n"
        "  csctl plan users/one --to p-s-1-36-v1\n"
        "Begin with:\n"
        "  kubectl annotate cluster -n users one --overwrite clusterstack.x-k8s.io/addon.network=p-s-1-36-v1"
    )


@pytest.mark.regression("USER-11")
async def test_denied_change_of_class_and_version_lists_the_steps_to_that_class(
    suggester: Suggester,
) -> None:
    answer = await judged(suggester, cluster("p-s-1-36-v1", "v1.36.3"), cluster(**NOW), Given(GIVEN))

    assert "  2. move to class p-s-1-36-v1 with Kubernetes v1.36.3\n" in answer.refusal
    assert "  csctl plan users/one --to p-s-1-36-v1\n" in answer.refusal


@pytest.mark.regression("USER-11")
async def test_denied_downgrade_names_the_deciding_fact(suggester: Suggester) -> None:
    has = {"network": NEW.name, "metrics": OLD.name}
    moved = cluster(**NOW, addon__network="p-s-1-36-v1")

    answer = await judged(suggester, cluster(**NOW), moved, Given(GIVEN, has=has))

    assert answer.refusal == (
        "class p-s-1-35-v1 with Kubernetes v1.35.4 is refused:\n"
        "  cluster addon network: demo-network 2.3.1 does not support a downgrade from 2.4.0 (upgrade.downgrade)\n"
        "Choose another version of cluster addon network: 2.4.0 of release p-s-1-36-v1\n"
        "The releases, their addons, and what they work with:\n"
        "  csctl compat matrix users/one"
    )


@pytest.mark.regression("USER-11")
async def test_denial_for_a_bundle_names_the_command_that_lists_classes(suggester: Suggester) -> None:
    bundle = "p-s-1-35-v9"

    answer = await judged(suggester, cluster(bundle, "v1.36.1"), cluster(bundle, "v1.35.9"), Given(GIVEN))

    assert answer.refusal == (
        "class p-s-1-35-v9 is for Kubernetes v1.35.9 exactly, and spec.topology.version is v1.36.1: set it to v1.35.9, "
        "or choose a class made for the version you want\n"
        "The releases and their Kubernetes versions:\n"
        "  kubectl get clusterstackreleases -n stacks"
    )


@pytest.mark.regression("USER-11")
@pytest.mark.parametrize(
    ("new", "old", "command"),
    [
        pytest.param(cluster(version="v1.37.2"), cluster(**NOW), f"csctl plan users/one --to {FAR}", id="two minors"),
        pytest.param(cluster(version="v1.34.1"), cluster(**NOW), "kubectl get clusterstackreleases", id="down"),
        pytest.param(cluster("q-s-1-36-v1", **NOW), cluster(**NOW), "kubectl get clusterstackreleases", id="stack"),
        pytest.param(cluster("p-s-1-36-v7", **NOW), cluster(**NOW), "kubectl get clusterstackreleases", id="unknown"),
        pytest.param(cluster(version="v1.38.1"), None, "kubectl get clusterstackreleases", id="new cluster"),
        pytest.param(cluster("p-s-1-35-v9", FAR), None, "kubectl get clusterstackreleases", id="new cluster, bundle"),
        pytest.param(cluster(version="v1.36.3"), cluster(**NOW), "kubectl annotate cluster", id="facts"),
        pytest.param(
            cluster(**NOW, addon__metrics="p-s-1-36-v1"), cluster(**NOW), "csctl compat matrix users/one", id="addon"
        ),
        pytest.param(
            cluster(**NOW, addon__netwrk="p-s-1-36-v1"), cluster(**NOW), "csctl compat matrix users/one", id="slip"
        ),
        pytest.param(
            cluster(**NOW, addon__metrics="p-s-1-36-v8"), cluster(**NOW), "csctl compat matrix", id="no such release"
        ),
        pytest.param(
            cluster("p-s-1-37-v9", "v1.37.9"),
            cluster("p-s-1-35-v9", "v1.35.9"),
            "csctl plan users/one --to p-s-1-37",
            id="bundles",
        ),
        pytest.param(
            cluster("p-s-1-35-v9", "v1.35.9"), cluster("p-s-1-36-v9", "v1.36.9"), "kubectl get", id="bundles, down"
        ),
        pytest.param(
            cluster("p-s-1-35-v9", "v1.35.9", addon__network="p-s-1-36-v1"),
            cluster("p-s-1-35-v9", "v1.35.9"),
            "csctl compat matrix users/one",
            id="bundle with annotation",
        ),
    ],
)
async def test_every_denial_ends_with_a_command(
    suggester: Suggester, new: Manifest, old: Manifest | None, command: str
) -> None:
    answer = await judged(suggester, new, old, Strangers(GIVEN))

    last = answer.refusal.splitlines()[-1]
    assert COMMAND.fullmatch(last), answer.refusal
    assert last.startswith(f"  {command}")


@pytest.mark.regression("USER-11")
async def test_denial_of_labels_or_namespace_ends_with_a_command(suggester: Suggester) -> None:
    rule = {
        "severity": "Deny",
        "message": "production stays on 1.34",
        "when": {"clusterLabels": {"stage": "prod"}, "kubernetes": ">=1.35"},
    }

    labelled = await judged(
        suggester, cluster(**NOW, labels={"stage": "prod"}), cluster(**NOW), Given(GIVEN, rules=(rule,))
    )
    elsewhere = await judged(
        suggester, cluster("p-s-1-36-v1", **NOW), cluster(**NOW), Given(GIVEN, refusal="is not offered to namespace")
    )

    assert "production stays on 1.34" in labelled.refusal
    assert labelled.refusal.endswith("\n  kubectl get compatibilityrules")
    assert elsewhere.refusal.endswith("\n  kubectl get clusterstackreleases -n stacks")


@pytest.mark.regression("USER-11")
async def test_without_a_plan_the_command_names_the_facts(suggester: Suggester) -> None:
    closed = ranges("p-s-1-36-v1", "v1.36.3", ">=1.36 <1.38", ("2.4.0", ">=1.36 <1.38"), ("0.9.0", ">=1.36 <1.39"))

    answer = await judged(suggester, cluster(version="v1.36.3"), cluster(**NOW), Given((OLD, closed)))

    assert "\nThere is no plan: no release offers a version of demo-network" in answer.refusal
    assert answer.refusal.endswith("\nThe facts that forbid it:\n  csctl plan users/one --to v1.36.3")
