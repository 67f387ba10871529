"""``csctl crds``: print the CustomResourceDefinitions of the operator."""

from __future__ import annotations

import click


@click.command(short_help="Print the CustomResourceDefinitions.")
def crds() -> None:
    """Print the CustomResourceDefinitions of the operator as YAML.

    Install or update them with 'csctl crds | kubectl apply --server-side --force-conflicts -f -'. With the definitions
    of an older version, or of the Go operator, the API server drops fields that the operator writes.
    """
    from clusterstacks.model import yaml
    from clusterstacks.model.kinds.crd_manifests import all_crds

    click.echo("---\n".join(yaml.dump(crd) for crd in all_crds()), nl=False)
