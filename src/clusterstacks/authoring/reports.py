"""Findings for programs: JSON of our own, and SARIF 2.1.0, which code hosts show beside the lines of a change.

SARIF: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import PurePath
from typing import TYPE_CHECKING
from urllib.parse import quote

from clusterstacks.authoring.findings import LintSeverity
from clusterstacks.authoring.rule_registry import RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.authoring.findings import LintFinding
    from clusterstacks.authoring.linter import Report
    from clusterstacks.domain.objects import Manifest

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_DISTRIBUTION = "cluster-stacks"


def place(report: Report, finding: LintFinding) -> str:
    """Path of a finding's file as the author can open it from where lint was called."""
    return str(PurePath(report.directory, finding.fault.path))


def as_json(reports: Sequence[Report]) -> Manifest:
    """Write reports as one document: the findings and how many there are."""
    return {
        "findings": [
            {
                "rule": finding.rule,
                "severity": finding.severity.value,
                "path": place(report, finding),
                "line": finding.fault.line,
                "message": finding.fault.message,
                "wayOut": finding.fault.way_out,
            }
            for report in reports
            for finding in report.findings
        ],
        "errors": sum(report.count(LintSeverity.ERROR) for report in reports),
        "warnings": sum(report.count(LintSeverity.WARNING) for report in reports),
    }


def as_sarif(reports: Sequence[Report]) -> Manifest:
    """Write reports as one SARIF run; every rule is listed, whether it found something or not."""
    numbers = {rule.id: number for number, rule in enumerate(RULES)}
    driver = {
        "name": "csctl lint",
        "version": version(_DISTRIBUTION),
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.summary},
                "defaultConfiguration": {"level": rule.severity.value},
            }
            for rule in RULES
        ],
    }
    results = [_result(report, finding, numbers) for report in reports for finding in report.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(report: Report, finding: LintFinding, numbers: dict[str, int]) -> Manifest:
    path = quote(PurePath(place(report, finding)).as_posix(), errors="surrogateescape")
    return {
        "ruleId": finding.rule,
        "ruleIndex": numbers[finding.rule],
        "level": finding.severity.value,
        "message": {"text": f"{finding.fault.message}; {finding.fault.way_out}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": path},
                    "region": {"startLine": finding.fault.line},
                }
            }
        ],
    }
