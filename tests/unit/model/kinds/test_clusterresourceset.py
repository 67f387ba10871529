"""An annotated ClusterResourceSet is read as the sync that its annotations describe."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterresourceset import applied_sources, sync_of_set
from clusterstacks.model.kinds.clusterresourcesync import NAME_RULE, binding_name
from clusterstacks.model.kinds.clusterstack import DeletionPolicy
from clusterstacks.model.kinds.names import RESOURCE_SET_KIND, set_name, sync_name
from tests.support.builders.manifests import named

PREFIX = "addons.clusterstack.x-k8s.io/"
SELECTOR = {"matchLabels": {"cni": "yes"}}


def resource_set(name: str = "cni", selector: Any = SELECTOR, **annotations: str) -> dict[str, Any]:
    spec = {"clusterSelector": selector, "resources": [{"kind": "ConfigMap", "name": "cni"}], "strategy": "ApplyOnce"}
    manifest = named("addons.cluster.x-k8s.io/v1beta2", RESOURCE_SET_KIND, name, "team", spec=spec)
    written = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": written}}


def test_set_without_the_annotation_or_a_selector_is_not_kept() -> None:
    assert sync_of_set(resource_set()) is None
    assert sync_of_set(resource_set(interval="10s")) is None
    selectors: tuple[Any, ...] = ({}, {"matchLabels": {}}, None)
    for empty in selectors:
        assert sync_of_set(resource_set(selector=empty, strategy="Continuous")) is None


@pytest.mark.parametrize("strategy", ["Continuous", "Reconcile"])
def test_strategy_is_that_of_the_annotation(strategy: str) -> None:
    sync = sync_of_set(resource_set(strategy=strategy))
    assert sync is not None
    assert sync.spec.strategy == strategy


def test_nothing_is_deleted_unless_further_annotations_say_so() -> None:
    sync = sync_of_set(resource_set(strategy="Continuous"))
    assert sync is not None
    assert (sync.spec.prune, sync.spec.deletion_policy, sync.spec.suspend) == (False, DeletionPolicy.ORPHAN, False)
    assert sync.spec.drift_settings().interval == timedelta(seconds=60)
    assert sync.spec.cluster_selector.matches({"cni": "yes"})
    assert not sync.spec.cluster_selector.matches({})
    assert [(one.kind, one.name) for one in sync.spec.resources] == [("ConfigMap", "cni")]

    manifest = resource_set(strategy="Continuous", prune="true", deletion_policy="Delete", interval="5m")
    manifest["metadata"]["annotations"]["cluster.x-k8s.io/paused"] = ""
    told = sync_of_set(manifest)
    assert told is not None
    assert (told.spec.prune, told.spec.deletion_policy, told.spec.suspend) == (True, DeletionPolicy.DELETE, True)
    assert told.spec.drift_settings().interval == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({"strategy": "Sometimes"}, ["strategy is 'Sometimes'", "Continuous"]),
        ({"strategy": ""}, ["strategy is ''", "Continuous"]),
        ({"strategy": "ApplyOnce"}, ["'ApplyOnce'", "Continuous, Reconcile"]),
        ({"strategy": "Continuous", "prune": "yes"}, ["prune is 'yes'", "true, false"]),
        ({"strategy": "Continuous", "deletion_policy": "orphan"}, ["'orphan'", "Delete, Orphan"]),
        ({"strategy": "Continuous", "interval": "1s"}, ["interval is '1s'", "10s to 24h"]),
        ({"strategy": "Continuous", "interval": "off"}, ["interval is 'off'", "10s to 24h"]),
        ({"strategy": "no", "prune": "no"}, ["strategy is 'no'", "prune is 'no'"]),
    ],
)
def test_invalid_annotation_is_named_with_the_values_that_are_allowed(
    annotations: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(SpecError) as raised:
        sync_of_set(resource_set(**annotations))
    assert [word for word in ["ClusterResourceSet team/cni", *words] if word not in raised.value.message] == []


@pytest.mark.parametrize("name", ["cni.calico", "a" * 64])
def test_name_that_cannot_be_part_of_a_binding_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="copy its spec into a ClusterResourceSync"):
        sync_of_set(resource_set(name, strategy="Continuous"))


def test_names_of_both_kinds_of_syncs_are_different() -> None:
    sync = sync_of_set(resource_set("cni", strategy="Continuous"))
    assert sync is not None
    assert sync.metadata.name == sync_name("cni") == "crs.cni"
    assert "." not in NAME_RULE[0].split("'")[1].replace("metadata.name", "")
    assert binding_name(sync.metadata.name, "prod") == "crs.cni.prod"
    assert (set_name("crs.cni"), set_name("cni"), set_name("crs")) == ("cni", "", "")


def test_applied_sources_are_those_of_the_set() -> None:
    def entry(name: str, **applied: bool) -> dict[str, Any]:
        resources = [{"kind": "ConfigMap", "name": key, "applied": value} for key, value in applied.items()]
        return {"clusterResourceSetName": name, "resources": resources}

    binding = {"spec": {"bindings": [entry("cni", a=True, b=False), entry("other", b=True)]}}
    assert applied_sources(binding, "cni") == {("ConfigMap", "a")}
    assert applied_sources(binding, "third") == applied_sources(None, "cni") == frozenset()
