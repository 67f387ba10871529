from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.building.kubernetes_patch import newest_patch
from clusterstacks.domain.versions import KubernetesMinor, KubernetesVersion
from clusterstacks.http.client import RetryPolicy, Web
from clusterstacks.http.errors import SourceUnavailable
from tests.support.static_server import StaticServer

if TYPE_CHECKING:
    from pathlib import Path

MINOR = KubernetesMinor(1, 35)


async def ask(root: Path) -> KubernetesVersion:
    web = Web(patience=RetryPolicy(attempts=1, pause=timedelta(0)), environ={})
    async with StaticServer.started(root) as server, web:
        return await newest_patch(web, MINOR, f"{server.url}/")


async def test_the_newest_patch_is_what_kubernetes_publishes(tmp_path: Path) -> None:
    (tmp_path / "stable-1.35.txt").write_text("v1.35.12\n")

    assert await ask(tmp_path) == KubernetesVersion(1, 35, 12)


@pytest.mark.parametrize("text", ["<html>", "v1.36.0", "", "x" * 1000])
async def test_another_answer_is_refused_with_a_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "stable-1.35.txt").write_text(text)

    with pytest.raises(SourceUnavailable, match=r"write the patch of 1.35 into stack.yaml"):
        await ask(tmp_path)


async def test_no_answer_is_told_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"write the patch of 1.35 into stack.yaml"):
        await ask(tmp_path)
