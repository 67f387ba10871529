"""``csctl copy``: mirror a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli import output
from clusterstacks.cli.connecting import CA_FILE, Trust, opened_registry, trust_options

if TYPE_CHECKING:
    from clusterstacks.releases.oci.copying import Copied
    from clusterstacks.releases.oci.reference import Reference


@click.command(short_help="Copy a release into another repository.")
@click.argument("origin", metavar="REF")
@click.argument("target", metavar="REF")
@trust_options
@click.option("--from-ca", type=CA_FILE, help="As --ca, for the first REF only.")
@click.option("--to-ca", type=CA_FILE, help="As --ca, for the second REF only.")
@click.option("--from-plain-http", is_flag=True, help="As --plain-http, for the first REF only.")
@click.option("--to-plain-http", is_flag=True, help="As --plain-http, for the second REF only.")
def copy(origin: str, target: str, *, ca: Path | None, plain_http: bool, **sides: Path | bool | None) -> None:
    """Copy a release from one registry into another, byte for byte, with its signatures.

    The first REF is registry/repository:release, the second registry/repository with the same tag or without one.
    What is there already is not sent again; another content under the tag is refused.
    """
    import asyncio

    from clusterstacks.releases.oci.reference import Reference

    source, sink = Reference.parse(origin), Reference.parse(target)
    if not (source.tag or source.digest) or sink.digest:
        raise click.UsageError("name a release to copy, REF:<release name>, and a repository to copy it to")
    tag = sink.tag or source.tag
    if not tag:
        raise click.UsageError("a digest has no name: give the second REF a tag")
    trusts = [_trust(side, ca, sides, plain_http=plain_http) for side in ("from", "to")]
    copied = asyncio.run(_copy(source, sink.at(tag), trusts[0], trusts[1]))
    what = "copied to" if copied.new else "is there already with the same content:"
    output.say(f"{source.tag or source.digest} {what} {sink.at(tag)}@{copied.digest}")
    output.say(f"signatures and other documents of it: {copied.signatures}")


def _trust(side: str, ca: Path | None, sides: dict[str, Path | bool | None], *, plain_http: bool) -> Trust:
    own = sides[f"{side}_ca"]
    return Trust(own if isinstance(own, Path) else ca, plain_http=plain_http or bool(sides[f"{side}_plain_http"]))


async def _copy(source: Reference, target: Reference, from_trust: Trust, to_trust: Trust) -> Copied:
    from clusterstacks.releases.oci import copying

    async with opened_registry(source, from_trust) as here, opened_registry(target, to_trust) as there:
        return await copying.copy(here, source.digest or source.tag, there, target.tag)
