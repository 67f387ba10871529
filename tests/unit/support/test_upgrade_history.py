"""The checks of what happened in an upgrade find what they look for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.observing.request_audit import AuditedRequest
from tests.support.observing.upgrade_history import FOREVER, Span, node_spans, skew_violated

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

START = datetime(2026, 11, 27, tzinfo=UTC)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def write(verb: str, name: str, minute: int, content: Manifest | None = None) -> AuditedRequest:
    kind = "nodes" if verb == "delete" else "nodes/status"
    return AuditedRequest(
        agent="kwok", verb=verb, kind=kind, namespace="", name=name, code=200, began=at(minute), ended=at(minute),
        content=content or {},
    )  # fmt: skip


def test_a_node_has_its_version_from_its_first_report_to_its_deletion() -> None:
    old, new = ({"status": {"nodeInfo": {"kubeletVersion": version}}} for version in ("v1.34.7", "v1.35.4"))
    requests = [write("patch", "a", 1, old), write("patch", "b", 2, new), write("patch", "a", 3, old)]
    assert node_spans([*requests, write("delete", "a", 4)]) == [
        Span("v1.34.7", at(1), at(4)),
        Span("v1.35.4", at(2), FOREVER),
    ]


@pytest.mark.parametrize(
    ("node", "violations"),
    [
        (Span("v1.34.7", at(0), at(9)), 0),
        (Span("v1.35.4", at(6)), 0),
        (Span("v1.35.4", at(4)), 1),
        (Span("v1.31.0", at(0), at(4)), 0),
        (Span("v1.31.0", at(0), at(6)), 1),
        (Span("v1.36.3", at(0)), 2),
    ],
)
def test_a_kubelet_that_is_newer_or_too_old_is_found(node: Span, violations: int) -> None:
    control_plane = [Span("v1.34.7", at(0), at(5)), Span("v1.35.4", at(5))]
    assert len(skew_violated(control_plane, [node])) == violations
