"""D42: csctl treated any registry error as a missing tag, and pushed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import DependencyError
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.release.sources.oci_publish import publish
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.fakes.scripted_server import ScriptedServer, hangs_up, says

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fakes.scripted_server import Answer

pytestmark = pytest.mark.regression("D42")

QUICK = RetryPolicy(attempts=2, pause=timedelta(milliseconds=1))


@pytest.mark.regression("D42")
@pytest.mark.parametrize(
    "answer",
    [says({}, 400), says({}, 401), says({}, 403), says({}, 429), says({}, 500), says({}, 503), hangs_up],
    ids=["400", "401", "403", "429", "500", "503", "hangs up"],
)
async def test_registry_error_while_checking_the_tag_is_an_error_and_no_push(answer: Answer, tmp_path: Path) -> None:
    directory = write_release(tmp_path / STAGED.release, staged_release())
    async with ScriptedServer.started() as server, HTTPClient(retries=QUICK) as web:
        server.plays(says({}), answer)
        reference = Reference.parse(f"{server.url.removeprefix('http://')}/kaas/stacks")

        with pytest.raises(DependencyError):
            await publish(directory, Registry(web, reference), datetime.now(UTC))

        assert {request.method for request in server.requests} <= {"GET", "HEAD"}
