"""D57: one listing reads every page once, and skips foreign names without a message."""

from __future__ import annotations

import logging

import pytest

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.release.sources.github.assets import GitHubSource
from tests.support.fakes.github import OWNER, REPOSITORY, TOKEN, GitHubDouble

pytestmark = pytest.mark.regression("D57")

OURS = tuple(f"local-tiny-1-35-v{number}" for number in range(1, 141))
FOREIGN = (*(f"v0.{number}.0" for number in range(100)), "latest")


@pytest.mark.regression("D57")
async def test_every_page_of_the_list_is_read_once_and_again_only_if_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with GitHubDouble.started() as github, HTTPClient(environ={}) as web:
        for tag in (*OURS, *FOREIGN):
            github.add(tag, {})
        source = GitHubSource(web, OWNER, REPOSITORY, token=TOKEN, api=github.url)

        assert await source.list() == tuple(sorted(OURS + FOREIGN))
        assert len(github.requests) == 3
        left = github.remaining

        assert await source.list() == tuple(sorted(OURS + FOREIGN))
        assert len(github.requests) == 6
        assert github.remaining == left

        github.releases.pop()  # the oldest one, so that only the last page is another
        assert await source.list() == tuple(sorted(OURS[1:] + FOREIGN))
        assert github.remaining == left - 1
        assert not [record for record in caplog.records if record.name.startswith("clusterstacks")]
