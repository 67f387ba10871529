"""The Go operator's command line starts ours unchanged."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.operator.go_operator import started_as_manager, two_dashes, writable_directory
from clusterstacks.operator.settings import OperatorSettings, parse_settings
from clusterstacks.sources import kinds
from clusterstacks.sources.stack_source import default_terms

if TYPE_CHECKING:
    from clusterstacks.sources.spec import SourceAddress

GO_DEFAULTS = {
    "OCI_REGISTRY": "registry.example.org",
    "OCI_REPOSITORY": "kaas/stacks",
    "OCI_USERNAME": "",
    "GIT_ORG_NAME": "",
}


def address(settings: OperatorSettings) -> SourceAddress:
    return default_terms(settings.source).address


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
def test_drop_h3_flags_may_have_one_dash(arguments: list[str], same: list[str]) -> None:
    assert two_dashes(arguments) == same


def test_drop_h3_the_command_of_the_go_chart_starts_ours() -> None:
    settings = parse_settings(["-source", "oci"], GO_DEFAULTS, program="/manager")

    assert str(address(settings)) == "oci://registry.example.org/kaas/stacks"
    assert (settings.release_dir, settings.as_manager) == (Path("/tmp/downloads"), True)
    assert settings.election is not None
    assert settings.notices == ()


def test_drop_h5_local_mode_reads_the_go_operators_directory() -> None:
    settings = parse_settings(["--leader-elect=true", "--release-dir=/tmp", "--local=true"], GO_DEFAULTS)

    assert (address(settings).kind, settings.release_dir) == (kinds.DIRECTORY, Path("/tmp"))


def test_drop_h5_the_log_level_may_be_warn() -> None:
    assert parse_settings(["--log-level", "warn"]).log_level == "warning"


@pytest.mark.parametrize(
    ("program", "is_manager"),
    [("/manager", True), ("manager", True), ("/usr/bin/cluster-stack-operator", False), ("/manager/x", False)],
)
def test_drop_h5_the_program_is_known_by_its_name(program: str, *, is_manager: bool) -> None:
    assert started_as_manager(program) is is_manager


def test_drop_l8_a_wrong_flag_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--no-such-flag"])

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cluster-stack-operator: error: unrecognized arguments: --no-such-flag")


def test_drop_l8_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_settings(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("cluster-stack-operator 0.")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the files of ``tmp_path`` be the temporary ones."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_directory_that_can_be_written_is_used(temporary: Path) -> None:
    assert writable_directory(temporary / "a" / "b") == temporary / "a" / "b"


def test_drop_h5_without_a_volume_releases_are_kept_beside_temporary_files(temporary: Path) -> None:
    (temporary / "file").touch()
    fallback = temporary / f"cluster-stacks-{os.getuid()}"

    assert writable_directory(temporary / "file" / "cache") == fallback
    assert fallback.stat().st_mode & 0o777 == 0o700
    assert writable_directory(temporary / "file" / "cache") == fallback


@pytest.mark.parametrize("kind", ["a link", "writable for all"])
def test_a_directory_of_another_user_is_not_used(temporary: Path, kind: str) -> None:
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
