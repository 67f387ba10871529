"""Compatibility with the command line and the installation of the Go operator."""

from __future__ import annotations

import asyncio
import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.go_operator import (
    WEBHOOKS,
    GoLeftovers,
    leads_to,
    leftover,
    started_as_manager,
    two_dashes,
    writable_directory,
)
from clusterstacks.operator.settings import OperatorSettings, parse_settings
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.stack_source import default_settings
from tests.support.fakes.api_server import FakeApi, too_many, unreachable
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.release.sources.spec import SourceAddress

GO_DEFAULTS = {
    "OCI_REGISTRY": "registry.example.org",
    "OCI_REPOSITORY": "kaas/stacks",
    "OCI_USERNAME": "",
    "GIT_ORG_NAME": "",
}


def address(settings: OperatorSettings) -> SourceAddress:
    return default_settings(settings.source).address


@pytest.mark.regression("DROP-H3")
@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        (["-source", "oci"], ["--source", "oci"]),
        (["-leader-elect=true", "--log-level=info"], ["--leader-elect=true", "--log-level=info"]),
        (["-release-dir", "/a-b/-c"], ["--release-dir", "/a-b/-c"]),
        (["-h"], ["-h"]),
        (["--", "-1", "-"], ["--", "-1", "-"]),
    ],
)
def test_flags_with_one_dash_are_accepted(arguments: list[str], same: list[str]) -> None:
    assert two_dashes(arguments) == same


@pytest.mark.regression("DROP-H3")
def test_command_of_the_go_chart_is_accepted() -> None:
    settings = parse_settings(["-source", "oci"], GO_DEFAULTS, program="/manager")

    assert str(address(settings)) == "oci://registry.example.org/kaas/stacks"
    assert (settings.release_dir, settings.as_manager) == (Path("/tmp/downloads"), True)
    assert settings.election is not None
    assert settings.notices == ()


@pytest.mark.regression("DROP-H5")
def test_local_mode_reads_the_directory_of_the_go_operator() -> None:
    settings = parse_settings(["--leader-elect=true", "--release-dir=/tmp", "--local=true"], GO_DEFAULTS)

    assert (address(settings).kind, settings.release_dir) == (source_kinds.DIRECTORY, Path("/tmp"))


@pytest.mark.regression("DROP-H5")
def test_log_level_warn_is_accepted() -> None:
    assert parse_settings(["--log-level", "warn"]).log_level == "warning"


@pytest.mark.parametrize(
    ("arguments", "notice"),
    [
        (["-log-level=trace"], "--log-level trace is not a level: info is used"),
        (["-log-level", "INFO"], "--log-level INFO is not a level"),
        (["-clusteraddon-concurrency=0"], "--clusteraddon-concurrency 0 counts as 1"),
        (["-leader-elect=true", "more", "words", "--"], "'more words' is not a flag"),
        (["-source", "oci"], "--source oci has no effect, because its variables are not set"),
    ],
)
def test_arguments_that_the_go_operator_accepts_start_with_a_notice(arguments: list[str], notice: str) -> None:
    settings = parse_settings(arguments, program="/manager")

    assert [notice in one for one in settings.notices] == [True]
    assert (settings.log_level, settings.workers["clusteraddon"] > 0) == ("info", True)
    assert address(settings).kind is source_kinds.DIRECTORY


@pytest.mark.regression("DROP-H5")
@pytest.mark.parametrize(
    ("program", "is_manager"),
    [("/manager", True), ("manager", True), ("/usr/bin/cluster-stack-operator", False), ("/manager/x", False)],
)
def test_start_under_the_name_manager_is_recognized(program: str, *, is_manager: bool) -> None:
    assert started_as_manager(program) is is_manager


@pytest.mark.regression("DROP-L8")
def test_unknown_flag_ends_with_a_one_line_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--no-such-flag"])

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cluster-stack-operator: error: unrecognized arguments: --no-such-flag")


