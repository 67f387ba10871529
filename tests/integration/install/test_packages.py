"""The wheel: its files, its programs in an environment of their own, and what it adds to a machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")
MAX_BYTES = 2_000_000
"""Largest wheel; it has 1.4 MB."""

NEEDED = re.compile(
    r"""
    clusterstacks/ (?:
        [\w/]+\.py | py\.typed
        | plan/compat/facts/ (?: [\w-]+\.yaml | README\.md )             # built-in facts
        | csctl/authoring/skeletons/ .+                                    # csctl init
        | dev/examples/ .+                                    # csctl demo
        | dev/tools/ [\w-]+ / go\. (?: mod | sum )            # csctl dev builds these programs
        | dev/tools/openstack/ .+                             # Keystone and Glance of csctl dev
        | csctl/install/chart/ .+                                        # csctl install
        | csctl/ui/page/ .+                                         # csctl ui
    )
    | cluster_stacks-[^/]+\.data/data/share/man/man1/csctl\.1
    | cluster_stacks-[^/]+\.dist-info/ (?: METADATA | WHEEL | RECORD | entry_points\.txt | licenses/LICENSE )
    """,
    re.VERBOSE,
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    environ = {"UV_SYSTEM_CERTS": "1", **os.environ}
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True, env=environ)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel in an environment of its own, which sees the dependencies of this one."""
    root = tmp_path_factory.mktemp("venv") / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, root], check=True)
    subprocess.run([UV, "pip", "install", "--quiet", "--no-deps", "--python", root / "bin/python", wheel], check=True)
    (site,) = root.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return root / "bin"


def run(programs: Path, *command: str, **variables: str) -> str:
    environ = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(programs.parent), **variables}
    name, *arguments = command
    done = subprocess.run(
        [programs / name, *arguments], capture_output=True, text=True, check=False, env=environ, cwd=programs.parent
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_has_only_files_that_its_programs_need(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archived:
        names = archived.namelist()

    assert [name for name in names if not NEEDED.fullmatch(name)] == []
    assert wheel.stat().st_size < MAX_BYTES


def test_programs_of_the_wheel_start_and_find_their_files(programs: Path) -> None:
    assert "csctl, version" in run(programs, "csctl", "--version")
    assert "csctl.yaml" in run(programs, "csctl", "init", "local/tiny/1-35")
    assert "no errors" in run(programs, "csctl", "lint", "providers/local/tiny/1-35")
    assert "CustomResourceDefinition" in run(programs, "csctl", "crds")
    assert "cilium" in run(programs, "csctl", "compat", "show")
    assert "--release-dir" in run(programs, "cluster-stack-operator", "--help")
    assert (programs.parent / "share/man/man1/csctl.1").read_text() == (ROOT / "docs/man/csctl.1").read_text()


def test_program_is_a_plugin_of_kubectl_under_its_other_name(programs: Path) -> None:
    assert run(programs, "kubectl-clusterstacks", "--help").startswith("Usage: kubectl clusterstacks ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [("csctl pl", {"plan"}), ("csctl create --mode ha", {"hash"}), ("csctl plan --conte", {"--context"})],
)
def test_bash_completes_verbs_values_and_options(programs: Path, words: str, expected: set[str]) -> None:
    script = programs.parent / "completion.bash"
    script.write_text(run(programs, "csctl", "completion", "bash"))
    typed = f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}"
    asked = f"source {script}; {typed}; _csctl_completion csctl; printf '%s\\n' ${{COMPREPLY[@]}}"
    done = subprocess.run(
        ["bash", "-c", asked], env={"PATH": f"{programs}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )

    assert expected <= {*done.stdout.split()}


def test_man_page_has_every_verb_and_only_requests_of_man() -> None:
    page = (ROOT / "docs/man/csctl.1").read_text()

    assert {*re.findall(r"^\.(\w+)", page, re.MULTILINE)} <= {"TH", "SH", "SS", "PP", "TP", "B", "RS", "RE", "nf", "fi"}
    assert re.search(r"^\.SS plan ", page, re.MULTILINE)
    assert re.search(r"^\.SS dev up ", page, re.MULTILINE)
