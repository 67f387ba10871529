"""The entry point of ``csctl`` and its list of verbs."""

from __future__ import annotations

import sys

import click

from clusterstacks.cli import output
from clusterstacks.cli.demo import demo
from clusterstacks.cli.dev import dev


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cluster-stacks", prog_name="csctl")
def csctl() -> None:
    """Build, try and deliver cluster stacks for Cluster API."""


csctl.add_command(demo)
csctl.add_command(dev)


def main() -> None:
    """Run ``csctl`` with the arguments of this process."""
    sys.exit(output.run(lambda: csctl.main(prog_name="csctl", standalone_mode=False)))


if __name__ == "__main__":
    main()
