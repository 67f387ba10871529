"""LIVE-L5 and LIVE-L6: messages name what an administrator has to change."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.messages import explain
from clusterstacks.deliver.apply.targets import ApplyTarget
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import ObjectId
from clusterstacks.net.kube.errors import NotFound
from clusterstacks.net.kube.failure_status import status_error
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.spec import SourceAddress
from tests.support.builders.releases import write_release

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.objects import Manifest

OBJECT: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}


@pytest.mark.regression("LIVE-L5")
def test_missing_namespace_message_suggests_adding_it_to_the_chart() -> None:
    target = ApplyTarget(ObjectId("", "ConfigMap", "shop", "a"), "v1", OBJECT, "", None)
    body = {
        "message": 'namespaces "shop" not found',
        "reason": "NotFound",
        "details": {"name": "shop", "kind": "namespaces"},
    }

    error = status_error("apply ConfigMap shop/a", 404, body)

    assert isinstance(error, NotFound)
    assert explain(error, target) == (
        'apply ConfigMap shop/a: 404 NotFound: namespaces "shop" not found; add an object of kind Namespace with the '
        "name shop to the chart or source, or correct metadata.namespace"
    )


@pytest.mark.regression("LIVE-L5")
def test_missing_namespace_of_a_secret_is_named_although_the_message_is_withheld() -> None:
    target = ApplyTarget(ObjectId("", "Secret", "shop", "a"), "v1", OBJECT, "", None)
    body = {"message": 'namespaces "shop" not found', "reason": "NotFound", "details": {"name": "shop"}}

    error = status_error("apply Secret shop/a", 404, body, confidential=True)

    assert "add an object of kind Namespace with the name shop" in explain(error, target)


@pytest.mark.regression("LIVE-L6")
async def test_disk_error_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = parse_release("local-mess-1-35-v22")
    write_release(tmp_path / "releases" / str(name), {"metadata.yaml": b"a"})
    into = tmp_path / "store"
    into.mkdir()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(DirectorySource, "_copy", full)

    with pytest.raises(DependencyError) as caught:
        await DirectorySource(tmp_path / "releases").fetch(name, into)

    assert f"releases cannot be stored in {into}: No space left on device" in caught.value.message


@pytest.mark.regression("LIVE-L6")
def test_startup_log_names_the_release_source() -> None:
    assert str(SourceAddress(source_kinds.DIRECTORY, "")) == "the release directory"
    assert str(SourceAddress(source_kinds.DIRECTORY, "team")) == "directory team below the release directory"
