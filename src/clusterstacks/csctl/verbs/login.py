"""``csctl login`` and ``csctl logout``: store or remove the credentials of a registry."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.csctl.shared.registry_options import ServerTrust, trust_options

if TYPE_CHECKING:
    from clusterstacks.net.oci.credentials import RegistryCredentials
    from clusterstacks.net.oci.reference import Reference

MAX_PASSWORD_BYTES = 64 * 1024
"""Longest password that is read from standard input (arbitrary; tokens have a few KB)."""


@click.command(short_help="Log in to a registry.")
@click.argument("registry", metavar="REGISTRY")
@click.option("--username", "-u", default="", help="User name; without it, csctl asks for it.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of asking for it.")
@trust_options
@form_option()
def login(trust: ServerTrust, registry: str, username: str, *, password_stdin: bool, form: str) -> None:
    """Check user name and password at a registry, and store them where docker, helm and csctl read them.

    REGISTRY is a host such as registry.example.org, with its port. The credentials are stored with the credential
    helper that the configuration of docker names, otherwise in ~/.docker/config.json or $DOCKER_CONFIG/config.json.
    Everything else in the file stays. Nothing is stored if the registry rejects the credentials.

    There is no option for the password, because other users of the machine can see command lines.
    """
    import asyncio

    from clusterstacks.net.oci.credentials import RegistryCredentials, find_credentials
    from clusterstacks.release.sources.registry_login import check_login, store_login

    reference = _registry(registry)
    if not username and (password_stdin or not sys.stdin.isatty()):
        raise click.UsageError("the user name is missing: add --username")
    username = username or click.prompt("user name", err=True)
    password = _password(from_stdin=password_stdin)
    given = RegistryCredentials(username, password, origin="user name and password of this command")
    _require_usable(given)

    async def log_in() -> tuple[bool, str, RegistryCredentials]:
        async with trust.web() as web:
            required = await check_login(web, reference, given, plain_http=trust.plain_http)
        place = await store_login(reference, given, os.environ)
        return required, place, await find_credentials(reference, os.environ)

    required, place, effective = asyncio.run(log_in())
    if form != TEXT:
        output.print_document(
            {"registry": reference.registry, "username": username, "place": place, "checked": required}, form
        )
    else:
        output.say(f"logged in to {reference.registry} as {username}; the credentials are in {place}")
    if not required:
        output.note(f"{reference.registry} accepts requests without credentials, so these may be wrong")
    if effective != given:
        output.warn(f"csctl uses other credentials first: {effective.origin}")


@click.command(short_help="Remove the login of a registry.")
@click.argument("registry", metavar="REGISTRY")
@form_option()
def logout(registry: str, form: str) -> None:
    """Remove the credentials of a registry from the configuration of docker and from its credential helper."""
    import asyncio

    from clusterstacks.net.oci.credentials import ANONYMOUS, find_credentials
    from clusterstacks.release.sources.registry_login import remove_login

    reference = _registry(registry)

    async def log_out() -> tuple[bool, RegistryCredentials]:
        removed = await remove_login(reference, os.environ)
        return removed, await find_credentials(reference, os.environ)

    removed, remaining = asyncio.run(log_out())
    if form != TEXT:
        output.print_document({"registry": reference.registry, "removed": removed}, form)
    else:
        output.say(f"logged out of {reference.registry}" if removed else f"not logged in to {reference.registry}")
    if remaining != ANONYMOUS:
        output.warn(f"csctl still finds credentials: {remaining.origin}")


def _registry(text: str) -> Reference:
    """Return a reference whose registry is the one that is named."""
    from clusterstacks.net.oci.reference import Reference, looks_like_registry

    host = text.removeprefix("oci://").removeprefix("https://").removesuffix("/")
    if "/" in host or not looks_like_registry(host):
        raise click.UsageError(f"{text} is not a registry (expected a host, for example registry.example.org)")
    return Reference(host, "any")


def _password(*, from_stdin: bool) -> str:
    if from_stdin:
        text = sys.stdin.buffer.read(MAX_PASSWORD_BYTES + 1)
        if len(text) > MAX_PASSWORD_BYTES:
            raise click.UsageError(f"standard input has more than {MAX_PASSWORD_BYTES} bytes: it is not a password")
        return text.decode(errors="replace").removesuffix("\n").removesuffix("\r")
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask for the password: use --password-stdin")
    password: str = click.prompt("password", hide_input=True, err=True)
    return password


def _require_usable(credentials: RegistryCredentials) -> None:
    if ":" in credentials.username or not credentials.username.isprintable():
        raise click.UsageError("the user name contains a colon or a control character")
    if not credentials.password:
        raise click.UsageError("the password is empty")
    if not credentials.password.isprintable() or "\ufffd" in credentials.password:
        raise click.UsageError("the password is not a single line of text: check what --password-stdin reads")
