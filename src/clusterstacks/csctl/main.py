"""Entry point of ``csctl``, and the list of its verbs."""

from __future__ import annotations

import atexit
import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.help_texts import EXAMPLES
from clusterstacks.csctl.shared.options import accept_global_options, global_options
from clusterstacks.csctl.verbs.completion import prepare_completion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

VERBS = {
    "compat": ("clusterstacks.csctl.verbs.compat", "Show which versions work together."),
    "completion": ("clusterstacks.csctl.verbs.completion", "Print the completion script of a shell."),
    "copy": ("clusterstacks.csctl.verbs.copy", "Copy releases to another registry or a directory."),
    "crds": ("clusterstacks.csctl.verbs.crds", "Print the CustomResourceDefinitions."),
    "create": ("clusterstacks.csctl.verbs.create", "Build releases of stacks, and publish them."),
    "demo": ("clusterstacks.dev.verbs.demo", "Show releases, clusters and upgrades in a local environment."),
    "dev": ("clusterstacks.dev.verbs.dev", "Run Cluster API and the operator on this machine."),
    "diff": ("clusterstacks.csctl.verbs.diff", "Show the differences of two stacks or releases."),
    "drift": ("clusterstacks.csctl.verbs.cluster_drift", "Show addon objects that differ from what was delivered."),
    "explain": ("clusterstacks.csctl.verbs.explain", "Explain a condition or reason."),
    "hash": ("clusterstacks.csctl.verbs.hash", "Print the hashes of a stack directory."),
    "help": ("clusterstacks.csctl.help", "Print the help of csctl or of a verb."),
    "history": ("clusterstacks.csctl.verbs.history", "List what each delivery to a Cluster changed."),
    "index": ("clusterstacks.csctl.verbs.index", "Write the index of a directory of releases."),
    "init": ("clusterstacks.csctl.verbs.init", "Write a new stack."),
    "install": ("clusterstacks.csctl.verbs.install", "Install the operator, or check a management cluster."),
    "lint": ("clusterstacks.csctl.verbs.lint", "Report problems of a stack."),
    "list": ("clusterstacks.csctl.verbs.listing", "List the releases in a repository."),
    "login": ("clusterstacks.csctl.verbs.login", "Log in to a registry."),
    "logout": ("clusterstacks.csctl.verbs.login", "Remove the login of a registry."),
    "plan": ("clusterstacks.csctl.verbs.plan", "Plan an upgrade step by step."),
    "pull": ("clusterstacks.csctl.verbs.pull", "Download a release."),
    "push": ("clusterstacks.csctl.verbs.push", "Push a release to a registry."),
    "reconcile": (
        "clusterstacks.csctl.verbs.cluster_actions",
        "Compare and restore the addon objects of a Cluster now.",
    ),
    "resume": ("clusterstacks.csctl.verbs.cluster_actions", "Continue the delivery of the addons of a Cluster."),
    "schemas": ("clusterstacks.csctl.verbs.schemas", "Write JSON schemas for editors."),
    "sign": ("clusterstacks.csctl.verbs.sign", "Sign a release."),
    "status": ("clusterstacks.csctl.verbs.status", "List Clusters, or describe the state of one."),
    "suspend": ("clusterstacks.csctl.verbs.cluster_actions", "Pause the delivery of the addons of a Cluster."),
    "template": ("clusterstacks.csctl.verbs.template", "Print the rendered objects of a stack or release."),
    "ui": ("clusterstacks.csctl.verbs.ui", "Show clusters and releases in a browser."),
    "uninstall": ("clusterstacks.csctl.verbs.uninstall", "Remove the operator from a management cluster."),
    "verify": ("clusterstacks.csctl.verbs.verify", "Verify the signatures of a release."),
    "version": ("clusterstacks.csctl.verbs.version", "Print the versions of csctl, operator and management cluster."),
    "why": ("clusterstacks.csctl.verbs.why", "Explain why an upgrade is refused, and what to do first."),
}
"""Module and short help of each verb; the command has the name of the verb."""

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
        module = import_module(VERBS[cmd_name][0])
        command: click.Command = vars(module)[cmd_name]
        _add_examples(command, cmd_name, EXAMPLES[cmd_name])
        return accept_global_options(command)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete verbs without importing them, and the options of csctl."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(one, help=VERBS[one][1]) for one in sorted(VERBS) if one.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb; for an unknown verb, raise an error with a suggestion."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from clusterstacks.csctl.shared.help_texts import suggestion

            raise click.UsageError(f"there is no verb {args[0]!r}: {suggestion(args[0], VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the list of verbs."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, VERBS[verb][1]) for verb in sorted(VERBS)])


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
