"""Completion of the command line, through the environment variables that the scripts of the shells set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.verb_table import VERBS
from clusterstacks.csctl.verbs.completion import join_assignments
from clusterstacks.model.kinds.explanations import REASONS

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE = 250

HANGING = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never"}


def complete(
    words: list[str], incomplete: str = "", *, seconds: float = 200.0, read_seconds: float = 100.0, after: str = ""
) -> subprocess.CompletedProcess[str]:
    """Complete the last word, and run further code at the end of the process."""
    script = (
        "import atexit, sys\n"
        "from clusterstacks.csctl import main\nfrom clusterstacks.csctl.verbs import completion\n"
        "from clusterstacks.csctl.shared import name_completion\n"
        f"completion.SECONDS, name_completion.READ_SECONDS = {seconds}, {read_seconds}\n"
        f"{after}\n"
        "main.main()\n"
    )
    return run(["-c", script], words, incomplete)


def run(program: list[str], words: list[str], incomplete: str) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "_CSCTL_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["csctl", *words, incomplete]),
        "COMP_CWORD": str(len(words) + 1),
    }
    return subprocess.run(
        [sys.executable, *program], env=environ, capture_output=True, text=True, check=False, timeout=DEADLINE
    )


def offered(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]


def kubeconfig(directory: Path, server: str, user: dict[str, object]) -> str:
    config = {
        "clusters": [{"name": "one", "cluster": {"server": server}}],
        "users": [{"name": "one", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "one", "user": "one"}} for name in ("east", "west;reboot")],
        "current-context": "east",
    }
    (directory / "kubeconfig").write_text(json.dumps(config))
    return f"--kubeconfig={directory / 'kubeconfig'}"


def test_verbs_are_completed_without_importing_them_or_a_client() -> None:
    code = "atexit.register(lambda: print(sorted({'asyncio', 'clusterstacks.csctl.verbs.plan'} & {*sys.modules})))"
    script = f"import atexit, sys\nfrom clusterstacks.csctl.main import main\n{code}\nmain()"

    *verbs, loaded = offered(run(["-c", script], [], ""))

    assert (verbs, loaded) == (sorted(VERBS), "[]")


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (["explain"], "pause", ["Paused"]),
        (["explain"], "healtht", ["HealthTimeout"]),
        (["no-such-verb"], "", None),
    ],
)
def test_words_that_need_no_cluster_are_completed(words: list[str], incomplete: str, expected: list[str]) -> None:
    done = complete(words, incomplete)

    assert done.stderr == ""
    assert [one.removeprefix("plain,") for one in done.stdout.split()] == (expected or [])


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        (["status", "--context", "=", "a", "b"], ["status", "--context=a", "b"]),
        (["status", "--context", "="], ["status", "--context="]),
        (["status", "--context", "=", ""], ["status", "--context="]),
        (["status", "--context", "a", ""], ["status", "--context", "a", ""]),
        (["status", "=", "--context=a", "b"], ["status", "=", "--context=a", "b"]),
    ],
)
def test_values_that_bash_splits_at_the_equals_sign_are_joined(words: list[str], joined: list[str]) -> None:
    assert join_assignments(words) == joined


def test_all_reasons_are_completed() -> None:
    assert {str(one.name) for one in REASONS} <= {*offered(complete(["explain"]))}


@pytest.mark.parametrize("words", [["status"], ["plan"], ["status", "--context", "a", "--context", "b"]])
def test_contexts_of_the_kubeconfig_are_completed(words: list[str], tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "https://127.0.0.1:1", {})

    assert offered(complete([*words, file, "--context"])) == ["east"]
    assert offered(complete([*words, *file.replace("=", " = ").split(), "--context", "="], "e")) == ["east"]
    assert offered(complete([*words, "--kubeconfig=missing", "--context"])) == []


@pytest.mark.parametrize("words", [["status"], ["why", "team/one"], ["status", "-n"]])
def test_nothing_is_completed_or_printed_if_the_server_does_not_answer(words: list[str], tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "https://127.0.0.1:1", {})

    assert offered(complete([words[0], file, *words[1:]])) == []


def test_nothing_is_completed_or_printed_if_the_kubeconfig_is_broken(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("{")

    assert offered(complete(["status", f"--kubeconfig={tmp_path / 'kubeconfig'}"])) == []
    assert offered(complete(["status", f"--kubeconfig={tmp_path / 'kubeconfig'}", "--context"])) == []


def test_credential_plugin_that_hangs_is_killed_and_its_messages_are_dropped(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path / 'pid'}; echo 'Please log in' >&2; exec sleep 1000"
    file = kubeconfig(tmp_path, "https://127.0.0.1:1", {"exec": {**HANGING, "args": ["-c", script]}})

    assert offered(complete(["status", file], read_seconds=5)) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_completion_ends_quietly_whatever_it_waits_for(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "https://127.0.0.1:1", {})
    forever = "name_completion.complete = lambda *_: __import__('time').sleep(1000)"

    assert offered(complete(["status", file], seconds=0.1, after=forever)) == []
