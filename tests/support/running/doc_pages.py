"""Pages of the documentation as their readers use them: commands in their order, in one shell, and what they print.

A page's commands are its ``console`` blocks; the ``text`` blocks up to the next of them are what it shows of their
output, shortened by ``...``: a line of it stands for any lines, within a line it stands for any text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev.binaries import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHECKOUT = Path(__file__).parents[3]
DOCS = CHECKOUT / "docs"
README = "../README.md"
VERSION = version("cluster-stacks")
"""Also of the commands of pages: 'make release' writes it into them."""
INSTALLATION = "Install the operator"
"""Section of README: one block builds the image, one pushes it, and the last one installs the operator."""
CUT = "..."
NO = ("denied the request", "There is no plan")
"""What a page shows of commands that do not succeed."""


def environ_of_reader(kubeconfig: Path) -> dict[str, str]:
    """Return the variables of a reader who has csctl, kubectl and a kubeconfig."""
    programs = [str(Path(sys.executable).parent), str(resolve(["kubectl"])["kubectl"].path.parent), os.environ["PATH"]]
    return {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": os.pathsep.join(programs)}


def checkout_of_reader(directory: Path) -> Path:
    """Make a checkout of links: a page's commands find all files there, and what they write is not in the real one."""
    directory.mkdir()
    for path in CHECKOUT.iterdir():
        if path.name not in (".git", "dist"):
            (directory / path.name).symlink_to(path)
    return directory


_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_BETWEEN = "=== the next block of the page ==="


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of a page.

    Args:
        commands: What the reader types.
        shown: What the page shows of the output; empty for nothing.
    """

    commands: str
    shown: str = ""

    @property
    def script(self) -> str:
        """The commands, of which the last one must fail where the page shows that it does."""
        if not any(word in self.shown for word in NO):
            return self.commands
        return f"set +e\n{self.commands}test $? -ne 0 || exit 98\nset -e\n"


@dataclass(frozen=True, slots=True)
class Page:
    """A page's commands.

    Args:
        blocks: In the page's order.
        others: The content of all other blocks, by their language.
    """

    blocks: tuple[Block, ...]
    others: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, path: str, replaced: Mapping[str, str] | None = None, *, section: str = "") -> Page:
        """Read a page.

        Args:
            path: Below ``docs``.
            replaced: What a reader writes instead of the page's example values; each must be on the page.
            section: Read only the section with this heading of the second level.
        """
        text = (DOCS / path).read_text()
        if section:
            _, found, below = text.partition(f"\n## {section}\n")
            assert found, f"{path} no longer has the section {section}"
            text = below.partition("\n## ")[0]
        for example, own in (replaced or {}).items():
            assert example in text, f"{path} no longer has {example}"
            text = text.replace(example, own)
        blocks: list[Block] = []
        others: dict[str, list[str]] = {}
        for indent, language, inner in _BLOCK.findall(text):
            content = re.sub(f"^{indent}", "", inner, flags=re.MULTILINE)
            if language == "console":
                blocks.append(Block(content))
            elif language == "text" and blocks:
                blocks[-1] = Block(blocks[-1].commands, blocks[-1].shown + content)
            else:
                others.setdefault(language, []).append(content)
        return cls(tuple(blocks), others)

    def part(self, blocks: Sequence[Block]) -> Page:
        """Take some of the blocks, for tests that have work of their own between them."""
        return replace(self, blocks=tuple(blocks))

    def run(self, directory: Path, environ: Mapping[str, str], *, seconds: float = 250) -> tuple[str, ...]:
        """Run all commands in one shell, as a reader does who stops at the first one that fails.

        Returns:
            What each block printed, both streams together; what the page shows of it is true.
        """
        script = "".join(f"\necho '{_BETWEEN}'\n{block.script}" for block in self.blocks)
        done = subprocess.run(
            ["bash", "-euc", f"exec 2>&1{script}"],
            cwd=directory,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        printed = done.stdout.split(f"{_BETWEEN}\n")[1:]
        assert done.returncode == 0, f"{self.blocks[len(printed) - 1].commands}\n{printed[-1]}"
        for block, text in zip(self.blocks, printed, strict=True):
            assert shows(block.shown, text), f"{block.commands}\nthe page shows:\n{block.shown}\nbut it is:\n{text}"
        return tuple(printed)


def shows(excerpt: str, text: str) -> bool:
    """Tell whether an excerpt is of a text: all its lines, one behind the other, where nothing is cut out."""
    return re.search(_pattern(excerpt), text, re.MULTILINE) is not None


def _pattern(excerpt: str) -> str:
    parts = []
    for line in excerpt.splitlines():
        if line.strip() == CUT:
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append("^" + ".*".join(re.escape(part) for part in line.rstrip().split(CUT)) + r"[ \t]*(?:\n|\Z)")
    return "".join(parts)
