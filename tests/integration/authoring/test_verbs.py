"""Verbs for authors, called from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.model import yaml
from tests.support.builders.tiny_stack import IMAGE, SETTINGS, tiny, write
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    return write(tmp_path / "stack", tiny())


@pytest.mark.parametrize(
    ("provider", "code", "counts"), [("local", 0, "no errors"), ("openstack", output.MUST_CHANGE, "2 errors")]
)
def test_new_stack_has_only_placeholder_findings(
    provider: str, code: int, counts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_csctl("init", f"{provider}/mine/1-35", tmp_path / provider) == 0
    capsys.readouterr()

    assert call_csctl("lint", tmp_path / provider) == code
    assert capsys.readouterr().out.endswith(f"{tmp_path / provider}: {counts}, no warnings\n")


def test_error_is_printed_in_compiler_format_and_sets_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = write(tmp_path / "wrong", tiny({"csctl.yaml": SETTINGS.replace("tiny", "ti--ny")}))

    assert call_csctl("lint", wrong) == output.MUST_CHANGE
    first, second, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{wrong}/csctl.yaml:3: error[settings] config.clusterStackName is 'ti--ny'")
    assert second.startswith("    expected lower-case letters")
    assert last == f"{wrong}: 1 error, no warnings"


def test_lint_prints_json_and_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warned = write(tmp_path / "warned", tiny({"cluster-addon-values.yaml": ""}))

    assert call_csctl("lint", warned, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["rule"] == "stale-values"
    assert call_csctl("lint", warned, "-o", "sarif") == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"][0]["ruleId"] == "stale-values"


def test_all_stacks_of_a_repository_are_linted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "providers/test/tiny/1-35", tiny())
    write(tmp_path / "providers/test/other", tiny())

    assert call_csctl("lint", tmp_path) == 0
    assert capsys.readouterr().out == "2 stacks: no errors, no warnings\n"


def test_template_output_is_valid_for_kubectl(stack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*options: str) -> str:
        assert call_csctl("template", stack, *options) == 0
        return capsys.readouterr().out

    def kinds(*options: str) -> list[str]:
        return [one["kind"] for one in yaml.load_all(printed(*options)) if one]

    assert kinds() == ["ClusterClass", "TinyClusterTemplate", "Deployment"]
    assert kinds("--class") == ["ClusterClass", "TinyClusterTemplate"]
    assert kinds("--addon", "net") == ["Deployment"]
    assert kinds("--sample") == ["Cluster", "SampleControlPlane", "TinyCluster"]
    assert printed("--values") == "---\n# values of addon net\ncluster: sample\n"
    assert printed("--images") == f"{IMAGE}\n"


def test_template_reads_the_objects_of_a_file(stack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("template", stack, "--sample") == 0
    file = stack.parent / "cluster.yaml"
    file.write_text(capsys.readouterr().out.replace("name: sample", "name: prod", 1))

    assert call_csctl("template", stack, "--values", "--cluster", file) == 0
    assert "cluster: prod" in capsys.readouterr().out


def test_diff_sets_the_exit_code_only_on_request(stack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = write(stack.parent / "other", tiny({"csctl.yaml": SETTINGS.replace("1.35.4", "1.35.5")}))

    assert call_csctl("diff", stack, stack, "--exit-code") == 0
    assert capsys.readouterr().out == ""
    assert call_csctl("diff", stack, other) == 0
    assert " kubernetes v1.35.4 -> v1.35.5\n" in capsys.readouterr().out
    assert call_csctl("diff", stack, other, "--exit-code", "-o", "json") == output.FAILED
    assert json.loads(capsys.readouterr().out)["objects"] == []
