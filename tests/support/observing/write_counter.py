"""Counts what an API server was asked to change, from its own metrics."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from clusterstacks.kube.transport import Call

if TYPE_CHECKING:
    from clusterstacks.kube.client import Client

_LINE = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>[0-9.e+]+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
_OWN = frozenset({"leases", "subjectaccessreviews", "tokenreviews", "selfsubjectreviews"})
"""What API servers and managers write for themselves all the time."""


async def writes(client: Client) -> Counter[str]:
    """Write requests since the server began, by verb and resource."""
    answer = await client._transport.send(Call("get /metrics", "GET", "/metrics", accept="text/plain"))
    counted: Counter[str] = Counter()
    for line in answer.decode().splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        labels = dict(_LABEL.findall(found["labels"]))
        if labels["verb"] in _WRITES and labels["resource"] not in _OWN:
            counted[f"{labels['verb']} {labels['resource']}/{labels['subresource']}"] += int(float(found["count"]))
    return counted
