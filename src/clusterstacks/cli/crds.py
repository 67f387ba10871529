"""``csctl crds``: the CustomResourceDefinitions of the operator's kinds."""

from __future__ import annotations

import click


@click.command(short_help="Print the CustomResourceDefinitions.")
def crds() -> None:
    """Print the CustomResourceDefinitions of the operator's kinds as YAML.

    Install or update them with 'csctl crds | kubectl apply --server-side --force-conflicts -f -'. Definitions of an
    older version, or of the Go operator, drop fields that the operator writes.
    """
    from clusterstacks.api import yaml
    from clusterstacks.api.crd_manifests import all_crds

    click.echo("---\n".join(yaml.dump(crd) for crd in all_crds()), nl=False)
