"""Measure how large the source is, how it is cut and how it is worded: ``make house``.

A mirror for people, not a gate. ``python -m tools.house`` prints the table, ``python -m tools.house NAME`` what one
measure counts. Print the table before and after a change. ``delivery`` is not in the table, because it runs a test
against real API servers.
"""

from __future__ import annotations

import ast
import builtins
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import grimp

from clusterstacks.csctl.verb_table import VERBS

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

SECTION = re.compile(r"^( *)(Args|Raises):\n(?:\1 .*(?:\n|$)|\n(?=\1 ))*", re.MULTILINE)
OPERATOR_START = "import clusterstacks.operator.startup, clusterstacks.operator.webhook_wiring"
"""What ``cluster-stack-operator`` imports at its start; other modules are loaded with the source that needs them."""
DELIVERY = "tests/integration/controllers/test_main_path.py::test_cluster_gets_the_addons_of_its_class"

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

    @cached_property
    def code_lines(self) -> int:
        """Lines that are not blank, no comment and no docstring."""
        lines = enumerate(map(str.strip, self.text.splitlines()), 1)
        return sum(bool(line) and line[0] != "#" and number not in self.docstring_lines for number, line in lines)

    @cached_property
    def docstring_lines(self) -> set[int]:
        """Numbers of the lines of docstrings."""
        docstrings = (node.value for node in self.nodes(ast.Expr) if id(node.value) in self.docstrings)
        return {line for one in docstrings for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}

    def section_lines(self, name: str) -> int:
        """Lines of the sections of docstrings with a name, ``Args`` or ``Raises``."""
        return sum(
            found[0].strip().count("\n") + 1
            for text in self.docstrings.values()
            for found in SECTION.finditer(text)
            if found[2] == name
        )

    @property
    def room(self) -> str:
        return [*self.name.split("."), ""][1]

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

    def rooms(self) -> list[str]:
        rooms = defaultdict(list)
        for module in self.modules.values():
            rooms[module.room].append(module.code_lines)
        return [f"{room}: {len(lines)} modules, {sum(lines)} code lines" for room, lines in rooms.items() if room]

    def arrows(self) -> list[str]:
        imports = (
            (module.room, self.modules[imported].room)
            for name, module in self.modules.items()
            for imported in self.graph.find_modules_directly_imported_by(name)
        )
        return [f"{room} -> {imported}" for room, imported in sorted(set(imports)) if room != imported]

    def exceptions(self) -> list[str]:
        bases: defaultdict[str, set[str]] = defaultdict(set)
        for module in self.modules.values():
            for node in module.nodes(ast.ClassDef):
                bases[node.name] |= {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        known = {
            name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)
        }
        found: set[str] = set()
        while more := {name for name, of in bases.items() if of & (known | found)} - found:
            found |= more
        return sorted(found)

    def arbitrary_numbers(self) -> list[str]:
        return [
            f"{name}:{number}: {line.strip()}"
            for name, module in self.modules.items()
            for number, line in enumerate(module.text.splitlines(), 1)
            for _ in re.findall(r"\barbitrary\b", line, re.IGNORECASE)
        ]

    def operator_modules(self) -> list[str]:
        code = f"{OPERATOR_START}; import sys; print(*sorted(sys.modules))"
        loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        return [name for name in loaded.stdout.split() if name in self.modules]

    def delivery_modules(self) -> list[str]:
        test = [sys.executable, "-m", "pytest", "-p", "tests.support.observing.entered_modules", DELIVERY, "-n", "0"]
        run = subprocess.run(test, check=True, capture_output=True, text=True)
        return [name for name in run.stdout.split() if name in self.modules]

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
    "rooms": ("rooms: packages directly below the top", House.rooms),
    "arrows": ("arrows: pairs of rooms of which one imports the other", House.arrows),
    "exceptions": ("exception classes", House.exceptions),
    "arbitrary": ("numbers commented as arbitrary", House.arbitrary_numbers),
    "operator": ("modules loaded by the operator at its start", House.operator_modules),
    "delivery": ("modules entered between the creation of a Cluster and its ready addons", House.delivery_modules),
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
    modules = house.modules.values()
    sizes = sorted(module.lines for module in modules)
    yield f"{sum(module.code_lines for module in modules):6} code lines of {sum(sizes)} lines in {len(sizes)} modules"
    p90 = sizes[len(sizes) * 9 // 10]
    yield f"{statistics.median(sizes):6.0f} lines in the median module, {p90} p90, {sizes[-1]} max"
    sections = ", ".join(
        f"{sum(module.section_lines(name) for module in modules)} {name}" for name in ("Args", "Raises")
    )
    yield f"{sum(len(module.docstring_lines) for module in modules):6} docstring lines: {sections}"
    yield f"{len(VERBS):6} verbs of csctl"
    docstrings = sum(len(module.docstrings) for module in modules)
    messages = sum(len(module.messages) for module in modules)
    of = {"docstrings": docstrings, "messages": messages}
    for name, (about, measure) in MEASURES.items():
        if name == "delivery":
            continue
        counted = measure(house)
        count = len(counted)
        share = f" of {of[name]} ({count / of[name]:.0%})" if name in of else ""
        code = f", {sum(house.modules[one].code_lines for one in counted)} code lines" if name == "operator" else ""
        yield f"{count:6} {about}{share}{code}   [{name}]"


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
