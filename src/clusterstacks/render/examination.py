"""What an examination of a chart tells; values only, so that the parent process loads no YAML for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest


class RenderedDocument(NamedTuple):
    """One object and where it came from: its file as Helm names it, and the place in it for messages."""

    manifest: Manifest
    path: str
    source: str


class Repetition(NamedTuple):
    """A mapping in what a file rendered that has one key twice; Helm and kubectl silently take the last."""

    path: str
    problem: str


class HelmHook(NamedTuple):
    """An object with the annotation ``helm.sh/hook``: its file, what it is, the annotation, and a ``HookUse`` value."""

    path: str
    kind: str
    name: str
    hooks: str
    use: str


@dataclass(frozen=True, slots=True)
class Examined:
    """What a chart rendered to, with the file each object came from.

    Args:
        documents: The objects, in the order of ``helm template``.
        repetitions: Keys that stand twice in one mapping, at most one of each file.
        hooks: All Helm hooks, also those that no delivery applies.
    """

    documents: tuple[RenderedDocument, ...] = ()
    repetitions: tuple[Repetition, ...] = ()
    hooks: tuple[HelmHook, ...] = ()
