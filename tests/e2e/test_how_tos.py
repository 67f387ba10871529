"""The how-tos for users whose cluster is refused something or not ready, command by command as they are printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import teardown
from clusterstacks.dev.binaries import cache_directory, resolve, silent
from clusterstacks.dev.state_directory import StateDirectory
from tests.support.running.doc_pages import CHECKOUT, Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REFUSAL, REASONS = "how-to/answer-a-refusal.md", "how-to/find-out-why.md"
OPERATE, SYMPTOMS = "how-to/operate-clusters.md", "how-to/troubleshoot.md"
DAY = "tutorial/a-day.md"
EXAMPLE, OTHER = "ranged", "again"
"""The Cluster of the pages, and one that is the same but for its name: what was upgraded is refused nothing twice."""
CREATE_OTHER = f"""\
sed s/{EXAMPLE}/{OTHER}/ examples/ranges/cluster.yaml | kubectl apply -f -
kubectl wait --for=condition=ClusterStackAddonsReady --timeout=2m cluster/{OTHER}
"""
SECONDS = 500
"""For a whole page, on a machine with other work."""
RESTART = ("csctl", "dev", "restart", "operator", "--fresh-cache")


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    (tmp_path / "examples").symlink_to(CHECKOUT / "examples")
    kubectl = resolve(["kubectl"])["kubectl"].path
    yield {
        **os.environ,
        "HOME": str(tmp_path),
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"]]),
        "XDG_CACHE_HOME": str(cache_directory(os.environ).parents[1]),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    teardown.down(StateDirectory(tmp_path / "state" / "cluster-stacks" / "default"), silent)


def reasons(tmp_path: Path, environ: Mapping[str, str], cluster: str, *, again: bool = False) -> None:
    """Run the page about reasons; a second time without restarts, as that one follows one."""
    page = Page.read(REASONS, {EXAMPLE: cluster})
    page.part([one for one in page.blocks if not again or "csctl dev restart" not in one.commands]).run(
        tmp_path, environ, seconds=SECONDS
    )


def shell(tmp_path: Path, environ: Mapping[str, str], *command: str) -> None:
    done = subprocess.run(command, cwd=tmp_path, env=dict(environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.regression("LIVE-H1")
@pytest.mark.timeout(1200)
def test_every_command_works_also_right_after_a_restart_with_an_empty_cache(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    set_up, *answers, clean_up = Page.read(REFUSAL).blocks
    page = Page.read(REFUSAL)
    page.part([set_up]).run(tmp_path, environ, seconds=SECONDS)
    shell(tmp_path, environ, "bash", "-ec", CREATE_OTHER)

    Page.read(SYMPTOMS).run(tmp_path, environ, seconds=SECONDS)
    before = page.part(answers).run(tmp_path, environ, seconds=SECONDS)
    reasons(tmp_path, environ, EXAMPLE)
    # That page ends with a pause, after which health is unknown until it has been read again.
    shell(tmp_path, environ, "csctl", "reconcile", f"default/{EXAMPLE}")
    Page.read(OPERATE).run(tmp_path, environ, seconds=SECONDS)

    shell(tmp_path, environ, *RESTART)
    others = Page.read(REFUSAL, {EXAMPLE: OTHER}).blocks[1:-1]
    after = page.part(others).run(tmp_path, environ, seconds=SECONDS)
    shell(tmp_path, environ, *RESTART)
    reasons(tmp_path, environ, OTHER, again=True)

    assert [text.replace(OTHER, EXAMPLE) for text in after] == list(before)
    planned = next(block.shown for block in answers if block.commands.startswith("csctl plan"))
    commands = [line.strip() for line in planned.splitlines() if line.strip().startswith("kubectl ")]
    assert "\n".join([*commands, ""]) in [block.commands for block in answers]

    page.part([clean_up]).run(tmp_path, environ, seconds=SECONDS)
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == ["examples", "state"]


@pytest.mark.timeout(1200)
def test_day_of_an_administrator_and_a_user_goes_as_the_tutorial_shows(tmp_path: Path, environ: dict[str, str]) -> None:
    Page.read(DAY).run(tmp_path, environ, seconds=SECONDS)
