"""Selects the files of a directory that belong to a chart: all that ``.helmignore`` does not exclude.

Helm reads this file when it loads or packages a directory, not when it loads an archive. Addons with stages are
directories, and csctl packages the other charts from directories, so that a backup copy of a template is not rendered.
Rules: https://helm.sh/docs/chart_template_guide/helm_ignore_file/
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.release.charts.errors import UnsafeArchive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

IGNORE_FILE: Final = ".helmignore"

MAX_RULES: Final = 200
"""Maximum number of rules in one file (arbitrary: ``helm create`` writes 18)."""

_NEEDED: Final = "Chart.yaml"

_ALWAYS: Final = "templates/.?*"
"""A rule that Helm adds to every file."""

# One element of a rule: an escaped character, a set, a star, a question mark, or any other character.
_PIECE: Final = re.compile(r"\\(?P<escaped>.)|\[(?P<inverse>\^?)(?P<set>(?:\\.|[^\]\\])+)\]|(?P<other>.)", re.DOTALL)
_MEMBER: Final = re.compile(r"\\(?P<escaped>.)|(?P<sign>[\[&~|])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A line of ``.helmignore``."""

    pattern: re.Pattern[str]
    inverted: bool  # it excludes everything that does not match
    directories: bool  # it matches only directories
    paths: bool  # the pattern is matched against the path instead of its last element

    def ignores(self, path: str, *, directory: bool) -> bool:
        subject = path if self.paths else path.rpartition("/")[2]
        matches = self.pattern.fullmatch(subject) is not None and (directory or not self.directories)
        return matches is not self.inverted


def chart_files(files: Mapping[str, bytes], chart: str) -> dict[str, bytes]:
    """Return the files of a chart directory that Helm uses, by path relative to it; ``chart`` is its name in messages.

    Raises:
        UnsafeArchive: There are too many rules, one is not valid, or they exclude Chart.yaml.
    """
    lines = files.get(IGNORE_FILE, b"").decode(errors="replace").splitlines()
    rules = [rule for line in [*lines, _ALWAYS] for rule in _parsed(line.strip(), chart)]
    if len(rules) > MAX_RULES:
        raise UnsafeArchive(chart, IGNORE_FILE, f"has more than {MAX_RULES} rules")
    directories = {parent for path in files for parent in _parents(path)}
    closed = {path for path in directories if any(rule.ignores(path, directory=True) for rule in rules)}
    kept = {
        path: content
        for path, content in files.items()
        if closed.isdisjoint(_parents(path)) and not any(rule.ignores(path, directory=False) for rule in rules)
    }
    if _NEEDED in files and _NEEDED not in kept:
        raise UnsafeArchive(chart, IGNORE_FILE, f"excludes {_NEEDED}, without which there is no chart")
    return kept


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _parsed(line: str, chart: str) -> Iterator[_Rule]:
    if not line or line.startswith("#"):
        return
    rule = line.removeprefix("!")
    name = rule.removesuffix("/")
    pattern = None if "**" in rule else _translated(name.removeprefix("/"))
    if pattern is None:
        raise UnsafeArchive(chart, IGNORE_FILE, f"has a rule that Helm rejects: {line[:80]!r}")
    yield _Rule(pattern, inverted=rule != line, directories=name != rule, paths="/" in name)


def _translated(rule: str) -> re.Pattern[str] | None:
    """Translate a rule into a regular expression; None if it is not valid.

    The atomic groups (``(?>...)``) prevent backtracking, so no rule takes long.
    """
    parts, at = [""], 0
    while at < len(rule):
        piece = _PIECE.match(rule, at)
        if piece is None or piece["other"] in {"[", "\\"}:
            return None
        if piece["other"] == "*":
            parts.append("")
        else:
            parts[-1] += _expression(piece)
        at = piece.end()
    first, *middle, last = parts if len(parts) > 1 else ["", *parts]
    star = "[^/]*" if len(parts) > 1 else ""
    try:
        return re.compile(first + "".join(f"(?>[^/]*?{part})" for part in middle) + star + last, re.DOTALL)
    except re.error:
        return None


def _expression(piece: re.Match[str]) -> str:
    if piece["set"] is not None:
        return f"[{piece['inverse']}{_MEMBER.sub(_member, piece['set'])}]"
    if piece["escaped"] is not None:
        return re.escape(piece["escaped"])
    return "[^/]" if piece["other"] == "?" else re.escape(piece["other"])


def _member(character: re.Match[str]) -> str:
    """Escape one character of a set; ranges have the same form in both languages."""
    return re.escape(character["escaped"] or character["sign"])
