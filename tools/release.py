"""Prepares a release on the machine of its maintainer: ``make release VERSION=0.2.0``. Nothing is pushed.

``write`` sets the version and closes the section "Unreleased" of the change log, ``commit`` makes the commit and its
tag, and ``notes`` prints the section of a version. In between, make writes the generated files and runs all checks.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1]
CHANGE_LOG: Final = "CHANGELOG.md"
UNRELEASED: Final = "Unreleased"
STATED: Final = {
    "pyproject.toml": (r'(?m)^version = "{}"$', 'version = "{}"'),
    "uv.lock": (r'(?m)^name = "cluster-stacks"\nversion = "{}"$', 'name = "cluster-stacks"\nversion = "{}"'),
    "charts/cluster-stack-operator/Chart.yaml": (r"(?m)^(version|appVersion): {}$", r"\g<1>: {}"),
    **dict.fromkeys(
        (f"docs/how-to/{page}.md" for page in ("build-the-image", "install", "upgrade-the-operator")),
        (r"(?<![\d.]){}(?![\d.])", "{}"),
    ),
}
"""Where the version is written by hand: what is found, and what it becomes. Other files are generated from it."""


def current(project: str) -> str:
    """Return the version of ``pyproject.toml``."""
    return str(re.findall(r'(?m)^version = "(.+)"$', project)[0])


def refusal(version: str, before: str, changes: str, dirty: str) -> str:
    """Say why this version cannot be released now; empty if it can."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return f"{version!r} is not a version: write for example VERSION=0.2.0"
    if [*map(int, version.split("."))] <= [*map(int, before.split("."))]:
        return f"{version} is not newer than {before}"
    if not changes:
        return f"the section {UNRELEASED} of {CHANGE_LOG} is empty: say what changes for users"
    if dirty:
        return f"there are changes that are not committed:\n{dirty}"
    return ""


def section(log: str, version: str) -> str:
    """Return what the change log says of a version, without its heading."""
    found = re.search(rf"(?ms)^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", log)
    return found[1].strip() if found else ""


def closed(log: str, version: str, day: str) -> str:
    """Return the change log with the section "Unreleased" as that of a version, below a new one that is empty."""
    return log.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} - {day}\n", 1)


def restated(file: str, text: str, before: str, version: str) -> str:
    """Return a file of ``STATED`` with the new version."""
    found, becomes = STATED[file]
    changed, count = re.subn(found.format(re.escape(before)), becomes.format(version), text)
    if not count:
        sys.exit(f"{file} does not have the version {before}")
    return changed


def write(project: Path, version: str) -> None:
    """Set the version, and close the change log.

    Raises:
        SystemExit: The version cannot be released now; nothing is changed.
    """
    log, before = (project / CHANGE_LOG).read_text(), current((project / "pyproject.toml").read_text())
    dirty = _git(project, "status", "--porcelain")
    if why := refusal(version, before, section(log, UNRELEASED), dirty):
        sys.exit(why)
    for file in STATED:
        (project / file).write_text(restated(file, (project / file).read_text(), before, version))
    (project / CHANGE_LOG).write_text(closed(log, version, f"{datetime.now(UTC):%Y-%m-%d}"))


def commit(project: Path, version: str) -> str:
    """Commit everything and tag it, and return what is left to do."""
    _git(project, "commit", "--all", "--message", f"release: {version}")
    _git(project, "tag", "--annotate", f"v{version}", "--message", f"Version {version}")
    branch = _git(project, "branch", "--show-current")
    return f"git push --atomic origin {branch} v{version}\nThen record its state: CONTRIBUTING.md, 'Recorded states'."


def _git(project: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=project, check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def main() -> None:
    """Do what the arguments say."""
    match sys.argv[1:]:
        case ["write", version]:
            write(PROJECT, version)
        case ["commit", version]:
            sys.stdout.write(f"{commit(PROJECT, version)}\n")
        case ["notes", version] if text := section((PROJECT / CHANGE_LOG).read_text(), version):
            sys.stdout.write(f"{text}\n")
        case _:
            sys.exit("make release VERSION=0.2.0, or: python -m tools.release notes VERSION")


if __name__ == "__main__":
    main()
