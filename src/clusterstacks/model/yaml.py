"""YAML as Kubernetes reads it.

Kubernetes parses YAML 1.1 with exceptions: ``yes`` is a boolean and ``0644`` is octal, while ``22:22`` and dates stay
strings, and everything ends up as JSON, so that keys are strings and ``1e3`` is the integer 1000. PyYAML's C parser
does the parsing; what scalars mean is decided here, and measured against ``sigs.k8s.io/yaml`` as embedded in Helm
(docs/explanation/dependencies.md). Nothing a hostile document says can crash or flood the process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from clusterstacks.model import yaml_scalars
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES: Final = 16 * 1024 * 1024
"""Longest text read at once (arbitrary: five times the largest CRD bundle seen)."""

MAX_ALIASES: Final = 100
"""Aliases in one text; more is refused before anything is built (arbitrary: charts use fewer than ten)."""

MAX_DEPTH: Final = 200
"""Levels of nesting (arbitrary: CRD schemas reach about 50)."""

_PLAIN_FLOWS: Final = 1_000
"""Flow collections that may nest without a closer look.

PyYAML's recursive C composer survives 5,000 levels; 200,000 overflow a stack of 8 MB. A flow collection opens at most
two levels (itself and the mapping of one pair), and so does each column of a block.
"""

_PLAIN_BLOCK: Final = 500
"""Characters of indentation in a row that have no closer look: blocks nest by columns, so twice as many levels."""

_INDENTATION: Final = " -?:\ufeff"
"""All characters that can stand on a line before a block collection opens in it."""

MAX_VALUES: Final = 1_000_000
"""Values before and after aliases are expanded (arbitrary: a 2 MB CRD bundle has about 100,000)."""

Resolver: TypeAlias = Callable[[str], yaml_scalars.Scalar]


@dataclass(slots=True)
class ValueBudget:
    """What may still be built, with each alias as a copy of its values; several texts may share one."""

    values: int = MAX_VALUES
    characters: int = MAX_BYTES
    values_of_text: int = MAX_VALUES


_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = "plain"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}bool": (bool,),
    f"{_TAG}null": (type(None),),
}
"""Types of scalars by their explicit tag."""

_MAYBE_ALIAS: Final = re.compile(r"(?:^|[\s\[{,:\-])\*[^\s\[\]{},*]", re.MULTILINE)


_QUOTE: Final = "put the text into quotes"
_ALIGN: Final = "align this line with the others of its mapping or list, with spaces"
_ADVICE: Final = {
    "found character that cannot start any token": _QUOTE,
    "found a tab character that violates indentation": "indent with spaces instead of tabs",
    "did not find expected '-' indicator": _ALIGN,
    "did not find expected key": _ALIGN,
    "could not find expected ':'": "write a colon and a space behind the key, or correct the indentation",
    "mapping values are not allowed in this context": f"correct the indentation, or {_QUOTE} that has a colon",
    "found unexpected end of stream": "close the quotes or brackets",
    "did not find expected ',' or ']'": "close the bracket, or write a comma between the items",
    "did not find expected ',' or '}'": "close the brace, or write a comma between the entries",
    "found unknown escape character": "use single quotes, in which a backslash has no meaning",
    "did not find expected alphabetic or numeric character": f"{_QUOTE} that begins with * or &",
}
"""Remedies for errors of PyYAML's parser; none contains the word 'is', which separates the field in a message."""


class YamlError(SpecError):
    """The text is not YAML, or Kubernetes does not accept it; ``line`` counts from 1, 0 if unknown."""

    def __init__(self, name: str, problem: str, line: int = 0) -> None:
        super().__init__("YamlInvalid", f"{name}, line {line}: {problem}" if line else f"{name}: {problem}")
        self.problem = problem
        self.line = line


class YamlTooLarge(YamlError):
    """The text exceeds a bound of this module; unlike other problems, this one never quotes the text."""


def _line_of(mark: object) -> int:
    # Two classes of marks, C's and Python's, or None: line -1 makes that 0.
    return int(getattr(mark, "line", -1)) + 1


