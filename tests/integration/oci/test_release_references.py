"""Verbs that take a release out of a real registry, and ``csctl copy`` of several releases."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.integration.oci.test_oci_registry import csctl
from tests.support.running.csctl import call_csctl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers.registries import RegistryServer


NAME = "local-shop-1-35-v1"
EXPECTED = f"(expected a directory, or a release such as registry.example.org/kaas/stacks:{NAME})"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of a new stack, and two more versions of it."""
    root = tmp_path_factory.mktemp("stack")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(root)
        assert call_csctl("init", "local/shop/1-35") == 0
        stack = "providers/local/shop/1-35"
        custom = [f"--{one}-version" for one in ("cluster-stack", "cluster-addon", "node-image")]
        for version in ("v1", "v2", "v10"):
            chosen = [word for option in custom for word in (option, version)]
            assert call_csctl("create", stack, "--remote", "none", "--mode", "custom", *chosen) == 0
    return root / ".release"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, which must be empty after every verb."""
    path = tmp_path / "scratch"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return path


def test_reference_gives_the_output_of_the_directory(
    registry: RegistryServer, built: Path, scratch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = f"{registry.host}/refs/verbs"
    pushed = json.loads(csctl("push", built / NAME, place, "-o", "json").stdout)
    reference, pinned = f"{place}:{NAME}", f"{place}:{NAME}@{pushed['manifestDigest']}"

    def printed(*arguments: object) -> str:
        assert call_csctl(*arguments) == 0, capfd.readouterr().err
        return capfd.readouterr().out

    for verb in (
        ("template",),
        ("template", "--images", "-o", "json"),
        ("compat", "check", "-o", "json"),
        ("compat", "matrix", "-o", "json"),
    ):
        directory = printed(*verb, built / NAME)
        assert printed(*verb, reference) == printed(*verb, pinned) == directory
    assert printed("diff", reference, built / NAME) == printed("diff", built / NAME, pinned)
    assert "+ file" not in printed("diff", reference, built / NAME)
    assert printed("lint", reference) == printed("lint", built / NAME).replace(str(built / NAME), reference)
    assert list(scratch.iterdir()) == []


def test_release_of_a_clean_stack_has_no_lint_findings(built: Path) -> None:
    run = csctl("lint", built / NAME, built.parent / "providers/local/shop/1-35", "-o", "json")

    assert (run.returncode, json.loads(run.stdout)) == (0, {"findings": [], "errors": 0, "warnings": 0}), run.stderr


def test_verb_reports_what_is_wrong_with_a_reference(
    registry: RegistryServer, built: Path, scratch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = f"{registry.host}/refs/wrong"
    csctl("push", built / NAME, place)
    pinned = f"{place}:{NAME}@sha256:{'0' * 64}"

    def refused(*arguments: object) -> tuple[int, str]:
        code = call_csctl(*arguments)
        return code, capfd.readouterr().err.strip().splitlines()[-1]

    missing = f"release local-shop-1-35-v9 is not in {place}; publish it there or correct the name"
    assert refused("template", f"{built}/typo") == (
        2,
        f"Error: Invalid value for 'DIR|REF': {built}/typo does not exist {EXPECTED}",
    )
    assert refused("template", f"{place}:local-shop-1-35-v9") == (
        1,
        f"Error: {missing} ('csctl list {place}' shows its releases)",
    )
    code, text = refused("lint", f"release.invalid/dir:{NAME}")
    assert code == 1
    assert f"(no directory has the path release.invalid/dir:{NAME}, so it was read as a reference)" in text
    for verb in (("template",), ("pull", "-d", scratch / "pulled"), ("compat", "check")):
        assert refused(*verb, pinned)[0] == 1
    shutil.rmtree(scratch / "pulled")
    assert list(scratch.iterdir()) == []


def test_ctrl_c_removes_the_temporary_directory(tmp_path: Path) -> None:
    async def downloading() -> bool:
        return await asyncio.to_thread(lambda: any(tmp_path.glob("csctl-*/*")))

    # The kernel accepts the connection, and no program answers.
    with socket.create_server(("127.0.0.1", 0)) as server:
        reference = f"127.0.0.1:{server.getsockname()[1]}/kaas/stacks:{NAME}"
        run = subprocess.Popen(
            [sys.executable, "-m", "clusterstacks.csctl.main", "template", reference],
            env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
            stderr=subprocess.DEVNULL,
            # Background jobs of shells ignore SIGINT, and a test run may be such a job.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        asyncio.run(eventually(downloading))
        run.send_signal(signal.SIGINT)
        assert run.wait(120) == 130

    assert list(tmp_path.iterdir()) == []


def test_copy_with_a_pattern_copies_signatures_and_continues_after_a_failure(
    registry: RegistryServer, built: Path, tmp_path: Path
) -> None:
    here, there = f"{registry.host}/refs/origin", f"{registry.host}/refs/mirror"
    releases = shutil.copytree(built, tmp_path / "releases")
    csctl("sign", "--new-key", tmp_path / "key")
    csctl("sign", releases / NAME, "--key", tmp_path / "key")
    for version in ("v1", "v2", "v10"):
        assert csctl("push", releases / f"local-shop-1-35-{version}", here).returncode == 0
    changed = releases / "local-shop-1-35-v2"
    (changed / "hashes.json").write_text("{}")
    assert csctl("push", changed, there).returncode == 0

    first = csctl("copy", f"{here}:local-shop-1-3*", there, "-o", "json", "--images", "-")
    again = csctl("copy", "--all", here, there)
    one = csctl("copy", f"{here}:{NAME}", f"{there}-one", "-o", "json")
    pinned = csctl("copy", f"{here}:{NAME}@{json.loads(one.stdout)['manifestDigest']}", f"{there}-pinned")

    document = json.loads(first.stdout)
    assert first.returncode == 2
    assert [(copied["release"], copied["new"], copied["signatures"]) for copied in document["releases"]] == [
        (NAME, True, 1),
        ("local-shop-1-35-v10", True, 0),
    ]
    assert [failed["release"] for failed in document["failed"]] == ["local-shop-1-35-v2"]
    assert document["images"] == []
    assert "Error: 1 of 3 releases were not copied:\n  local-shop-1-35-v2: " in first.stderr
    assert again.returncode == 2
    assert [line.split(" (")[0].split("@")[0] for line in again.stdout.splitlines() if NAME[:-2] in line] == [
        f"{NAME} already exists with the same content: {there}:{NAME}",
        f"local-shop-1-35-v10 already exists with the same content: {there}:local-shop-1-35-v10",
    ]
    assert pinned.returncode == 0, pinned.stderr
    assert csctl("verify", f"{there}:{NAME}", "--key", tmp_path / "key.pub").returncode == 0
