"""USER-5: findings of lint, and warnings and errors of create."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from clusterstacks.csctl.authoring.linter import apply_rules
from clusterstacks.csctl.authoring.scaffold import INFRASTRUCTURE, NewStack, write_new_files
from clusterstacks.csctl.authoring.stack import load_stack
from clusterstacks.csctl.building.source_tree import read_tree
from tests.support.builders.tiny_stack import SETTINGS, STAGES, tiny
from tests.support.builders.tiny_stack import write as write_tree

if TYPE_CHECKING:
    from clusterstacks.csctl.authoring.findings import LintFinding

pytestmark = pytest.mark.regression("USER-5")

CSCTL = Path(sys.executable).with_name("csctl")
REPOSITORY = Path(__file__).parents[2]
NET = "cluster-addon/net"


class Case(NamedTuple):
    rule: str
    place: str
    message: str
    changes: dict[str, bytes]


def staged(old: str, new: str) -> dict[str, bytes]:
    return {"clusteraddon.yaml": STAGES.replace(old, new).encode()}


CASES = (
    Case(
        "unknown-key",
        "clusteraddon.yaml:6",
        "addonStages.AfterControlPlaneInitialized[0] has the unknown key 'waitForPostCondtion', which has no effect; "
        "did you mean waitForPostCondition? known keys are action, name, rollback, timeout, waitFor, "
        "waitForPostCondition, waitForPreCondition",
        staged("waitForPostCondition", "waitForPostCondtion"),
    ),
    Case("unknown-key", "clusteraddon.yaml:8", "did you mean kind?", staged("kind: Depl", "knid: Depl")),
    Case("unknown-key", "csctl.yaml:6", "unknown key 'extra'", {"csctl.yaml": f"{SETTINGS}extra: field\n".encode()}),
    Case(
        "unknown-key",
        "csctl.yaml:6",
        "config.provider has the unknown key 'confg', which has no effect; did you mean config?",
        {"csctl.yaml": f"{SETTINGS}    confg: {{method: get}}\n".encode()},
    ),
    Case(
        "unknown-hook",
        "clusteraddon.yaml:3",
        "AfterControlPlaneInitialised is not a hook, so its stages never run; did you mean "
        "AfterControlPlaneInitialized?",
        staged("Initialized", "Initialised"),
    ),
    Case(
        "placeholder",
        "cluster-class/templates/more.yaml:4",
        "is still the placeholder that csctl init wrote",
        {"cluster-class/templates/more.yaml": b"# Size. To be filled in.\nspec:\n  template:\n    spec: {}\n"},
    ),
    Case("not-utf8", f"{NET}/templates/a.yaml:2", "byte 11", {f"{NET}/templates/a.yaml": b"a: 1\nb: caf\xe9\n"}),
    Case("editor-file", f"{NET}/.DS_Store:1", "may get into the release", {f"{NET}/.DS_Store": b"\0"}),
    Case("editor-file", f"{NET}/templates/c.yaml.orig:1", "leftover", {f"{NET}/templates/c.yaml.orig": b""}),
    Case("editor-file", "csctl.yaml~:1", "leftover", {"csctl.yaml~": b""}),
    Case("private-key", "release.key:1", "new key", {"release.key": b"-----BEGIN PRIVATE KEY-----\nAAAA\n"}),
    Case(
        "line-ends",
        "csctl.yaml:1",
        "change the hash of the stack",
        {"csctl.yaml": SETTINGS.replace("\n", "\r\n").encode()},
    ),
    Case(
        "file-size",
        f"{NET}/big.bin:1",
        "has 16777217 bytes: a file of a chart may have at most 16 MiB",
        {f"{NET}/big.bin": bytes(16 * 1024 * 1024 + 1)},
    ),
    Case(
        "file-size",
        f"{NET}/0.bin:1",
        "is the largest file of a chart of ",
        {f"{NET}/{number}.bin": bytes(16 * 1024 * 1024 - number) for number in range(5)},
    ),
)


def found(changes: dict[str, bytes]) -> tuple[LintFinding, ...]:
    return apply_rules(load_stack({**tiny(), **changes}, "1-35"))


@pytest.mark.regression("USER-5")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.place}")
def test_lint_names_file_line_cause_and_remedy(case: Case) -> None:
    problems = [one.problem for one in found(case.changes) if one.rule == case.rule]

    assert [f"{one.path}:{one.line}" for one in problems] == [case.place]
    assert case.message in f"{problems[0].message}; {problems[0].remedy}"


@pytest.mark.regression("USER-5")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"csctl.yaml": f"{SETTINGS}    config: {{method: get, any: 1}}\n".encode()}, id="plugin settings"),
        pytest.param(staged("        conditions", "        timeout: 1m\n        conditions"), id="a field of Go"),
        pytest.param({"cluster-class/templates/_a.tpl": b"spec:\n  template:\n    spec: {}\n"}, id="an empty spec"),
        pytest.param({f"{NET}/files/logo.png": b"\x89PNG\xff"}, id="a binary file"),
        pytest.param({f"{NET}/.helmignore": b"big.bin\n", f"{NET}/big.bin": bytes(17_000_000)}, id="left out"),
        pytest.param({f"{NET}/files/original": b""}, id="a name like a leftover"),
    ],
)
def test_valid_stack_has_no_findings(changes: dict[str, bytes]) -> None:
    assert found(changes) == ()


@pytest.mark.regression("USER-5")
def test_every_stack_of_this_repository_has_only_known_keys() -> None:
    roots = [path.parent for path in (REPOSITORY / "tests" / "stacks").rglob("csctl.yaml")]
    roots += [path.parent for path in (REPOSITORY / "examples").rglob("csctl.yaml")]

    assert len(roots) > 5
    wrong = [one for root in roots for one in apply_rules(load_stack(read_tree(root), str(root)))]
    assert [one for one in wrong if one.rule in {"unknown-key", "unknown-hook", "placeholder"}] == []


@pytest.mark.regression("USER-5")
@pytest.mark.parametrize("provider", sorted(INFRASTRUCTURE))
def test_new_stack_has_findings_until_its_placeholders_are_replaced(provider: str) -> None:
    tree = {path: text.encode() for path, text in NewStack.parse(f"{provider}/mine/1-35").files().items()}
    filled = {path: content.replace(b"spec: {}", b"spec: {flavor: m1}") for path, content in tree.items()}

    assert {one.rule for one in apply_rules(load_stack(tree, "1-35"))} == {"placeholder"}
    assert apply_rules(load_stack(filled, "1-35")) == ()


@pytest.mark.regression("USER-5")
def test_init_writes_ignore_files_for_leftovers_and_keys() -> None:
    files = NewStack.parse("local/mine/1-35").files()

    assert {".gitattributes", ".gitignore", "cluster-class/.helmignore", "cluster-addon/info/.helmignore"} <= {*files}
    assert {".release/", "*.key"} <= {*files[".gitignore"].splitlines()}
    assert "* text=auto eol=lf" in files[".gitattributes"]
    assert {".DS_Store", "*.orig", "*~"} <= {*files["cluster-class/.helmignore"].splitlines()}


@pytest.mark.regression("USER-5")
@pytest.mark.parametrize(
    ("minor", "today", "doubtful"),
    [
        ("1-35", date(2025, 12, 1), False),
        ("1-36", date(2026, 1, 1), False),  # in development
        ("1-37", date(2026, 1, 1), True),
        ("1-38", date(2026, 11, 22), False),
        ("1-99", date(2026, 11, 22), True),
        ("2-0", date(2026, 11, 22), True),
        ("1-20", date(2000, 1, 1), False),
    ],
)
def test_future_kubernetes_version_gives_a_warning(minor: str, today: date, *, doubtful: bool) -> None:
    assert bool(NewStack.parse(f"local/mine/{minor}").version_warning(today)) is doubtful


def create(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(CSCTL), "create", "stack", "--remote", "none", "--mode", "hash", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=250)


@pytest.mark.regression("USER-5")
def test_create_warns_about_issues_tolerated_by_the_go_operator_and_strict_rejects_them(tmp_path: Path) -> None:
    changes = staged("waitForPostCondition", "waitForPostCondtion")
    write_tree(tmp_path / "stack", {**tiny(), **changes, f"{NET}/.DS_Store": b""})

    built, strict = create(tmp_path), create(tmp_path, "--strict", "--output", "strict")

    assert built.returncode == 0
    assert "Warning: stack/clusteraddon.yaml:6: addonStages." in built.stderr
    assert "Warning: stack/cluster-addon/net/.DS_Store:1: is a leftover" in built.stderr
    assert strict.returncode == 2
    assert "stack/clusteraddon.yaml:6: " in strict.stderr
    assert not (tmp_path / "strict").exists()


@pytest.mark.regression("USER-5")
def test_create_rejects_placeholders_and_oversized_files(tmp_path: Path) -> None:
    write_new_files(NewStack.parse("openstack/mine/1-35").files(), tmp_path / "stack")
    (tmp_path / "stack" / "cluster-addon" / "info" / "big.bin").write_bytes(bytes(17 * 1024 * 1024))

    run = create(tmp_path)

    assert run.returncode == 2
    assert "machine-template.yaml:9: is still the placeholder that csctl init wrote: write the fields" in run.stderr
    assert "stack/cluster-addon/info/big.bin:1: has 17825792 bytes" in run.stderr
    assert not (tmp_path / ".release").exists()