@pytest.mark.regression("DROP-L8")
def test_version_flag_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_settings(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("cluster-stack-operator 0.")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the files of ``tmp_path`` be the temporary ones."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_writable_release_directory_is_used(temporary: Path) -> None:
    assert writable_directory(temporary / "a" / "b") == temporary / "a" / "b"


@pytest.mark.regression("DROP-H5")
def test_without_a_volume_releases_are_stored_in_the_temporary_directory(temporary: Path) -> None:
    (temporary / "file").touch()
    fallback = temporary / f"cluster-stacks-{os.getuid()}"

    assert writable_directory(temporary / "file" / "cache") == fallback
    assert fallback.stat().st_mode & 0o777 == 0o700
    assert writable_directory(temporary / "file" / "cache") == fallback


@pytest.mark.parametrize("kind", ["a link", "writable for all"])
def test_directory_of_another_user_is_not_used(temporary: Path, kind: str) -> None:
    (temporary / "file").touch()
    fallback = temporary / f"cluster-stacks-{os.getuid()}"
    if kind == "a link":
        (temporary / "elsewhere").mkdir()
        fallback.symlink_to(temporary / "elsewhere")
    else:
        fallback.mkdir()
        fallback.chmod(0o777)

    with pytest.raises(PermissionError):
        writable_directory(temporary / "file" / "cache")


OWN = "/validate-clusterstack-x-k8s-io-v1alpha1-clusterstack"
CLUSTERS = "/validate-cluster-x-k8s-io-v1beta1-cluster"


def webhooks(
    *paths: str, namespace: str = "cso-system", name: str = "cso-validating-webhook-configuration"
) -> Manifest:
    services = [{"name": "cso-webhook-service", "namespace": namespace, "path": path} for path in paths]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name, "uid": "u"},
        "webhooks": [{"clientConfig": {"service": service}} for service in services],
    }


def extension(name: str) -> Manifest:
    service = {"name": "cso-hook-server-svc", "namespace": "cso-system"}
    return {
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2",
        "kind": "ExtensionConfig",
        "metadata": {"name": name, "uid": "u"},
        "spec": {"clientConfig": {"service": service}},
    }


@pytest.mark.regression("DROP-H2")
@pytest.mark.parametrize(
    ("manifest", "recognized"),
    [
        (webhooks(OWN, CLUSTERS), True),
        (webhooks(OWN, name="stacks-validating-webhook-configuration"), True),
        (webhooks(OWN, "/validate"), False),
        (webhooks("/validate"), False),
        (webhooks(), False),
        ({**webhooks(), "webhooks": [{"clientConfig": {"url": "https://example.org"}}]}, False),
        ({**webhooks(), "webhooks": "none"}, False),
        (extension("cso-hook-server-extensionconfig"), True),
        (extension("upgrade-hooks"), False),
        ({**extension("cso-hook-server-extensionconfig"), "spec": {}}, False),
    ],
)
def test_only_objects_of_the_go_installation_are_recognized(manifest: Manifest, *, recognized: bool) -> None:
    assert (leftover(manifest) is not None) is recognized


@pytest.mark.regression("DROP-H2")
@pytest.mark.parametrize(
    ("namespace", "own", "belongs"),
    [("cso-system", "cso-system", True), ("elsewhere", "cso-system", False), ("cso-system", "", False)],
)
def test_only_webhooks_of_the_own_namespace_are_removed(namespace: str, own: str, *, belongs: bool) -> None:
    found = leftover(webhooks(OWN, CLUSTERS, namespace=namespace))

    assert found is not None
    assert found.services == {ObjectKey(namespace, "cso-webhook-service")}
    assert found.belongs_to(own) is belongs
    assert found.command() == "kubectl delete validatingwebhookconfiguration cso-validating-webhook-configuration"


POD = {
    "metadata": {"labels": {"control-plane": "cso-controller-manager", "pod-template-hash": "x"}},
    "spec": {"containers": [{"ports": [{"name": "webhook-server", "containerPort": 9443}]}]},
}


def service(port: int, target: object, **selector: str) -> dict[str, Any]:
    return {"spec": {"selector": selector, "ports": [{"port": port, "targetPort": target}]}}


@pytest.mark.regression("DROP-H3")
@pytest.mark.parametrize(
    ("manifest", "leads"),
    [
        (service(443, 9443, **{"control-plane": "cso-controller-manager"}), True),
        (service(443, "webhook-server", **{"control-plane": "cso-controller-manager"}), True),
        (service(443, 9442, **{"control-plane": "cso-controller-manager"}), False),
        (service(443, "hook-server", **{"control-plane": "cso-controller-manager"}), False),
        (service(8443, 9443, **{"control-plane": "cso-controller-manager"}), False),
        (service(443, 9443, app="other"), False),
        (service(443, 9443), False),
        ({}, False),
    ],
)
def test_webhook_service_selects_the_pod_and_its_port(manifest: Manifest, *, leads: bool) -> None:
    assert leads_to(manifest, POD, 9443) is leads


@in_virtual_time
async def test_leftovers_are_found_after_the_api_server_answers_again(caplog: pytest.LogCaptureFixture) -> None:
    configurations = Resource(WEBHOOKS[0], "v1", WEBHOOKS[1], "validatingwebhookconfigurations", namespaced=False)
    api = FakeApi(configurations)
    await api.create(configurations, webhooks(OWN))
    api.fail("list", unreachable(), too_many(timedelta(seconds=1)))
    running = asyncio.create_task(GoLeftovers(client=api, namespace="cso-system", remove=False).run())

    await asyncio.sleep(100)

    assert not running.done()
    assert "kubectl delete validatingwebhookconfiguration" in caplog.text
    running.cancel()
