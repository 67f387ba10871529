"""Valid and invalid registry references."""

from __future__ import annotations

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.oci.reference import Reference

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
def test_reference_is_parsed_and_formatted(text: str, reference: Reference) -> None:
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
def test_invalid_reference_is_rejected(text: str) -> None:
    with pytest.raises(SpecError):
        Reference.parse(text)


@pytest.mark.parametrize("repository", ["r.example/kaas/stacks", "kaas/stacks", "oci://r.example/kaas/stacks/"])
def test_environment_names_the_repository_with_or_without_the_host(repository: str) -> None:
    environ = {"OCI_REGISTRY": "r.example", "OCI_REPOSITORY": repository}

    assert Reference.from_environ(environ) == Reference("r.example", "kaas/stacks")


def test_environment_without_a_repository_gives_no_reference() -> None:
    assert Reference.from_environ({"OCI_REGISTRY": "r.example"}) is None


def test_docker_io_refers_to_the_host_of_docker_hub() -> None:
    assert Reference.parse("docker.io/library/x").host == "registry-1.docker.io"


def test_password_in_a_reference_is_not_quoted() -> None:
    with pytest.raises(SpecError, match="credentials come from") as refused:
        Reference.parse("oci://user:s3cret@ghcr.io/a")
    assert "s3cret" not in refused.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("grafana/grafana:11", "docker.io/grafana/grafana:11"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("quay.io/cilium/cilium:v1.18.2", "quay.io/cilium/cilium:v1.18.2"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        (f"quay.io/a/b@sha256:{'a' * 64}", f"quay.io/a/b@sha256:{'a' * 64}"),
        (f"a/b:1@sha256:{'a' * 64}", f"docker.io/a/b:1@sha256:{'a' * 64}"),
    ],
)
def test_image_name_gets_the_defaults_of_docker(text: str, expected: str) -> None:
    assert str(Reference.parse_image(text)) == expected


@pytest.mark.parametrize("text", ["", "UPPER", "a b", "quay.io/", "nginx@md5:1", "$(IMAGE)"])
def test_text_that_is_not_an_image_name_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        Reference.parse_image(text)
