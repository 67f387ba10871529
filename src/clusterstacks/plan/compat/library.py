"""Library of facts about components: the built-in files, and files that a user installed over them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.plan.compat.facts_reader import check_consistency, parse_facts
from clusterstacks.plan.compat.kubernetes import supported_minors
from clusterstacks.plan.compat.statements import ComponentFacts, UpstreamFacts

if TYPE_CHECKING:
    from datetime import date
    from importlib.resources.abc import Traversable
    from pathlib import Path


SUFFIX: Final = ".yaml"
OWN_SHAPE: Final = frozenset({"kubernetes", "api-removals", "kubernetes-api"})
"""Names of files about Kubernetes itself: they have other schemas than those of components, and are only built in."""

MAX_BYTES: Final = 1024 * 1024
"""Longest facts file read (arbitrary; the largest built-in one has 30 kB)."""


@cache
def facts(installed: Path | None = None) -> UpstreamFacts:
    """Return the facts about all components; a file is read at the first access to its component.

    Files in the directory ``installed``, which need not exist, replace the built-in ones of the same component. An
    invalid one is a SpecError at the first access.
    """
    return UpstreamFacts(_FactsFiles(installed))


def read_facts(content: bytes, file: str, origin: str = "") -> ComponentFacts:
    """Read a facts file; ``file`` is its name in messages, ``origin`` is empty for a built-in one.

    Raises:
        SpecError: It is not YAML, or does not match the schema.
    """
    document = yaml.load(content, name=file, max_bytes=MAX_BYTES)
    return parse_facts(document, file=file, supported=supported_minors, origin=origin)


class _FactsFiles(Mapping[str, ComponentFacts]):
    """Facts by component; each file is read once."""

    def __init__(self, installed: Path | None) -> None:
        self._built_in = {_stem(file): file for file in resources.files(__package__).joinpath("facts").iterdir()}
        files = installed.iterdir() if installed is not None and installed.is_dir() else ()
        self._installed = {_stem(file): file for file in files}
        self._names = frozenset({*self._built_in, *self._installed} - OWN_SHAPE - {""})
        self._read: dict[str, ComponentFacts] = {}

    def __getitem__(self, name: str) -> ComponentFacts:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def _load(self, name: str) -> ComponentFacts:
        if name not in self._installed:
            file = self._built_in[name]
            return read_facts(file.read_bytes(), f"facts/{file.name}")
        path = self._installed[name]
        try:
            component = read_facts(_content(path), str(path), str(path))
        except SpecError as error:
            raise SpecError(error.code, f"{error.message}; correct the file, or remove it") from None
        if component.name != name:
            problem = f"is about {component.name}: install it with csctl compat update, or remove it"
            raise SpecError("FactsMisnamed", f"{path} {problem}")
        return component


def _stem(file: Traversable) -> str:
    """Return the component of a file; empty for other files."""
    return file.name.removesuffix(SUFFIX) if file.name.endswith(SUFFIX) else ""


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as reader:
            return reader.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError("FactsUnreadable", f"{path} cannot be read: {error.strerror}") from None


def install(file: Path, into: Path, today: date) -> ComponentFacts:
    """Check a facts file and install it in a directory, which is created if it does not exist; return its facts.

    An installed file of the same component is replaced atomically.

    Raises:
        SpecError: The file does not match the schema, is not consistent, or is about Kubernetes itself.
        OSError: A file cannot be read or written.
    """
    with file.open("rb") as reader:
        return install_content(reader.read(MAX_BYTES + 1), str(file), into, today)


def install_content(content: bytes, file: str, into: Path, today: date) -> ComponentFacts:
    """Install the content of a facts file as :func:`install` does; ``file`` is its name in messages."""
    document = yaml.load(content, name=file, max_bytes=MAX_BYTES)
    component = document.get("component") if isinstance(document, dict) else None
    if component in OWN_SHAPE:
        raise SpecError("FactsBuiltIn", f"{file} is about Kubernetes itself; these facts come with csctl: update csctl")
    component_facts = read_facts(content, file)
    check_consistency(document, file=file, today=today)
    into.mkdir(parents=True, exist_ok=True)
    place = into / f"{component_facts.name}{SUFFIX}"
    hidden = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        hidden.write_bytes(content)
        hidden.replace(place)
    finally:
        hidden.unlink(missing_ok=True)
    return replace(component_facts, origin=str(place))
