from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.deliver.apply.waiting import describe_deletion

SINCE = "2026-11-27T11:39:11Z"


def condition(kind: str, status: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "message": message}


LEFT = condition("NamespaceContentRemaining", "True", "Some resources are remaining: pods. has 1 resource instances")
DISCOVERED = condition("NamespaceDeletionDiscoveryFailure", "False", "All resources successfully discovered")
DEFINED = condition("Established", "True", "the initial names have been accepted")
LEAVING = condition("Terminating", "True", "CustomResource deletion is in progress\n\x1b[31m")


@pytest.mark.regression("CASE-14", "LIVE-LV-6")
@pytest.mark.parametrize(
    ("finalizers", "conditions", "waits_for"),
    [
        (["a/b", "c/d"], [], "a/b, c/d"),
        ([], [], "its content"),
        ([], [DISCOVERED, LEFT], f"its content: {LEFT['message']}"),
        (["a/b"], [LEFT, LEAVING], f"a/b, its content: {LEFT['message']}; CustomResource deletion is in progress [31m"),
        (["a/b"], [DISCOVERED, DEFINED], "a/b"),
        (None, "conditions", "its content"),
        (["a/b"], [7, None, {"type": 5, "status": "True"}], "a/b"),
    ],
)
def test_an_object_that_is_deleted_says_what_it_waits_for(finalizers: Any, conditions: Any, waits_for: str) -> None:
    live = {
        "metadata": {"deletionTimestamp": SINCE, "finalizers": finalizers},
        "status": {"conditions": conditions},
    }
    assert describe_deletion(live) == f"is being deleted since {SINCE} and waits for {waits_for}"
