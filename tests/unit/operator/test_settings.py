"""Settings of the source, the provider kinds and the webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.provider_refs import DEFAULT_KINDS, KindPattern
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.settings import parse_settings
from clusterstacks.operator.webhooks.configuration import Endpoint
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.spec import SourceAddress
from clusterstacks.release.sources.stack_source import default_settings

if TYPE_CHECKING:
    from pathlib import Path

OCI = {"OCI_REGISTRY": "registry.example.org", "OCI_REPOSITORY": "registry.example.org/kaas/stacks"}
GIT = {"GIT_PROVIDER": "github", "GIT_ORG_NAME": "team", "GIT_REPOSITORY_NAME": "stacks"}


@pytest.mark.parametrize(
    ("arguments", "environ", "address"),
    [
        ([], {}, SourceAddress(source_kinds.DIRECTORY, "")),
        ([], dict.fromkeys(OCI | GIT, ""), SourceAddress(source_kinds.DIRECTORY, "")),
        ([], OCI | GIT, SourceAddress(source_kinds.GITHUB, "team/stacks")),
        ([], OCI | {"GIT_PROVIDER": "github"}, SourceAddress(source_kinds.OCI, "registry.example.org/kaas/stacks")),
        (["--source=directory"], OCI | GIT, SourceAddress(source_kinds.DIRECTORY, "")),
        (["--local=true", "--source=oci"], OCI | GIT, SourceAddress(source_kinds.DIRECTORY, "")),
        (["--local=false"], OCI, SourceAddress(source_kinds.OCI, "registry.example.org/kaas/stacks")),
        (["--source-location=team"], {}, SourceAddress(source_kinds.DIRECTORY, "team")),
        (["--source=oci"], OCI, SourceAddress(source_kinds.OCI, "registry.example.org/kaas/stacks")),
        (
            ["--source=oci"],
            OCI | {"OCI_REPOSITORY": "kaas/stacks"},
            SourceAddress(source_kinds.OCI, "registry.example.org/kaas/stacks"),
        ),
        (
            ["--source=oci", "--source-location=oci://ghcr.io/team/stacks", "--source-plain-http"],
            OCI,
            SourceAddress(source_kinds.OCI, "ghcr.io/team/stacks", plain_http=True),
        ),
        (["--source=github"], GIT, SourceAddress(source_kinds.GITHUB, "team/stacks")),
        (["--source=github", "--source-location=a/b"], GIT, SourceAddress(source_kinds.GITHUB, "a/b")),
        (
            ["--source=github"],
            GIT | {"GIT_API_URL": "https://git.example.org/api/v3"},
            SourceAddress(source_kinds.GITHUB, "team/stacks", api="https://git.example.org/api/v3"),
        ),
        (
            ["--source=http", "--source-location=https://stacks.example.org/"],
            {},
            SourceAddress(source_kinds.HTTP, "https://stacks.example.org"),
        ),
    ],
)
def test_default_source_is_read_from_flags_and_environment(
    arguments: list[str], environ: dict[str, str], address: SourceAddress
) -> None:
    source = default_settings(parse_settings(arguments, environ).source)

    assert source.address == address
    assert source.own


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--source=oci"], "OCI_REPOSITORY"),
        (["--source=oci", "--source-location=no-repository"], "--source-location"),
        (["--source=github"], "GIT_REPOSITORY_NAME"),
        (["--source=github", "--source-location=alone"], "OWNER/REPOSITORY"),
        (["--source=http"], "--source-location URL"),
        (["--source=http", "--source-location=ftp://x"], "--source-location"),
        (["--source-location=../etc"], "--source-location"),
        (["--source-plain-http"], "--source oci only"),
        (["--source-interval=soon"], "not a valid duration"),
        (["--source-interval=0s"], "from 1s to 24h"),
        (["--source-interval=25h"], "from 1s to 24h"),
        (["--source-ca=/nowhere"], "--source-ca"),
        (["--verification-keys=/nowhere"], "--verification-keys"),
        (["--verification-policy=Warn"], "--verification-keys"),
        (["--allowed-sources=https://x"], "is not a valid host pattern"),
        (["--chart-repositories=a b"], "is not a valid host pattern"),
        (["--plain-http-credentials=http://a"], "is not a valid host pattern"),
    ],
)
def test_invalid_source_settings_are_rejected_by_name(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_settings(arguments)

    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_ca_and_keys_are_read_at_startup(tmp_path: Path) -> None:
    for name in ("ca", "keys"):
        (tmp_path / name).write_text(f"the {name}")
    settings = parse_settings([f"--source-ca={tmp_path / 'ca'}", f"--verification-keys={tmp_path / 'keys'}"])

    assert settings.source_ca == "the ca"
    assert settings.source.verification is not None
    assert [key.public_key for key in settings.source.verification.keys] == ["the keys"]


def test_the_operator_is_a_provider_only_where_it_is_named() -> None:
    assert parse_settings([]).providers == ()
    assert parse_settings(["--providers=openstack", "--providers", "openstack"]).providers == ("openstack",)
    with pytest.raises(SystemExit):
        parse_settings(["--providers=docker"])


def test_provider_kinds_replace_the_defaults() -> None:
    found = parse_settings(["--provider-kinds=A.x.org,ATemplate.x.org", "--provider-kinds=*B.y.org"])

    assert parse_settings([]).provider_kinds == frozenset(DEFAULT_KINDS)
    assert parse_settings(["--provider-kinds="]).provider_kinds == frozenset(DEFAULT_KINDS)
    assert found.provider_kinds == {
        KindPattern("x.org", "A"),
        KindPattern("x.org", "ATemplate"),
        KindPattern("y.org", "*B"),
    }


def test_kind_without_group_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--provider-kinds=Secret"])

    assert "'Secret' is not a kind" in capsys.readouterr().err


def test_webhook_endpoint_is_set_by_service_or_url() -> None:
    service = parse_settings(["--webhook-service=stacks/webhooks"])
    address = parse_settings(["--webhook-url=https://127.0.0.1:9443/", "--webhook-port=0"])

    assert (service.webhook_port, service.webhook_service) == (9443, ObjectKey("stacks", "webhooks"))
    assert (address.webhook_port, address.webhook_url) == (0, "https://127.0.0.1:9443")
    assert Endpoint(service.webhook_service).names == ("webhooks.stacks.svc",)
    assert Endpoint(url=address.webhook_url).names == ("127.0.0.1",)


@pytest.mark.parametrize(
    "argument",
    [
        "--webhook-port=x",
        "--webhook-port=65536",
        "--webhook-service=name",
        "--webhook-service=a/b/c",
        "--webhook-url=http://127.0.0.1:9443",
        "--webhook-url=https://127.0.0.1:9443/path",
        "--webhook-url=https://",
    ],
)
def test_invalid_webhook_endpoint_is_rejected(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings([argument])

    assert argument.partition("=")[0] in capsys.readouterr().err


def test_webhook_service_and_url_are_mutually_exclusive(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--webhook-service=a/b", "--webhook-url=https://127.0.0.1:1"])

    assert "not allowed with" in capsys.readouterr().err


def test_server_of_node_images_needs_its_url_and_the_namespace_of_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    on = ["--node-image-bind-address=:9444"]
    for arguments in (on, [*on, "--node-image-url=http://images.example.org"]):
        with pytest.raises(SystemExit):
            parse_settings(arguments)
        assert "--node-image-bind-address needs" in capsys.readouterr().err
    settings = parse_settings([*on, "--node-image-url=https://x.example.org/", "--operator-namespace=own"])
    assert settings.node_image_url == "https://x.example.org"
    assert settings.node_image_address == ("", 9444)
    assert parse_settings([]).node_image_address == ("", 0)