def _with_advice(problem: str, source: str, mark: object) -> str:
    """Say what to do about a problem in the parser's words."""
    index = getattr(mark, "index", -1)
    if problem == "found character that cannot start any token" and source[index : index + 1] == "\t":
        problem = "found a tab character that violates indentation"
    advice = _ADVICE.get(problem)
    return f"{problem}: {advice}" if advice else problem


class _NotKubernetesError(Exception):
    """A node that has no place in a Kubernetes document."""

    def __init__(self, node: yaml.Node, problem: str, *, too_large: bool = False) -> None:
        super().__init__(problem)
        self.line = _line_of(node.start_mark)
        self.too_large = too_large


class K8sLoader(yaml.CSafeLoader):
    """PyYAML's C parser and composer, leaving the meaning of plain scalars to this module."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:  # noqa: ANN401, ARG002 - PyYAML's signature
        """Mark plain scalars; everything else keeps the tag of its form."""
        if kind is yaml.ScalarNode:
            # ``implicit`` is (plain, quoted) as the C parser passes it.
            return _PLAIN if implicit[0] else f"{_TAG}str"
        return f"{_TAG}seq" if kind is yaml.SequenceNode else f"{_TAG}map"

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:  # noqa: ANN401 - PyYAML's signature
        """Do nothing, which saves a fifth of the time; path resolvers are not used."""

    def ascend_resolver(self) -> None:
        """Do nothing, as ``descend_resolver``."""


def load_all(
    text: str | bytes,
    *,
    name: str = "YAML",
    max_bytes: int = MAX_BYTES,
    max_values: int | ValueBudget = MAX_VALUES,
    unique_keys: bool = True,
    resolve: Resolver = yaml_scalars.resolve,
) -> list[Any]:
    """Parse every document of ``text``; an empty document is None.

    Mappings have string keys only and hold no shared parts, so aliases behave as copies. Bytes must be UTF-8. ``name``
    names the text in messages, e.g. ``metadata.yaml``. An alias counts as its expanded values. Without
    ``unique_keys``, the last of several equal keys counts, as in Helm and kubectl; published charts rely on it.
    ``resolve`` returns the value of a plain scalar; its ValueError becomes a YamlError. ``max_values`` may be the
    budget of several texts together.

    Raises:
        YamlError: Not YAML; a duplicate or null key; infinity or not-a-number; a tag Kubernetes does not know.
        YamlTooLarge: Larger, deeper or with more aliases or values than the bounds.
    """
    budget = max_values if isinstance(max_values, ValueBudget) else ValueBudget(max_values, max_bytes, max_values)
    with _reading(text, name, max_bytes, budget.values_of_text) as loader:
        return _documents(loader, _Builder(budget, resolve, unique_keys=unique_keys))


def load(
    text: str | bytes,
    *,
    name: str = "YAML",
    max_bytes: int = MAX_BYTES,
    max_values: int = MAX_VALUES,
    unique_keys: bool = True,
    resolve: Resolver = yaml_scalars.resolve,
) -> Any:  # noqa: ANN401 - any JSON value
    """Read the one document of ``text`` as ``load_all``; None when there is none."""
    documents = load_all(
        text, name=name, max_bytes=max_bytes, max_values=max_values, unique_keys=unique_keys, resolve=resolve
    )
    if len(documents) > 1:
        raise YamlError(name, f"contains {len(documents)} documents (expected one)")
    return documents[0] if documents else None


def compose(text: str | bytes, *, name: str = "YAML") -> yaml.Node | None:
    """Return the nodes of the one document of ``text`` with their positions; None when there is no document.

    Raises YamlError as ``load_all``, but does not see errors of keys, tags and expanded aliases.
    """
    with _reading(text, name, MAX_BYTES, MAX_VALUES) as loader:
        node: yaml.Node | None = loader.get_single_node()
        return node


@contextmanager
def _reading(text: str | bytes, name: str, max_bytes: int, max_values: int) -> Iterator[K8sLoader]:
    """Open a loader once the bounds are checked, and translate its errors."""
    source = _bounded(text, name, max_bytes)
    try:
        _refuse_bombs(source, name, max_values)
        loader = K8sLoader(source)
        try:
            yield loader
        finally:
            loader.dispose()
    except _NotKubernetesError as error:
        kind = YamlTooLarge if error.too_large else YamlError
        raise kind(name, str(error), error.line) from None
    except yaml.MarkedYAMLError as error:
        problem = _with_advice(error.problem or "not YAML", source, error.problem_mark)
        raise YamlError(name, problem, _line_of(error.problem_mark)) from None
    except yaml.YAMLError as error:
        raise YamlError(name, " ".join(str(error).split())) from None


def _bounded(text: str | bytes, name: str, max_bytes: int) -> str:
    if len(text) > max_bytes:
        raise YamlTooLarge(name, f"is larger than {max_bytes} bytes")
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise YamlError(name, f"is not UTF-8 at byte {error.start}") from None


def _refuse_bombs(source: str, name: str, max_values: int) -> None:
    """Bound depth, aliases and values before anything is composed; the events of a text take constant memory."""
    if _looks_harmless(source, max_values):
        return
    depth = aliases = nodes = 0
    for event in yaml.parse(source, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            continue
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
            depth += isinstance(event, yaml.CollectionStartEvent)
            aliases += isinstance(event, yaml.AliasEvent)
        if depth > MAX_DEPTH:
            raise YamlTooLarge(name, f"nests deeper than {MAX_DEPTH} levels", _line_of(event.start_mark))
        if aliases > MAX_ALIASES:
            raise YamlTooLarge(name, f"has more than {MAX_ALIASES} aliases", _line_of(event.start_mark))
        if nodes > 2 * max_values:  # keys are nodes, but no values
            raise YamlTooLarge(name, f"has more than {max_values} values", _line_of(event.start_mark))


def _looks_harmless(source: str, max_values: int) -> bool:
    """Decide by counting characters; most texts pass, and only for the others events are counted, which costs more."""
    flows = source.count("[") + source.count("{")
    if flows >= _PLAIN_FLOWS or _has_deep_block(source):
        return False
    # Each of these characters begins at most so many nodes, empty ones included.
    nodes = 2 * (flows + source.count(",") + source.count("-")) + 3 * (source.count(":") + source.count("?"))
    if nodes >= 2 * max_values:
        return False
    return "*" not in source or len(list(islice(_MAYBE_ALIAS.finditer(source), MAX_ALIASES + 1))) <= MAX_ALIASES


def _has_deep_block(source: str) -> bool:
    # A run twice as long as a piece covers a whole piece, wherever it begins and whatever ends its line.
    starts = range(0, len(source) - _PLAIN_BLOCK + 1, _PLAIN_BLOCK)
    return any(not source[start : start + _PLAIN_BLOCK].strip(_INDENTATION) for start in starts)


def _documents(loader: K8sLoader, builder: _Builder) -> list[Any]:
    documents = []
    while loader.check_node():
        node = loader.get_node()
        documents.append(None if node is None else builder.value(node, 0))
    return documents


class _Builder:
    """Turns composed nodes into JSON values, within ``budget`` and ``MAX_DEPTH``."""

    def __init__(self, budget: ValueBudget, resolve: Resolver, *, unique_keys: bool) -> None:
        self._resolve = resolve
        self._max_values = min(budget.values_of_text, budget.values)
        self._budget = budget
        self._left_to_others = budget.values - self._max_values
        self._unique_keys = unique_keys

    def value(self, node: yaml.Node, depth: int) -> Any:  # noqa: ANN401 - any JSON value
        self._spend(1, node)
        if depth > MAX_DEPTH:
            problem = f"nests deeper than {MAX_DEPTH} levels, or an alias holds itself"
            raise _NotKubernetesError(node, problem, too_large=True)
        if isinstance(node, yaml.ScalarNode):
            self._spend(0, node, characters=len(node.value))
            return _scalar(node, self._resolve)
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, depth + 1)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(item, depth + 1) for item in node.value]
        raise _NotKubernetesError(node, f"tag {node.tag} is not known to Kubernetes")

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        merges: list[dict[str, Any]] = []
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                merges.append(self._merged(value_node, depth))
                continue
            key = _key(key_node, self._resolve)
            self._spend(0, key_node, characters=len(key))
            if key in own and self._unique_keys:
                raise _NotKubernetesError(key_node, f"key {key!r} is a duplicate")
            own[key] = self.value(value_node, depth)
        return _first_wins(merges) | own if merges else own

    def _merged(self, node: yaml.Node, depth: int) -> dict[str, Any]:
        """The first mapping of a list wins, as the merge key's specification says."""
        sources = []
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                raise _NotKubernetesError(source, "a merge key takes a mapping or a list of mappings")
            sources.append(self.value(source, depth))
        result = _first_wins(sources)
        self._spend(len(result), node)  # merge keys in merge keys copy the same entries at every level
        return result

    def _spend(self, values: int, node: yaml.Node, characters: int = 0) -> None:
        self._budget.values -= values
        self._budget.characters -= characters
        if self._budget.values < self._left_to_others:
            problem = f"has more than {self._max_values} values once its aliases are expanded"
            raise _NotKubernetesError(node, problem, too_large=True)
        if self._budget.characters < 0:
            raise _NotKubernetesError(node, "is too large once its aliases are expanded", too_large=True)


