"""U-1 to U-50: what authors and users of csctl meet in their first hour."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.shared import compat_output, output
from clusterstacks.csctl.verbs import version
from clusterstacks.csctl.verbs.cluster_actions import _ReconcileRequest
from clusterstacks.dev.inspection import ComponentState, EnvironmentState
from tests.support.running.csctl import call_csctl
from tests.support.running.doc_pages import DOCS

if TYPE_CHECKING:
    from pathlib import Path

STACK = "providers/local/shop/1-35"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A new repository with one stack, in which csctl is called."""
    monkeypatch.chdir(tmp_path)
    assert call_csctl("init", "local/shop/1-35") == 0
    capsys.readouterr()
    return tmp_path


@pytest.mark.regression("U-1")
def test_u_1_the_only_stack_of_a_repository_is_found_from_its_root(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_csctl("template", ".", "--class", "--offline") == 0
    assert "kind: ClusterClass" in capsys.readouterr().out
    assert call_csctl("diff", STACK, ".", "--offline", "--exit-code") == 0

    assert call_csctl("init", "local/shop/1-36") == 0
    capsys.readouterr()
    assert call_csctl("template", ".", "--offline") == output.MUST_CHANGE
    said = " ".join(capsys.readouterr().err.split())
    assert "has 2 stacks: name one of them (providers/local/shop/1-35, providers/local/shop/1-36)" in said
    assert (repository / STACK).is_dir()


@pytest.mark.regression("U-2")
def test_u_2_create_in_the_stack_directory_builds_into_the_root_of_the_repository(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository / STACK)

    assert call_csctl("create", ".", "--remote", "none") == 0

    assert capsys.readouterr().out == "Created ../../../../.release/local-shop-1-35-v1\n"
    assert (repository / ".release" / "local-shop-1-35-v1" / "metadata.yaml").is_file()


@pytest.mark.regression("U-3")
def test_u_3_a_release_is_signed_with_a_new_key_in_one_step(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_csctl("create", STACK, "--remote", "none") == 0
    release = repository / ".release" / "local-shop-1-35-v1"
    capsys.readouterr()

    assert call_csctl("sign", release, "--new-key", "key", "-o", "json") == 0

    assert json.loads(capsys.readouterr().out)["new"] is True
    assert call_csctl("verify", release, "--key", "key.pub") == 0


@pytest.mark.regression("U-13")
def test_u_13_no_tutorial_runs_python() -> None:
    assert [page.name for page in (DOCS / "tutorial").glob("*.md") if "python -c" in page.read_text()] == []


@pytest.mark.regression("U-14")
def test_u_14_ranges_are_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (output, compat_output):
        monkeypatch.setattr(module, "columns", lambda **_: 70)

    assert call_csctl("compat", "show", "cilium") == 0

    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "\nSources:\n  https://" in shown


@pytest.mark.regression("U-17")
def test_u_17_an_unknown_version_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(version, "_management_versions", lambda _: {"operator": "", "Kubernetes": "v1.36.1"})

    assert call_csctl("version") == 0
    assert "operator: unknown: no Deployment of it exists, or you may not list Deployments" in capsys.readouterr().out


@pytest.mark.regression("U-19")
def test_u_19_reconcile_knows_what_was_restored_since_its_request() -> None:
    def addon(*names: str) -> dict[str, Any]:
        return {"status": {"drift": [{"name": name, "correctedAt": "2026-01-01T00:00:00Z"} for name in names]}}

    request = _ReconcileRequest(["one"], addon("before"), [])
    request.addon = addon("dns", "before")

    assert [entry["name"] for entry in request.restored()] == ["dns"]


@pytest.mark.regression("U-44")
def test_u_44_dev_status_has_the_spelling_of_all_other_documents() -> None:
    component = ComponentState(name="etcd", version="3.6", port=1, pid=2, state="running", memory_bytes=3)
    document = EnvironmentState("Running", "", (component,)).document()

    assert document["healthy"] is True
    assert json.loads(json.dumps(document))["components"][0]["memoryBytes"] == 3


@pytest.mark.regression("U-49")
def test_u_49_a_new_stack_states_ranges_and_passes_their_check(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 'kubernetes: ">=1.35 <1.36"' in (repository / STACK / "compatibility.yaml").read_text()

    assert call_csctl("lint", ".") == 0
    assert call_csctl("compat", "check", STACK) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{STACK}: no errors, no warnings"
