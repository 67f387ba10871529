"""Requests that use a proxy."""

from __future__ import annotations

import pytest
from yarl import URL

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.urls import proxy_for

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("https://a.example/x", {}, None),
        ("https://a.example/x", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://a.example/x", {"https_proxy": PROXY}, PROXY),
        ("https://a.example/x", {"HTTP_PROXY": PROXY}, None),
        ("http://a.example/x", {"HTTP_PROXY": "proxy.example:3128"}, PROXY),
        ("http://127.0.0.1:5000/", {"HTTP_PROXY": PROXY}, None),
        ("http://localhost:5000/", {"HTTP_PROXY": PROXY}, None),
        ("http://[::1]:5000/", {"HTTP_PROXY": PROXY}, None),
    ],
)
def test_proxy_variables_have_their_usual_meaning(url: str, environ: dict[str, str], expected: str | None) -> None:
    assert proxy_for(URL(url), environ) == (URL(expected) if expected else None)


@pytest.mark.parametrize(
    ("exceptions", "url", "direct"),
    [
        ("*", "https://a.example/", True),
        ("a.example", "https://a.example/", True),
        ("a.example", "https://b.a.example/", True),
        ("a.example", "https://ba.example/", False),
        (".a.example", "https://b.a.example/", True),
        (".a.example", "https://a.example/", False),
        ("*.a.example", "https://b.a.example/", True),
        ("other.example, a.example", "https://a.example/", True),
        ("A.Example", "https://a.example/", True),
        ("a.example:443", "https://a.example/", True),
        ("a.example:5000", "https://a.example/", False),
        ("10.0.0.0/8", "https://10.1.2.3/", True),
        ("10.0.0.0/8", "https://11.1.2.3/", False),
        ("10.0.0.0/8", "https://a.example/", False),
        ("10.1.2.3", "https://10.1.2.3/", True),
        ("fd00::/8", "https://[fd00::1]/", True),
        ("[fd00::1]:443", "https://[fd00::1]/", True),
        ("nonsense/99", "https://10.1.2.3/", False),
    ],
)
def test_no_proxy_accepts_names_addresses_networks_and_ports(exceptions: str, url: str, direct: bool) -> None:  # noqa: FBT001 - a column of the table
    found = proxy_for(URL(url), {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions})
    assert (found is None) is direct


@pytest.mark.parametrize("text", ["ftp://user:secret@proxy.example", "http://", "http://user:secret@pro xy:99999999"])
def test_invalid_proxy_is_rejected_without_quoting_its_password(text: str) -> None:
    with pytest.raises(SpecError, match="HTTPS_PROXY is not a valid proxy") as refused:
        proxy_for(URL("https://a.example/"), {"HTTPS_PROXY": text})
    assert "secret" not in refused.value.message