def _first_wins(mappings: list[dict[str, Any]]) -> dict[str, Any]:
    """Unite mappings with one copy of each entry, however many mappings there are."""
    result: dict[str, Any] = {}
    for mapping in reversed(mappings):
        result.update(mapping)
    return result


def _key(node: yaml.Node, resolve: Resolver) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _NotKubernetesError(node, "a key is a list or mapping; quote it to make it a string")
    try:
        return yaml_scalars.key_text(_scalar(node, resolve), node.value)
    except ValueError as error:
        raise _NotKubernetesError(node, str(error)) from None


def _scalar(node: yaml.ScalarNode, resolve: Resolver) -> yaml_scalars.Scalar:
    text: str = node.value
    if node.tag == f"{_TAG}str":
        return text
    try:
        value = resolve(text) if node.tag == _PLAIN else yaml_scalars.resolve(text)
    except ValueError as error:
        raise _NotKubernetesError(node, str(error)) from None
    if node.tag == _PLAIN:
        return value
    if node.tag not in _TYPES:
        raise _NotKubernetesError(node, f"tag {node.tag} is not known to Kubernetes")
    if type(value) not in _TYPES[node.tag]:
        raise _NotKubernetesError(node, f"{text[:60]!r} is no {node.tag.removeprefix(_TAG)}")
    return value


class _Dumper(yaml.CSafeDumper):
    """Plain only where both this loader and other YAML readers see the same value."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - PyYAML's signature
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{_TAG}str", text, style="|" if "\n" in text.strip() else None)


_Dumper.add_representer(str, _represent_text)
# PyYAML asks these before it leaves quotes away; its own table (dates, 22:22, =) stays for other readers of the file.
for _tag, _pattern in (
    ("bool", re.compile("|".join(f"^{word}$" for word in yaml_scalars.BOOLS))),
    ("int", re.compile(f"^(?:{yaml_scalars.INT.pattern})$")),
    ("float", re.compile(f"^(?:{yaml_scalars.FLOAT.pattern})$")),
    ("float", re.compile(f"^(?:{yaml_scalars.NOT_FINITE.pattern})$")),
):
    _Dumper.add_implicit_resolver(f"{_TAG}{_tag}", _pattern, None)


def dump(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Write a JSON value as YAML for people: block style, keys in their order, no aliases.

    Strings that a YAML 1.1 reader would take for something else are quoted; ``load`` gives the document back.
    """
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120)
