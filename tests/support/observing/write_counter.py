"""Counts what an API server was asked to change, from its own metrics."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from clusterstacks.net.kube.transport import Call

if TYPE_CHECKING:
    from clusterstacks.net.kube.client import Client

_LINE = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>[0-9.e+]+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
_OWN = frozenset({"leases", "subjectaccessreviews", "tokenreviews", "selfsubjectreviews"})
"""What API servers and managers write for themselves all the time."""
_OF_CLUSTER_API = frozenset({"nodes"})
"""Kinds that Cluster API and its providers label and update at any time, and that are in no addon."""
_OWN_STATUS = frozenset({"customresourcedefinitions", "apiservices", "flowschemas", "prioritylevelconfigurations"})
"""Kinds whose status the API server writes some time after a change, on a busy machine much later."""

PAGE_BYTES = 100 * 1024 * 1024
"""The page grows with each kind of each test on the same server; clients read at most 10 MiB."""


async def writes(client: Client) -> Counter[str]:
    """Write requests since the server began, by verb and resource."""
    transport = client._transport
    limit, transport._max_bytes = transport._max_bytes, PAGE_BYTES
    try:
        answer = await transport.send(Call("get /metrics", "GET", "/metrics", accept="text/plain"))
    finally:
        transport._max_bytes = limit
    counted: Counter[str] = Counter()
    for line in answer.decode().splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        labels = dict(_LABEL.findall(found["labels"]))
        own = labels["resource"] in (_OWN_STATUS if labels["subresource"] == "status" else _OWN) | _OF_CLUSTER_API
        if labels["verb"] in _WRITES and not own:
            counted[f"{labels['verb']} {labels['resource']}/{labels['subresource']}"] += int(float(found["count"]))
    return counted
