"""Where a registry may send its client: for a token, or to upload. Its word may be anybody's."""

from __future__ import annotations

from yarl import URL

from clusterstacks.releases.proxies import address_of, is_loopback


def follow(source: URL, text: str) -> URL | None:
    """Resolve what a server names, seen from its own URL; None when nobody should go there.

    It may not lead from TLS to plain HTTP, nor from another machine to this one, nor to a link-local address.
    """
    try:
        target = source.join(URL(text, encoded=True))
    except ValueError:
        return None
    address = address_of(target)
    # Link-local addresses are those of the metadata services of clouds, which give out credentials.
    inward = (is_loopback(target) and not is_loopback(source)) or (address is not None and address.is_link_local)
    if target.scheme not in {"http", "https"} or not target.host or target.user is not None:
        return None
    weaker = source.scheme == "https" and target.scheme != "https"
    return None if weaker or inward else target
