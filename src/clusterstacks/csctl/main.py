"""Entry point of ``csctl``."""

from __future__ import annotations

import atexit
import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import accept_global_options, global_options
from clusterstacks.csctl.verb_table import GROUPS, VERBS
from clusterstacks.csctl.verbs.completion import prepare_completion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

COLLECTED_OBJECTS = 50_000
"""New objects after which garbage is collected: as many as the imports of a verb create."""


def _add_examples(command: click.Command, verb: str, examples: Sequence[str]) -> None:
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            _add_examples(one, verb, [example for example in examples if example.split()[0] == name])
    if not command.epilog:
        command.epilog = "\n".join(("\b", "Examples:", *(f"  csctl {verb} {one}".rstrip() for one in examples)))


class Verbs(click.Group):
    """A group that imports the module of a verb only when it is called, so that the list of verbs is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the verbs."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a verb."""
        if cmd_name not in VERBS:
            return None
        module = import_module(VERBS[cmd_name].module)
        command: click.Command = vars(module)[cmd_name.replace("-", "_")]
        _add_examples(command, cmd_name, VERBS[cmd_name].examples)
        return accept_global_options(command)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete verbs without importing them, and the options of csctl."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(one, help=VERBS[one].title) for one in sorted(VERBS) if one.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb; for an unknown verb, raise an error with a suggestion."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from clusterstacks.csctl.verb_table import suggestion

            raise click.UsageError(f"there is no verb {args[0]!r}: {suggestion(args[0], VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the verbs by what a user does."""
        longest = max(map(len, VERBS))
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(longest), VERBS[verb].title) for verb in verbs])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]}, params=global_options())
@click.version_option(package_name="cluster-stacks", prog_name="csctl")
def csctl() -> None:
    """Build, test and deliver cluster stacks for Cluster API."""


def main() -> None:
    """Run ``csctl`` with the arguments of this process."""
    # What the imports create lives until the end of the process, which takes a fraction of a second for most verbs:
    # collections in between, and that of the interpreter's end, would take a quarter of it and find almost nothing.
    gc.set_threshold(COLLECTED_OBJECTS)
    atexit.register(gc.freeze)
    prepare_completion()
    sys.exit(output.run(lambda: csctl.main(prog_name=output.called_name(), standalone_mode=False)))


if __name__ == "__main__":
    main()
