from __future__ import annotations

from importlib.metadata import version

from clusterstacks.csctl.authoring.findings import LintFinding, LintProblem, LintSeverity
from clusterstacks.csctl.authoring.linter import RULES, LintReport, as_json, as_sarif

ERROR = LintFinding(LintProblem("csctl.yaml", 3, "is wrong", "write it right"), "settings", LintSeverity.ERROR)
WARNING = LintFinding(LintProblem("a b/ü.yaml", 1, "may be wrong", "look"), "image-digest", LintSeverity.WARNING)
REPORT = LintReport("providers/x", (WARNING, ERROR))


def test_json_lists_findings_with_existing_paths() -> None:
    document = as_json([REPORT])

    assert (document["errors"], document["warnings"]) == (1, 1)
    assert document["findings"][1] == {
        "rule": "settings",
        "severity": "error",
        "path": "providers/x/csctl.yaml",
        "line": 3,
        "message": "is wrong",
        "remedy": "write it right",
    }


def test_sarif_has_the_fields_required_by_its_schema() -> None:
    """Required properties of sarifLog, run, tool, toolComponent, reportingDescriptor and result; URI references."""
    document = as_sarif([REPORT])
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    warning, error = run["results"]

    assert document["version"] == "2.1.0"
    assert (driver["name"], driver["version"]) == ("csctl lint", version("cluster-stacks"))
    assert [rule["id"] for rule in driver["rules"]] == [rule.id for rule in RULES]
    assert {rule["defaultConfiguration"]["level"] for rule in driver["rules"]} == {"error", "warning"}
    assert driver["rules"][error["ruleIndex"]]["id"] == error["ruleId"] == "settings"
    assert error["message"] == {"text": "is wrong; write it right"}
    assert error["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "providers/x/csctl.yaml"},
        "region": {"startLine": 3},
    }
    assert warning["level"] == "warning"
    assert warning["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "providers/x/a%20b/%C3%BC.yaml"


def test_report_with_warnings_only_has_no_errors() -> None:
    assert LintReport("x", (WARNING,)).clean
    assert not REPORT.clean
