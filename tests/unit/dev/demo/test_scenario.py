from __future__ import annotations

from clusterstacks.dev.demo.await_state import LiveObject
from clusterstacks.dev.demo.scenario import compare
from clusterstacks.model.objects import ObjectId


def test_an_upgrade_is_compared_object_by_object() -> None:
    def identity(name: str) -> ObjectId:
        return ObjectId("", "ConfigMap", "kube-system", name)

    before = {identity(name): LiveObject(f"uid-{name}", "1") for name in ("same", "changed", "removed", "recreated")}
    after = {
        identity("same"): LiveObject("uid-same", "1"),
        identity("changed"): LiveObject("uid-changed", "2"),
        identity("recreated"): LiveObject("another uid", "3"),
        identity("new"): LiveObject("uid-new", "4"),
    }

    changes = compare(before, after)

    assert [one.name for one in changes.created] == ["new", "recreated"]
    assert [one.name for one in changes.changed] == ["changed"]
    assert [one.name for one in changes.removed] == ["removed"]
    assert [one.name for one in changes.untouched] == ["same"]
