"""``csctl verify``: who signed a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli import output

if TYPE_CHECKING:
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.releases.contents import Contents
    from clusterstacks.releases.signing.keys import PublicKey
    from clusterstacks.releases.signing.verifying import Verification

KEY_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Verify who signed a release.")
@click.argument("release", metavar="RELEASE_DIR")
@click.option("--key", "keys", type=KEY_FILE, multiple=True, required=True, help="Public keys, PEM; repeatable.")
@click.option("--output", "-o", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def verify(release: str, keys: tuple[Path, ...], form: str) -> None:
    """Verify that one of the keys signed exactly the files of a release; exits with 2 if none did."""
    import asyncio

    from clusterstacks.releases.directory import DirectorySource
    from clusterstacks.releases.signing import verifying

    trusted = [key for path in keys for key in _public_keys(path)]
    contents = surveyed(Path(release))
    evidence = asyncio.run(DirectorySource(contents.root.parent).evidence(contents.release))
    found = verifying.verify(contents.release, contents.files, evidence, trusted)
    if form == "json":
        _print_json(contents.release, contents.digest, found)
    verifying.require(contents.release, found)
    if form == "text":
        output.say(f"{contents.release} is signed by {', '.join(found.signed_by)}")
        for problem in found.problems:
            click.echo(f"not counted: {problem}", err=True)


def surveyed(directory: Path) -> Contents:
    """Read the files of a release directory, whose name is the release's.

    Raises:
        SpecError: The name is none of a release, or the directory holds what no release holds.
        OSError: It cannot be read.
    """
    from clusterstacks.domain.names import parse_release
    from clusterstacks.releases.contents import survey

    root = directory.resolve()
    return survey(parse_release(root.name), root)


def _public_keys(path: Path) -> tuple[PublicKey, ...]:
    from clusterstacks.releases.signing.keys import parse_public_keys
    from clusterstacks.releases.signing.storing import read_key_file

    return parse_public_keys(read_key_file(path), name=str(path))


def _print_json(name: ReleaseName, digest: str, found: Verification) -> None:
    document = {"release": name.release, "digest": digest, "signedBy": found.signed_by, "problems": found.problems}
    output.print_json(document)
