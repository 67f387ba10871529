"""References: what names something in a registry, and what does not."""

from __future__ import annotations

import pytest

from clusterstacks.oci.errors import InvalidReference
from clusterstacks.oci.reference import Reference

DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("ghcr.io/a/b", Reference("ghcr.io", "a/b")),
        ("oci://ghcr.io/a/b:v1", Reference("ghcr.io", "a/b", "v1")),
        ("127.0.0.1:5000/a", Reference("127.0.0.1:5000", "a")),
        ("[::1]:5000/a:x", Reference("[::1]:5000", "a", "x")),
        ("localhost/a__b-c.d:x", Reference("localhost", "a__b-c.d", "x")),
        (f"r.example/a@{DIGEST}", Reference("r.example", "a", "", DIGEST)),
        (f"r.example:443/a:x@{DIGEST}", Reference("r.example:443", "a", "x", DIGEST)),
    ],
)
def test_a_reference_is_read_and_written(text: str, reference: Reference) -> None:
    assert Reference.parse(text) == reference
    assert Reference.parse(str(reference)) == reference


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b",
        "ghcr.io",
        "ghcr.io/",
        "ghcr.io/A",
        "ghcr.io/a//b",
        "ghcr.io/../b",
        "ghcr.io/a:",
        "ghcr.io/a:b/c",
        "ghcr.io/a:.x",
        f"ghcr.io/a:{'x' * 129}",
        f"ghcr.io/{'x' * 256}",
        "ghcr.io/a@",
        "ghcr.io/a@sha512:abc",
        "ghcr.io/a@sha256:abc",
        "user:password@ghcr.io/a",
        "ghcr.io?x/a",
        "https://ghcr.io/a",
        "ghcr.io/a\n",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidReference):
        Reference.parse(text)


@pytest.mark.parametrize("repository", ["r.example/kaas/stacks", "kaas/stacks", "oci://r.example/kaas/stacks/"])
def test_the_environment_names_the_repository_with_and_without_the_host(repository: str) -> None:
    environ = {"OCI_REGISTRY": "r.example", "OCI_REPOSITORY": repository}

    assert Reference.from_environ(environ) == Reference("r.example", "kaas/stacks")


def test_an_environment_without_a_repository_names_nothing() -> None:
    assert Reference.from_environ({"OCI_REGISTRY": "r.example"}) is None


def test_dockers_registry_is_not_where_its_name_says() -> None:
    assert Reference.parse("docker.io/library/x").host == "registry-1.docker.io"


def test_a_password_in_a_reference_is_not_repeated() -> None:
    with pytest.raises(InvalidReference, match="credentials come from") as refused:
        Reference.parse("oci://user:s3cret@ghcr.io/a")
    assert "s3cret" not in refused.value.message
