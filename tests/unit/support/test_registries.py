"""The registry program of the tests, and the download of its package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.servers import debian_packages as debian
from tests.support.servers.registries import VARIABLE, RegistryMissing, registry_binary

if TYPE_CHECKING:
    from collections.abc import Sequence


class Apt:
    """Plays apt and dpkg; ``fails`` names the subcommands that fail, with how often."""

    def __init__(self, **fails: int) -> None:
        self.fails = fails
        self.commands: list[str] = []

    def __call__(self, command: Sequence[str], directory: Path) -> str:
        verb = next(word for word in command if word in {"download", "update", "--field", "--extract"})
        self.commands.append(verb)
        if self.fails.get(verb, 0) > 0:
            self.fails[verb] -= 1
            raise debian.PackageUnavailable(f"{verb} failed")
        if verb == "download":
            (directory / "tool_1.2_any.deb").touch()
        if verb == "--extract":
            (Path(command[-1]) / "bin").mkdir(parents=True)
            (Path(command[-1]) / "bin" / "tool").write_text("tool")
        return "1.2\n" if verb == "--field" else ""


def test_package_is_fetched_once_into_a_versioned_directory(tmp_path: Path) -> None:
    apt = Apt()
    first = debian.program("tool", "bin/tool", tmp_path, apt)
    again = debian.program("tool", "bin/tool", tmp_path, Apt(download=9))
    assert first == again == tmp_path / "tool-1.2" / "bin" / "tool"
    assert apt.commands == ["download", "--field", "--extract"]
    assert not list(tmp_path.glob(".fetching-*"))


def test_missing_package_lists_are_downloaded(tmp_path: Path) -> None:
    apt = Apt(download=1)
    assert debian.program("tool", "bin/tool", tmp_path, apt).is_file()
    assert apt.commands == ["download", "update", "download", "--field", "--extract"]


def test_leftovers_of_a_failed_fetch_are_not_used(tmp_path: Path) -> None:
    with pytest.raises(debian.PackageUnavailable, match="extract failed"):
        debian.program("tool", "bin/tool", tmp_path, Apt(**{"--extract": 1}))
    assert [path.name for path in tmp_path.iterdir()] == [".tool.lock"]


def test_missing_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(debian.PackageUnavailable, match="no-such-command"):
        debian.run_command(["no-such-command"], tmp_path)


def test_failing_command_is_reported_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(debian.PackageUnavailable, match="boom"):
        debian.run_command([sys.executable, "-c", "import sys; sys.exit('boom')"], tmp_path)


def test_registry_program_is_read_from_the_environment(tmp_path: Path) -> None:
    binary = tmp_path / "registry"
    binary.touch(mode=0o755)
    assert registry_binary({VARIABLE: str(binary)}) == binary


def test_invalid_registry_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RegistryMissing, match=f"{VARIABLE} names {tmp_path}"):
        registry_binary({VARIABLE: str(tmp_path)})


def test_missing_package_is_reported_with_a_remedy() -> None:
    def no_apt(_package: str, _path: str, _cache: Path) -> Path:
        raise debian.PackageUnavailable("apt-get: No such file or directory")

    with pytest.raises(RegistryMissing, match=f"apt-get: No such file or directory.*set {VARIABLE}"):
        registry_binary({"HOME": "/nonexistent"}, no_apt)
