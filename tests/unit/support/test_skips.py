"""Skipped tests fail where CI runs, and only there."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.support.skips import fail_in_ci


def skipped(when: Literal["setup", "call"] = "setup") -> pytest.TestReport:
    return pytest.TestReport("a", ("a", 1, "a"), {}, "skipped", ("a.py", 1, "Skipped: no containerd"), when)


def test_skipped_test_fails_in_ci_with_the_reason_of_the_skip() -> None:
    report = skipped()

    fail_in_ci(report, {"CI": "true"})

    assert report.failed
    assert "no containerd" in report.longreprtext


@pytest.mark.parametrize(("when", "environ"), [("setup", {}), ("call", {"CI": "true"})])
def test_test_stays_skipped_elsewhere_and_if_it_has_begun(
    when: Literal["setup", "call"], environ: dict[str, str]
) -> None:
    report = skipped(when)

    fail_in_ci(report, environ)

    assert report.skipped
    assert report.longrepr == ("a.py", 1, "Skipped: no containerd")


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_other_tests_keep_their_outcome_in_ci(outcome: Literal["passed", "failed"]) -> None:
    report = pytest.TestReport("a", ("a", 1, "a"), {}, outcome, "text", "setup")

    fail_in_ci(report, {"CI": "true"})

    assert (report.outcome, report.longrepr) == (outcome, "text")
