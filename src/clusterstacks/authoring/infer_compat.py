"""The first ``compatibility.yaml`` of a stack: what its charts and the facts tell, with what is only a guess marked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.authoring.detect_components import clues
from clusterstacks.authoring.load_stack import load
from clusterstacks.building.source_tree import read_tree
from clusterstacks.compat.verdicts import Verdict
from clusterstacks.domain.compatibility import API_VERSION, FILE, parse_compatibility
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.semver import SemVer
from clusterstacks.domain.versions import KubernetesVersion
from clusterstacks.releases.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from clusterstacks.authoring.detect_components import Clue
    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.compat.statements import UpstreamFacts
    from clusterstacks.compat.verdicts import Judgement
    from clusterstacks.domain.versions import KubernetesMinor


def infer_file(directory: Path, facts: UpstreamFacts, known: Sequence[KubernetesMinor], *, force: bool) -> Path:
    """Write the file into a stack directory.

    Args:
        directory: Of the stack.
        facts: What upstream projects state.
        known: Kubernetes minors there are.
        force: Write over a file that is there.

    Raises:
        SpecError: The file is there, or the stack cannot be read.
        OSError: The directory cannot be read or written.
    """
    place = directory / FILE
    text = infer(load(read_tree(directory), str(directory), listed=True), facts, known)
    try:
        with place.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SpecError("FileExists", f"{place} is there already: give --force to write over it") from None
    return place


def infer(stacks: Sequence[LintedStack], facts: UpstreamFacts, known: Iterable[KubernetesMinor]) -> str:
    """Write the file as text; :func:`~clusterstacks.domain.compatibility.parse_compatibility` takes it.

    Args:
        stacks: One stack, once for each Kubernetes minor it is for; the versions of addons are those for the newest.
        facts: What upstream projects state.
        known: Kubernetes minors there are.

    Raises:
        SpecError: The stack cannot be read, or a chart's dependencies cannot.
    """
    versions = [_version(stack) for stack in stacks]
    minors, newest = sorted(one.series for one in versions), stacks[versions.index(max(versions))]
    found = tuple(_distinct(clues(newest, facts)))
    working = [minor for minor in known if found and all(_works(clue, minor, facts) for clue in found)]
    entries = [line for clue in found for line in _entry(clue, minors[-1], facts)]
    text = "\n".join([*_head(minors, working), "components:" if found else "components: []", *entries, ""])
    parse_compatibility(yaml.load(text, name=FILE))
    return text


def _version(stack: LintedStack) -> KubernetesVersion:
    if stack.settings is None:
        raise SourceBroken(stack.directory, f"is no stack that can be read: {stack.settings_problem}")
    return stack.settings.kubernetes


def _distinct(found: Iterable[Clue]) -> Iterator[Clue]:
    """Give every component a name of its own, as the file must; what is said twice of one addon is said once."""
    seen: dict[str, Clue] = {}
    for clue in found:
        name = clue.name if clue.name not in seen else f"{clue.name}-{clue.addon or 'class'}"
        if name not in seen:
            seen[name] = clue
            yield replace(clue, name=name)


def _head(minors: Sequence[KubernetesMinor], working: Sequence[KubernetesMinor]) -> Iterator[str]:
    first, last = minors[0], minors[-1]
    yield "# Begun by csctl compat infer. Nobody has confirmed what is called a guess: correct it, then drop the word."
    yield f"apiVersion: {API_VERSION}"
    yield "# guess: the Kubernetes the stack is made for; widen it once its class was tried with another."
    if working:
        yield f"# All components below are known to work with Kubernetes {', '.join(map(str, working))}."
    yield f'kubernetes: ">={first} <{_following(last)}"'


def _following(minor: KubernetesMinor) -> str:
    return f"{minor.major}.{minor.minor + 1}"


def _works(clue: Clue, minor: KubernetesMinor, facts: UpstreamFacts) -> bool:
    if clue.kubernetes is not None and not _is_known(clue, facts):
        return clue.kubernetes.holds((minor.major, minor.minor, 0))
    return _judged(clue, minor, facts).verdict is Verdict.OK


def _judged(clue: Clue, minor: KubernetesMinor, facts: UpstreamFacts) -> Judgement:
    return facts.judge(clue.name, SemVer.parse(clue.version), KubernetesVersion(minor.major, minor.minor, 0))


def _entry(clue: Clue, minor: KubernetesMinor, facts: UpstreamFacts) -> Iterator[str]:
    own = None if _is_known(clue, facts) else clue.kubernetes
    yield f"# {'evidence' if clue.certain else 'guess'}: {_line(clue.told)}"
    if own is not None:
        yield "# evidence: Helm refuses the chart outside of the range; nobody says that all of it was tried."
    elif _is_known(clue, facts):
        judgement = _judged(clue, minor, facts)
        known = f"{judgement.verdict} with Kubernetes {minor}, as {judgement.text}"
        yield f"# evidence: {_line(known)}; this counts as long as no kubernetes is written here."
    else:
        yield "# Nobody states its range: add kubernetes with what you know, else its verdict is unknown."
    yield f"- name: {_quoted(clue.name)}"
    if clue.addon:
        yield f"  addon: {_quoted(clue.addon)}"
    yield f"  version: {_quoted(clue.version)}"
    if own is not None:
        yield f'  kubernetes: "{own}"'
        yield f"  source: {_quoted(f'kubeVersion of chart {clue.chart}')}"
    yield from _upgrade(clue, facts)


def _upgrade(clue: Clue, facts: UpstreamFacts) -> Iterator[str]:
    """What the project says about upgrades holds only where the release repeats it: a stack may know better."""
    rule = facts.upgrade_rule(clue.name, SemVer.parse(clue.version))
    stated = facts.components[clue.name].upgrade if rule is not None else None
    if rule is None or stated is None:
        return
    yield f"  # evidence: {_line(stated.source.url)}"
    step = "" if rule.max_minor_step is None else f"maxMinorStep: {rule.max_minor_step}, "
    yield f"  upgrade: {{{step}downgrade: {str(rule.downgrade).lower()}}}"


def _is_known(clue: Clue, facts: UpstreamFacts) -> bool:
    if clue.name not in facts.components:
        return False
    return any(one.kubernetes is not None for one in facts.components[clue.name].about(SemVer.parse(clue.version)))


def _quoted(text: str) -> str:
    """Write a text in quotes; JSON is YAML, but for the pairs of escapes of characters beyond 16 bits."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _line(text: str) -> str:
    """What stands in charts must not end a comment."""
    return "".join(character if character.isprintable() else " " for character in text)
