"""Where a server may send its client: by a redirect, for a token, to upload. Its word may be anybody's."""

from __future__ import annotations

from yarl import URL

from clusterstacks.http.proxies import address_of, is_loopback


def read_url(text: str) -> URL:
    """Read a URL as it is: writing it anew would break the signature that may be in it.

    Raises:
        ValueError: The text is none.
    """
    return URL(text, encoded=text.isascii() and text.isprintable() and " " not in text)


def resolve(source: URL, text: str) -> URL | None:
    """Read what a server names, seen from its own URL; None when it is no URL."""
    try:
        return source.join(read_url(text))
    except ValueError:
        return None


def may_follow(source: URL, target: URL) -> bool:
    """Whether a server may send its client to another place.

    It may not lead from TLS to plain HTTP, nor from another machine to this one, nor to a link-local address, and it
    gives no credentials.
    """
    address = address_of(target)
    # Link-local addresses are those of the metadata services of clouds, which give out credentials.
    inward = (is_loopback(target) and not is_loopback(source)) or (address is not None and address.is_link_local)
    weaker = source.scheme == "https" and target.scheme != "https"
    whole = target.scheme in {"http", "https"} and bool(target.host) and target.user is None
    return whole and not weaker and not inward


def follow(source: URL, text: str) -> URL | None:
    """Resolve what a server names; None when nobody should go there."""
    target = resolve(source, text)
    return target if target is not None and may_follow(source, target) else None
