"""The man page of csctl, from its verbs; ``make docs`` writes it to docs/man, and the wheel installs it."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.main import csctl
from clusterstacks.csctl.shared.output import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_UNWRAPPED = "\b"
"""Click keeps the lines of a paragraph that begins with this character."""


def man_page() -> str:
    """Return the page in the macros of man(7)."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield '.\\" Written by docs/generate.py; edit the code and run `make docs`.'
    yield f'.TH CSCTL 1 "" "cluster\\-stacks {version("cluster-stacks")}" "User Commands"'
    yield ".SH NAME"
    yield "csctl \\- build, test and deliver cluster stacks for Cluster API"
    yield ".SH SYNOPSIS"
    yield ".B csctl\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGS\\fR]..."
    yield ".SH DESCRIPTION"
    yield from _paragraphs(csctl.help or "")
    yield "kubectl runs the same program as \\fBkubectl clusterstacks\\fR."
    yield ".SH OPTIONS"
    context = click.Context(csctl, info_name="csctl", **csctl.context_settings)
    listed = _options(csctl.get_params(context), context)
    everywhere = {name for name, _ in listed}
    yield from _option_list(listed)
    yield ".SH COMMANDS"
    for verb in csctl.list_commands(context):
        yield from _command(verb, csctl.get_command(context, verb), everywhere)
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield f".TP\n.B {code}\n{_text(meaning)}"


def _command(path: str, command: click.Command | None, without: set[str]) -> Iterator[str]:
    if command is None or command.hidden:
        return
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_text(path)} {_text(usage)}"
    yield from _paragraphs(command.help or "")
    # Without the option --help, whose names depend on the first use of a command in this process.
    listed = _options(command.params, context)
    yield from _option_list([one for one in listed if one[0] not in without])
    for line in (command.epilog or "").splitlines():
        if line.strip().startswith("csctl"):
            yield f".PP\n.RS\n.nf\n{_text(line.strip())}\n.fi\n.RE"
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            yield from _command(f"{path} {name}", command.get_command(context, name), without)


def _option_list(options: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in options:
        yield f".TP\n.B {_text(name)}\n{_text(text)}"


def _options(parameters: Iterable[click.Parameter], context: click.Context) -> list[tuple[str, str]]:
    records = (one.get_help_record(context) for one in parameters)
    return [(name, " ".join(text.split())) for name, text in filter(None, records)]


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines[:1] == [_UNWRAPPED]:
            yield "\n".join((".PP", ".nf", *map(_text, lines[1:]), ".fi"))
        else:
            yield f".PP\n{_text(' '.join(lines))}"


def _text(text: str) -> str:
    """Escape backslashes and dashes, and what looks like a request at the beginning of a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
