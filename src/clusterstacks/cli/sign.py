"""``csctl sign``: say with a key that a release is yours."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli import output
from clusterstacks.cli.verify import KEY_FILE, surveyed

if TYPE_CHECKING:
    from clusterstacks.releases.signing.keys import PrivateKey

PASSWORD_VARIABLE = "CSCTL_KEY_PASSWORD"  # noqa: S105 - the name of a variable


@click.command(short_help="Sign a release.")
@click.argument("release", metavar="RELEASE_DIR", required=False)
@click.option("--key", type=KEY_FILE, help="Private key: ECDSA P-256 or Ed25519, PEM (PKCS#8).")
@click.option("--new-key", type=click.Path(path_type=Path), help="Make a key pair PATH and PATH.pub instead.")
def sign(release: str | None, key: Path | None, new_key: Path | None) -> None:
    """Sign the files of a release; the signature goes beside the directory, into RELEASE_DIR.dsse.json.

    Signing again with another key adds a signature; with the same key it changes nothing. The password of a protected
    key comes from CSCTL_KEY_PASSWORD, or is asked for. With --new-key the variable protects the new key.
    """
    if new_key and not (release or key):
        _make_key(new_key)
    elif release and key and not new_key:
        _sign(release, _read_key(key))
    else:
        raise click.UsageError("give RELEASE_DIR and --key, or --new-key alone")


def _make_key(path: Path) -> None:
    from clusterstacks.releases.signing.storing import write_new_key

    public = write_new_key(path, _password())
    output.say(f"{path}: keep it secret; sign with 'csctl sign RELEASE_DIR --key {path}'")
    output.say(f"{public}: for everybody; verify with 'csctl verify RELEASE_DIR --key {public}'")


def _read_key(path: Path) -> PrivateKey:
    from clusterstacks.releases.signing.errors import KeyUnusable
    from clusterstacks.releases.signing.keys import needs_password, parse_private_key
    from clusterstacks.releases.signing.storing import read_key_file

    text, password = read_key_file(path), _password()
    if needs_password(text) and not password:
        if not sys.stdin.isatty():
            raise KeyUnusable(path, f"is protected by a password: put it into {PASSWORD_VARIABLE}")
        password = click.prompt(f"password of {path}", hide_input=True, err=True).encode()
    return parse_private_key(text, name=str(path), password=password)


def _password() -> bytes:
    return os.environb.get(PASSWORD_VARIABLE.encode(), b"")


def _sign(release: str, key: PrivateKey) -> None:
    import asyncio

    from clusterstacks.releases.charts import ChartCache
    from clusterstacks.releases.opening import open_release
    from clusterstacks.releases.signing.storing import sign_beside, signature_file

    contents = surveyed(Path(release))
    open_release(contents, ChartCache())  # a signature under what nobody can use would be a mistake
    added = asyncio.run(sign_beside(contents, key))
    what = "signed" if added else "was signed before"
    output.say(f"{contents.release} {what} by {key.public.name} ({key.public.short}): {signature_file(contents)}")
