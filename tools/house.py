"""Measure how the source is cut and worded: ``make house``. A mirror for people, not a gate.

``python -m tools.house`` prints the table, ``python -m tools.house NAME`` what one measure counts.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import grimp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

N = TypeVar("N", bound=ast.AST)

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "clusterstacks"

SMALL_MODULE = 60
"""Lines below which a module with one importer is a section of that importer."""
SMALL_FUNCTION = 4
LONG_FUNCTION = 60
FEW_WORDS = 4
"""Words from which on a text is counted as a message."""

HEADLESS = re.compile(r"^(What|Who|Whom|Whose|Which|Where|Whether|How)\b")
ODD = re.compile(
    r"(?<!\b[Tt]here )"
    r"\b(is no|are no|nobody|somebody|whoever|told|the way out|from then on|such a one|lies|stands)\b(?! longer)"
)
SAME_KIND = {
    "__init__", "__main__", "client", "errors", "main", "messages", "names", "reconciler", "registration", "settings",
}  # fmt: skip
"""Names that modules of several packages share because they are the same kind of thing."""


@dataclass(frozen=True)
class Module:
    """One parsed source file."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def stem(self) -> str:
        return self.name.rsplit(".", 1)[-1]

    def nodes(self, kind: type[N]) -> Iterator[N]:
        return (node for node in ast.walk(self.tree) if isinstance(node, kind))

    @property
    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        yield from self.nodes(ast.FunctionDef)
        yield from self.nodes(ast.AsyncFunctionDef)

    @cached_property
    def docstrings(self) -> dict[int, str]:
        """Docstrings by the id of their node, those below an assignment included."""
        found = {}
        for statement in self.nodes(ast.Expr):
            if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                found[id(statement.value)] = statement.value.value
        return found

    @cached_property
    def messages(self) -> list[str]:
        """Texts of several words that are no docstrings."""
        texts = (
            node.value
            for node in self.nodes(ast.Constant)
            if isinstance(node.value, str) and id(node) not in self.docstrings
        )
        return [text for text in texts if len(text.split()) >= FEW_WORDS]


@dataclass(frozen=True)
class House:
    """All modules of the package and their imports."""

    modules: dict[str, Module]

    @classmethod
    def read(cls) -> House:
        found = {}
        for path in sorted((SOURCE / PACKAGE).rglob("*.py")):
            parts = path.relative_to(SOURCE).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = Module(name, path.read_text())
        return cls(found)

    @cached_property
    def graph(self) -> grimp.ImportGraph:
        return grimp.build_graph(PACKAGE, cache_dir=None)

    def small_with_one_importer(self) -> list[str]:
        return [
            f"{name} ({module.lines} lines) <- {next(iter(importers))}"
            for name, module in self.modules.items()
            if module.lines < SMALL_MODULE
            and module.stem != "__main__"
            and len(importers := self.graph.find_modules_that_directly_import(name)) == 1
            and not next(iter(importers)).endswith("cli.main")
        ]

    def repeated_classes(self) -> list[str]:
        homes = defaultdict(list)
        for name, module in self.modules.items():
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(name)
        return [f"{name}: {', '.join(where)}" for name, where in sorted(homes.items()) if len(where) > 1]

    def repeated_stems(self) -> list[str]:
        packages = {name.rpartition(".")[0] for name in self.modules}
        homes = defaultdict(list)
        for name, module in self.modules.items():
            if name not in packages and module.stem not in SAME_KIND:
                homes[module.stem].append(name)
        return [f"{stem}: {', '.join(where)}" for stem, where in sorted(homes.items()) if len(where) > 1]

    def short_functions_called_once(self) -> list[str]:
        found = []
        for name, module in self.modules.items():
            used = Counter(re.findall(r"\b_[a-z]\w*", module.text))
            for node in module.functions:
                private = node.name.startswith("_") and not node.name.startswith("__")
                if private and used[node.name] == 2 and _length(node) < SMALL_FUNCTION and not node.decorator_list:
                    found.append(f"{name}.{node.name}")
        return found

    def long_functions(self) -> list[str]:
        return [
            f"{name}.{node.name} ({lines} lines)"
            for name, module in self.modules.items()
            for node in module.functions
            if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > LONG_FUNCTION
        ]

    def dataclasses_without_method(self) -> list[str]:
        return [
            f"{name}.{node.name}"
            for name, module in self.modules.items()
            for node in module.nodes(ast.ClassDef)
            if any("dataclass" in ast.unparse(one) for one in node.decorator_list)
            and not any(isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) for one in node.body)
        ]

    def protocols(self) -> list[str]:
        return [
            f"{name}.{node.name}"
            for name, module in self.modules.items()
            for node in module.nodes(ast.ClassDef)
            if any("Protocol" in ast.unparse(base) for base in node.bases)
        ]

    def odd_docstrings(self) -> list[str]:
        return [
            f"{name}: {(text.count(chr(10), 0, found.start()) and '... ') or ''}{text[found.start() :].splitlines()[0]}"
            for name, module in self.modules.items()
            for text in module.docstrings.values()
            if (found := HEADLESS.search(text) or ODD.search(text))
        ]

    def odd_messages(self) -> list[str]:
        return [
            f"{name}: {text}" for name, module in self.modules.items() for text in module.messages if ODD.search(text)
        ]


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


MEASURES: dict[str, tuple[str, Callable[[House], list[str]]]] = {
    "small": (f"modules below {SMALL_MODULE} lines with one importer", House.small_with_one_importer),
    "classes": ("class names used twice or more", House.repeated_classes),
    "stems": ("module names used twice or more", House.repeated_stems),
    "once": (f"private functions called once, below {SMALL_FUNCTION} lines", House.short_functions_called_once),
    "long": (f"functions above {LONG_FUNCTION} lines", House.long_functions),
    "dataclasses": ("dataclasses without a method", House.dataclasses_without_method),
    "protocols": ("protocols (each wants two implementations)", House.protocols),
    "docstrings": ("docstrings without a head or with odd words", House.odd_docstrings),
    "messages": ("messages with odd words", House.odd_messages),
}


def table(house: House) -> Iterator[str]:
    """Yield the lines of the table."""
    sizes = sorted(module.lines for module in house.modules.values())
    yield f"{len(sizes):6} modules, {sum(sizes)} lines"
    p90 = sizes[len(sizes) * 9 // 10]
    yield f"{statistics.median(sizes):6.0f} lines in the median module, {p90} p90, {sizes[-1]} max"
    docstrings = sum(len(module.docstrings) for module in house.modules.values())
    messages = sum(len(module.messages) for module in house.modules.values())
    of = {"docstrings": docstrings, "messages": messages}
    for name, (about, measure) in MEASURES.items():
        count = len(measure(house))
        share = f" of {of[name]} ({count / of[name]:.0%})" if name in of else ""
        yield f"{count:6} {about}{share}   [{name}]"


def main() -> None:
    """Print the table, or what the named measures count."""
    house = House.read()
    names = sys.argv[1:]
    if unknown := set(names) - set(MEASURES):
        sys.exit(f"unknown measure {', '.join(sorted(unknown))}: choose from {', '.join(MEASURES)}")
    for line in (line for name in names for line in MEASURES[name][1](house)) if names else table(house):
        print(line)  # noqa: T201 - it is what the command is for


if __name__ == "__main__":
    main()
