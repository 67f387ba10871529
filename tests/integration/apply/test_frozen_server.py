from __future__ import annotations

import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.net.kube.errors import Unreachable
from tests.support.builders.manifests import config_map

if TYPE_CHECKING:
    from clusterstacks.dev.apiserver import ApiServer
    from tests.integration.apply.conftest import Cluster


async def test_delivery_to_a_frozen_server_ends_and_a_later_one_completes_it(
    cluster: Cluster, workload_server: ApiServer, unique: str
) -> None:
    """One deadline for the calls under way and one for the question whether it is the server; not one per object."""
    client = cluster.new_client(deadline=timedelta(seconds=1))
    revision = Revision.of([config_map(f"{unique}-{number}") for number in range(200)], "inputs")
    apply, calls = client.apply, 0

    async def freezing(*call: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 50:
            workload_server.process.send(signal.SIGSTOP)
        return await apply(*call, **settings)

    client.apply = freezing  # type: ignore[method-assign]  # the process stops right between two requests
    try:
        with pytest.raises(Unreachable):
            await Delivery(client).install(unique, revision)
        assert calls <= 50 + 2 * 16, "only calls under way at the freeze wait for the deadline"
    finally:
        workload_server.process.send(signal.SIGCONT)

    report = await Delivery(cluster.client).install(unique, revision)

    assert report.synced
