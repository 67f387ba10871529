"""Rules for source files: unknown keys, placeholders, encoding, size, private keys and leftovers of editors."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.authoring.findings import LintProblem, LintRule, LintSeverity, line_of_field
from clusterstacks.csctl.authoring.stack import oversized
from clusterstacks.csctl.building.packaging import CLASS_DIRECTORY
from clusterstacks.csctl.building.pinning import ADDON_DIRECTORY
from clusterstacks.csctl.building.settings import CSCTL
from clusterstacks.model.files.addon_config import AddonConfig
from clusterstacks.model.files.definitions import field_path, unknown_keys
from clusterstacks.model.files.stack_settings import CsctlFile
from clusterstacks.release.charts.archive import LIMITS
from clusterstacks.release.release import ADDON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.csctl.authoring.stack import LintedStack

_LEFTOVER: Final = re.compile(
    r"\.DS_Store|Thumbs\.db|desktop\.ini|\._.+|.+~|\.#.+|#.+#|.+\.(?:orig|rej|bak|tmp|sw[a-p])|\.swp", re.IGNORECASE
)
"""Names of files that operating systems, editors and ``patch`` leave behind."""

_TEXT_KEY: Final = re.compile(r"([\w.-]+):[ \t]*[|>]")
VALUES_KEY: Final = "values"
"""The key of a values template whose text is the values document."""

_TEXT: Final = (".yaml", ".yml", ".tpl", ".txt", ".json")
_PRIVATE_KEY: Final = re.compile(rb"\A\s*-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")
_TO_FILL_IN: Final = re.compile(rb"^[ \t]*#.*\bTo be filled in\b", re.MULTILINE)
_EMPTY_SPEC: Final = re.compile(rb"^[ \t]+spec:[ \t]*\{\}", re.MULTILINE)


def is_leftover(name: str) -> bool:
    """Return whether a file has the name of a leftover of an editor or operating system."""
    return _LEFTOVER.fullmatch(name) is not None


def keys(stack: LintedStack) -> Iterator[LintProblem]:
    """Files contain only keys that csctl or the operator reads."""
    for chart in stack.addons:
        texts = {name: line for line, name in _text_keys(chart.values_template)}
        for name in texts.keys() - {VALUES_KEY}:
            if VALUES_KEY in texts or get_close_matches(name, [VALUES_KEY]):
                problem = f"has the unknown key {name!r}, which has no effect"
                yield LintProblem(chart.values_path, texts[name], problem, f"did you mean {VALUES_KEY}?")
    for file, definition in ((CSCTL, CsctlFile), (ADDON_CONFIG, AddonConfig)):
        for path, there in unknown_keys(definition, stack.document(file)):
            parent, key = field_path(path[:-1]), path[-1]
            close = get_close_matches(str(key), there, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            problem = f"{f'{parent} has ' if parent else ''}the unknown key {key!r}, which has no effect"
            known_keys = f"known keys are {', '.join(there)}"
            yield LintProblem(file, line_of_field(stack.content(file), path), problem, meant + known_keys)


def _text_keys(template: bytes) -> Iterator[tuple[int, str]]:
    """Yield line and name of each key at the top level of a values template that has a block scalar."""
    for line, content in enumerate(template.decode(errors="replace").splitlines(), 1):
        if found := _TEXT_KEY.match(content):
            yield line, found[1]


def placeholders(stack: LintedStack) -> Iterator[LintProblem]:
    """No template of ``csctl init`` is still empty."""
    for path, content in stack.tree.items():
        if not path.startswith(f"{CLASS_DIRECTORY}templates/"):
            continue
        empty, marker = _EMPTY_SPEC.search(content), _TO_FILL_IN.search(content)
        if empty and marker:
            yield LintProblem(
                path,
                content.count(b"\n", 0, empty.start()) + 1,
                "is still the placeholder that csctl init wrote",
                "write the fields of the provider into spec; if it needs none, remove the comment 'To be filled in'",
            )


def encodings(stack: LintedStack) -> Iterator[LintProblem]:
    """Text files are UTF-8."""
    for path, content in stack.tree.items():
        if not path.endswith(_TEXT):
            continue
        try:
            content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            problem = f"is not UTF-8 at byte {error.start}: Helm writes U+FFFD instead of this character"
            yield LintProblem(path, line, problem, "save the file as UTF-8")


def line_ends(stack: LintedStack) -> Iterator[LintProblem]:
    """Text files have Unix line endings; only the first file with others is reported by name."""
    found = sorted(path for path, content in stack.tree.items() if path.endswith(_TEXT) and b"\r\n" in content)
    if found:
        more = f" (so do {len(found) - 1} more files)" if len(found) > 1 else ""
        problem = f"has Windows line endings (CRLF){more}: they change the hash of the stack"
        remedy = "save it with Unix line endings (LF), and add the line '* text=auto eol=lf' to .gitattributes"
        yield LintProblem(found[0], 1, problem, remedy)


def private_keys(stack: LintedStack) -> Iterator[LintProblem]:
    """No file is a private key."""
    for path, content in stack.tree.items():
        if _PRIVATE_KEY.match(content):
            remedy = "move it out of the stack directory; if it was committed or published, make a new key"
            yield LintProblem(path, 1, "is a private key", remedy)


def leftovers(stack: LintedStack) -> Iterator[LintProblem]:
    """No file is a leftover of an editor or operating system."""
    for path in stack.tree:
        if is_leftover(path.rpartition("/")[2]):
            problem = "is a leftover of an editor or operating system; it changes the hash of the stack"
            if path.startswith((CLASS_DIRECTORY, ADDON_DIRECTORY)):
                problem += " and may get into the release"
            yield LintProblem(
                path, 1, problem, "delete it, and add its name to .gitignore and to .helmignore of the chart"
            )


def sizes(stack: LintedStack) -> Iterator[LintProblem]:
    """No file and no chart is too large for the operator."""
    for chart in stack.charts:
        if not (found := oversized(chart.files)):
            continue
        for name in found:
            size = len(chart.files[name])
            total = sum(map(len, chart.files.values()))
            problem = (
                f"has {size} bytes: a file of a chart may have {_mib(LIMITS.file_bytes)}"
                if size > LIMITS.file_bytes
                else f"is the largest file of a chart of {total} bytes: a chart may have {_mib(LIMITS.total_bytes)}"
            )
            remedy = "remove it, or keep it outside the chart and let a workload download it"
            yield LintProblem(f"{chart.directory}/{name}", 1, problem, remedy)


def _mib(count: int) -> str:
    return f"at most {count // 1024**2} MiB ({count} bytes)"


RULES = (
    LintRule(
        "unknown-key",
        LintSeverity.ERROR,
        "csctl.yaml, clusteraddon.yaml and values templates have no unknown keys.",
        keys,
    ),
    LintRule("placeholder", LintSeverity.ERROR, "No template is still a placeholder of csctl init.", placeholders),
    LintRule("not-utf8", LintSeverity.ERROR, "YAML files and templates are UTF-8 text.", encodings),
    LintRule("private-key", LintSeverity.ERROR, "No file is a private key.", private_keys),
    LintRule("line-ends", LintSeverity.WARNING, "Text files have Unix line endings.", line_ends),
    LintRule("editor-file", LintSeverity.WARNING, "No file is a leftover of an editor or operating system.", leftovers),
    LintRule(
        "file-size",
        LintSeverity.ERROR,
        "No file of a chart is larger than 16 MiB, and no chart larger than 64 MiB.",
        sizes,
    ),
)
