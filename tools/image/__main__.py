"""``python -m tools.image``: build the container image and the wheel, and push the image into a registry."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from clusterstacks.csctl.shared.options import FILE
from clusterstacks.csctl.shared.registry_options import ServerTrust, open_registry, trust_options
from clusterstacks.csctl.verbs.sign import PASSWORD_VARIABLE
from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.net.oci.reference import Reference
from clusterstacks.release.release_source import SIGNATURE_SUFFIX
from clusterstacks.release.signing.envelope import Envelope
from clusterstacks.release.signing.keys import PrivateKey, parse_private_key
from clusterstacks.release.sources.signature_store import read_key_file
from tools.image.building import ARCHITECTURES, beside, build, build_wheel
from tools.image.pushing import Stored, open_layout, push
from tools.image.signatures import attest, sign

LAYOUT = Path("dist/image")
WHEELS = Path("dist/wheel")


@click.group(help="Build the container image of the operator without docker, and push it.")
def main() -> None:
    """Entry point."""


@main.command("build", short_help="Build the image as an OCI image layout.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=LAYOUT)
@click.option("--arch", "architectures", multiple=True, type=click.Choice(ARCHITECTURES), help="Default: all.")
@click.option("--mirror", "mirrors", multiple=True, metavar="URL|LINE", help="Default: Debian's own servers.")
def build_command(folder: Path, architectures: tuple[str, ...], mirrors: tuple[str, ...]) -> None:
    """Build the image into FOLDER, by default dist/image.

    The same commit and the same Debian packages give the same digest.
    """
    built = build(architectures or ARCHITECTURES, folder, mirrors, click.echo)
    for architecture, size in built.sizes.items():
        click.echo(f"{architecture}: {size / 1e6:.1f} MB compressed")
    click.echo(f"SBOM: {built.components} components")
    click.echo(f"{folder}: {built.digest}")


@main.command("wheel", short_help="Build the wheel with its SBOM and provenance.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=WHEELS)
@click.option("--key", type=FILE, help="Sign SBOM and provenance with this private key.")
def wheel_command(folder: Path, key: Path | None) -> None:
    """Build the wheel into FOLDER, by default dist/wheel, with its SBOM and provenance beside it.

    With a key, both are also written as signed envelopes, which 'csctl verify' and cosign verify.
    """
    private = _private_key(key)
    wheel = build_wheel(folder)
    click.echo(f"{wheel}: {sha256_digest(wheel.read_bytes())}")
    if private is not None:
        for what in ("sbom", "provenance"):
            statement = beside(wheel, f"{what}.json").read_bytes()
            beside(wheel, f"{what}{SIGNATURE_SUFFIX}").write_bytes(Envelope(statement).signed(private).text())
        click.echo(f"signed by {private.public.name} ({private.public.short})")


@main.command("push", short_help="Push the image, its SBOM and its provenance into a registry.")
@click.argument("reference", metavar="REGISTRY/REPOSITORY[:TAG]")
@click.option("--layout", type=click.Path(path_type=Path), default=LAYOUT, help="Default: dist/image.")
@click.option("--key", type=FILE, help="Sign image, SBOM and provenance with this private key, as cosign does.")
@trust_options
def push_command(trust: ServerTrust, reference: str, layout: Path, key: Path | None) -> None:
    """Push the image that 'make image' built, with SBOM and provenance. Without TAG the tag is the project's version.

    Credentials: those of docker or podman login, or OCI_USERNAME and OCI_PASSWORD for the registry OCI_REGISTRY. The
    password of a protected key comes from CSCTL_KEY_PASSWORD.
    """
    stored, target = open_layout(layout), Reference.parse(reference)
    if target.digest:
        raise click.UsageError(f"{reference}: the digest follows from the image: write a tag, or none")
    pushed = asyncio.run(_push(stored, target, _private_key(key), trust))
    click.echo(str(pushed))


async def _push(stored: Stored, target: Reference, key: PrivateKey | None, trust: ServerTrust) -> Reference:
    async with open_registry(target, trust) as registry:
        pushed = await push(stored, registry, target.tag or stored.tag)
        if key is not None:
            added = await sign(registry, pushed, key)
            for digest, statement in stored.statements():
                await attest(registry, digest, statement, key)
            click.echo(f"{'signed' if added else 'was signed before'} by {key.public.name} ({key.public.short})")
        return pushed


def _private_key(path: Path | None) -> PrivateKey | None:
    if path is None:
        return None
    password = os.environb.get(PASSWORD_VARIABLE.encode(), b"")
    return parse_private_key(read_key_file(path), name=str(path), password=password)


if __name__ == "__main__":
    try:
        main()
    except ClusterStacksError as error:
        sys.exit(f"error: {error}")
