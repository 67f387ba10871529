"""The operator's own source, from flags and from the variables of the Go operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.operator.settings import parse_settings
from clusterstacks.sources import kinds
from clusterstacks.sources.spec import SourceAddress
from clusterstacks.sources.stack_source import default_terms

if TYPE_CHECKING:
    from pathlib import Path

OCI = {"OCI_REGISTRY": "registry.example.org", "OCI_REPOSITORY": "registry.example.org/kaas/stacks"}
GIT = {"GIT_PROVIDER": "github", "GIT_ORG_NAME": "team", "GIT_REPOSITORY_NAME": "stacks"}


@pytest.mark.parametrize(
    ("arguments", "environ", "address"),
    [
        ([], {}, SourceAddress(kinds.DIRECTORY, "")),
        ([], dict.fromkeys(OCI | GIT, ""), SourceAddress(kinds.DIRECTORY, "")),
        ([], OCI | GIT, SourceAddress(kinds.GITHUB, "team/stacks")),
        ([], OCI | {"GIT_PROVIDER": "github"}, SourceAddress(kinds.OCI, "registry.example.org/kaas/stacks")),
        (["--source=directory"], OCI | GIT, SourceAddress(kinds.DIRECTORY, "")),
        (["--local=true", "--source=oci"], OCI | GIT, SourceAddress(kinds.DIRECTORY, "")),
        (["--local=false"], OCI, SourceAddress(kinds.OCI, "registry.example.org/kaas/stacks")),
        (["--source-location=team"], {}, SourceAddress(kinds.DIRECTORY, "team")),
        (["--source=oci"], OCI, SourceAddress(kinds.OCI, "registry.example.org/kaas/stacks")),
        (
            ["--source=oci"],
            OCI | {"OCI_REPOSITORY": "kaas/stacks"},
            SourceAddress(kinds.OCI, "registry.example.org/kaas/stacks"),
        ),
        (
            ["--source=oci", "--source-location=oci://ghcr.io/team/stacks", "--source-plain-http"],
            OCI,
            SourceAddress(kinds.OCI, "ghcr.io/team/stacks", plain_http=True),
        ),
        (["--source=github"], GIT, SourceAddress(kinds.GITHUB, "team/stacks")),
        (["--source=github", "--source-location=a/b"], GIT, SourceAddress(kinds.GITHUB, "a/b")),
        (
            ["--source=github"],
            GIT | {"GIT_API_URL": "https://git.example.org/api/v3"},
            SourceAddress(kinds.GITHUB, "team/stacks", api="https://git.example.org/api/v3"),
        ),
        (
            ["--source=http", "--source-location=https://stacks.example.org/"],
            {},
            SourceAddress(kinds.HTTP, "https://stacks.example.org"),
        ),
    ],
)
def test_it_is_read(arguments: list[str], environ: dict[str, str], address: SourceAddress) -> None:
    terms = default_terms(parse_settings(arguments, environ).source)

    assert terms.address == address
    assert terms.own


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
def test_what_makes_no_sense_is_refused_by_name(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_settings(arguments)

    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_certificates_and_keys_are_read_at_the_start(tmp_path: Path) -> None:
    for name in ("ca", "keys"):
        (tmp_path / name).write_text(f"the {name}")
    settings = parse_settings([f"--source-ca={tmp_path / 'ca'}", f"--verification-keys={tmp_path / 'keys'}"])

    assert settings.source_ca == "the ca"
    assert settings.source.verification is not None
    assert [key.public_key for key in settings.source.verification.keys] == ["the keys"]
