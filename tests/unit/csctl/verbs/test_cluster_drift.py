from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from clusterstacks.csctl.verbs import cluster_drift
from clusterstacks.csctl.verbs.cluster_drift import Compared, Found, drift, unused_exceptions
from clusterstacks.deliver.apply.drift_rules import CHANGED, NOT_COMPARED, DriftedObject
from clusterstacks.model.drift_settings import DriftSettings, IgnoredDifference
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError
from clusterstacks.model.objects import ObjectId, object_id
from tests.support.builders.manifests import config_map, deployment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.objects import Manifest

DNS = ObjectId("", "ConfigMap", "kube-system", "dns")
CHANGED_DNS = Found(DriftedObject(DNS, "dns", CHANGED))
UNREAD_DNS = Found(DriftedObject(DNS, "dns", NOT_COMPARED, error="no answer"))


def recorded(number: int) -> dict[ObjectId, str]:
    """Return as many objects of an addon."""
    return {ObjectId("", "ConfigMap", "kube-system", f"dns-{one}"): "dns" for one in range(number)}


@pytest.mark.regression("LIVE-LV-7")
@pytest.mark.parametrize(
    ("found", "code"),
    [
        ((3, [], []), 0),
        ((3, [CHANGED_DNS], []), 1),
        ((3, [UNREAD_DNS], []), 2),
        ((3, [CHANGED_DNS, UNREAD_DNS], []), 2),
        ((3, [], ["addon dns has no record"]), 2),
        ((3, [CHANGED_DNS], ["addon dns has no record"]), 2),
        (DependencyError("NoAnswer", "the API server does not answer"), 2),
        (SpecError("RecordUnreadable", "Secret kube-system/a is unreadable"), 2),
    ],
)
def test_live_lv_7_exit_code_tells_differences_from_trouble(
    monkeypatch: pytest.MonkeyPatch, found: Any, code: int
) -> None:
    async def compare(*_: object) -> Any:
        if isinstance(found, ClusterStacksError):
            raise found
        objects, drifted, lost = found
        return Compared(recorded(objects), drifted, lost, [])

    monkeypatch.setattr(cluster_drift, "_compare", compare)

    assert CliRunner().invoke(drift, ["team/one", "--exit-code"], standalone_mode=False).return_value == code


@pytest.mark.regression("LIVE-LV-5")
@pytest.mark.parametrize(
    ("objects", "expected"), [(1, "The only object is as it was delivered.\n"), (2, "All 2 objects are")]
)
def test_live_lv_5_one_object_is_not_all_1_objects(
    monkeypatch: pytest.MonkeyPatch, objects: int, expected: str
) -> None:
    async def compare(*_: object) -> Compared:
        return Compared(recorded(objects), [], [], [])

    monkeypatch.setattr(cluster_drift, "_compare", compare)

    assert CliRunner().invoke(drift, ["team/one"], standalone_mode=False).output.startswith(expected)


@pytest.mark.regression("LIVE-LV-12")
def test_live_lv_12_nothing_is_as_delivered_without_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    async def compare(*_: object) -> Compared:
        return Compared(recorded(4), [], ["addon dns has no delivery record"], [])

    monkeypatch.setattr(cluster_drift, "_compare", compare)
    output = CliRunner().invoke(drift, ["team/one"], standalone_mode=False).output

    assert "addon dns has no delivery record" in output
    assert "as they were delivered" not in output


CLOUDS = ObjectId("", "Secret", "kube-system", "clouds-yaml")
RESTORED = {
    "group": "",
    "kind": "Secret",
    "namespace": "kube-system",
    "name": "clouds-yaml",
    "sync": "clouds",
    "change": "was deleted",
    "correctedAt": "2026-03-01T14:02:11Z",
}


def test_objects_of_a_sync_are_named_with_it_also_those_that_were_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def compare(*_: object) -> Compared:
        found = [Found(DriftedObject(CLOUDS, "clouds", CHANGED), "clouds"), CHANGED_DNS]
        return Compared(recorded(9), found, [], [RESTORED, {**RESTORED, "sync": "", "change": "was changed"}])

    monkeypatch.setattr(cluster_drift, "_compare", compare)

    assert CliRunner().invoke(drift, ["team/one"], standalone_mode=False).output.splitlines() == [
        "Secret kube-system/clouds-yaml (sync clouds): was changed",
        "ConfigMap kube-system/dns was changed",
        "2 of 9 objects differ from what was delivered.",
        "Restored by the operator:",
        "  Secret kube-system/clouds-yaml (sync clouds): was deleted, restored 2026-03-01T14:02:11Z",
        "  Secret kube-system/clouds-yaml was changed, restored 2026-03-01T14:02:11Z",
    ]


WEB, SETTINGS = deployment("web", "default"), config_map("settings", "default", a="1")


@pytest.mark.regression("LIVE-LV-5")
@pytest.mark.parametrize(
    ("ignored", "manifests", "expected"),
    [
        (IgnoredDifference("Nope", "", (("spec",),)), [WEB], "for Nope: no such object is delivered"),
        (IgnoredDifference("Deployment.apps", "db", ()), [WEB], "for Deployment.apps db: no such object is delivered"),
        (IgnoredDifference("ConfigMap", "", (("data", "zzz"),)), [SETTINGS], "for .data.zzz of ConfigMap: it is not"),
        (IgnoredDifference("Deployment", "web", (("spec", "replicas"),)), [WEB], ""),
        (IgnoredDifference("ConfigMap", "", (("data", "a"),)), [SETTINGS, config_map("other", "default")], ""),
        (IgnoredDifference("ConfigMap", "", (("data", "zzz"),)), None, ""),
    ],
)
def test_live_lv_5_an_exception_without_effect_is_named(
    ignored: IgnoredDifference, manifests: Sequence[Manifest] | None, expected: str
) -> None:
    objects = [object_id(manifest) for manifest in (WEB, SETTINGS)]

    found = unused_exceptions(DriftSettings(ignored=(ignored,)), objects, [manifests])

    assert len(found) == bool(expected)
    assert expected in "".join(found)
