from __future__ import annotations

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.allowlist import AllowedHosts, host_of

ALLOWED = [
    ("charts.example.com", "https://charts.example.com"),
    ("charts.example.com", "https://charts.example.com/stable/index.yaml?x=1"),
    ("charts.example.com", "https://CHARTS.example.com./stable"),
    ("Charts.Example.com", "oci://charts.example.com/a"),
    ("charts.example.com", "https://charts.example.com:443/"),
    ("charts.example.com", "http://charts.example.com:80/"),
    ("charts.example.com:8443", "https://charts.example.com:8443/x"),
    ("charts.example.com:*", "https://charts.example.com:8443/x"),
    ("*.k8s.io", "https://charts.sigs.k8s.io/x"),
    ("*", "https://anything.example/x"),
    ("ghcr.io/org", "oci://ghcr.io/org"),
    ("ghcr.io/org/", "oci://ghcr.io/org/charts/cilium"),
    ("ghcr.io/org/*", "oci://ghcr.io/org/charts/cilium"),
    ("ghcr.io/*/charts", "oci://ghcr.io/org/charts"),
    ("ghcr.io/org/*-charts", "oci://ghcr.io/org/our-charts/x"),
    ("ghcr.io/org", "https://ghcr.io/%6frg/x"),
    ("[2001:db8::1]:5000", "oci://[2001:DB8::1]:5000/x"),
    ("127.0.0.1:5000", "http://127.0.0.1:5000/x"),
    ("ghcr.io", "https://ghcr.io//org/100%25.tgz"),
    ("ghcr.io/org", "https://ghcr.io/org//x"),
    ("ghcr.io/org", "https://ghcr.io/org/a;b/..c/x..;y"),
    (" a.example , b.example,", "https://b.example"),
]
REFUSED = [
    ("", "https://charts.example.com"),
    ("charts.example.com", "https://evil.example"),
    ("charts.example.com", "https://charts.example.com.evil.example"),
    ("charts.example.com", "https://xcharts.example.com"),
    ("charts.example.com", "https://charts.example.com@evil.example/"),
    ("charts.example.com", "https://user:secret@charts.example.com/"),
    ("charts.example.com", "https://evil.example/charts.example.com"),
    ("charts.example.com", "https://evil.example\\@charts.example.com/"),
    ("charts.example.com", "https://charts.example.com:8443/"),
    ("charts.example.com", "https://charts.example.com:0/"),
    ("charts.example.com", "https://charts.example.com:99999/"),
    ("charts.example.com", "http://charts.example.com:443/"),
    ("charts.example.com:8443", "https://charts.example.com/"),
    ("charts.example.com", "file:///charts.example.com"),
    ("charts.example.com", "charts.example.com"),
    ("*.k8s.io", "https://k8s.io/"),
    ("*.k8s.io", "https://evilk8s.io/"),
    ("*", "https://"),
    ("ghcr.io/org", "oci://ghcr.io/organisation"),
    ("ghcr.io/org", "oci://ghcr.io/"),
    ("ghcr.io/org/*", "oci://ghcr.io/org"),
    ("ghcr.io/org", "https://ghcr.io/org/../other"),
    ("ghcr.io/org", "https://ghcr.io/org/%2e%2e/other"),
    ("ghcr.io/org", "https://ghcr.io/org%2f..%2fother"),
    ("ghcr.io/*/charts", "oci://ghcr.io/a/b/charts"),
    ("ghcr.io/*/charts", "https://ghcr.io//charts"),
    ("ghcr.io/org", "https://ghcr.io//org/x"),
    ("ghcr.io/org", "https://ghcr.io/org/..;/other"),
    ("ghcr.io/org", "https://ghcr.io/org/..;a=b/other"),
    ("ghcr.io/org", "https://ghcr.io/org/%252e%252e/other"),
    ("ghcr.io/org", "https://ghcr.io/org/x%25252f..%25252fother"),
    ("ghcr.io/org", "https://ghcr.io/org%255cother"),
    ("127.0.0.1:5000", "http://127.0.0.1:5001/x"),
    ("[2001:db8::1]", "oci://[2001:db8::2]/x"),
]


@pytest.mark.parametrize(("patterns", "url"), ALLOWED)
def test_url_matched_by_a_pattern_is_allowed(patterns: str, url: str) -> None:
    assert AllowedHosts.parse(patterns).allows(url)


@pytest.mark.parametrize(("patterns", "url"), REFUSED)
def test_url_without_a_matching_pattern_is_rejected(patterns: str, url: str) -> None:
    assert not AllowedHosts.parse(patterns).allows(url)


@pytest.mark.parametrize(
    "text",
    [
        "https://charts.example.com",
        "a b",
        "a..b",
        "-a.example",
        "*a.example",
        "a.*.example",
        "a/../b",
        "a:port",
        "a/b?c",
        "/x",
        "a//b",
    ],
)
def test_invalid_pattern_is_rejected(text: str) -> None:
    with pytest.raises(SpecError, match="is not a valid host pattern"):
        AllowedHosts.parse(text)


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://a.example/x", "a.example"), ("oci://a.example:5000/x", "a.example:5000"), ("https://u:p@a.example", "")],
)
def test_host_of_a_url_excludes_scheme_and_credentials(url: str, host: str) -> None:
    assert host_of(url) == host
