"""Which source a ClusterStack names, and whether it may."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from clusterstacks.api.clusterstack import ClusterStack
from clusterstacks.domain.errors import SpecError
from clusterstacks.http.allowlist import AllowedHosts
from clusterstacks.sources import kinds
from clusterstacks.sources.spec import SignatureTrust, SourceAddress, SourceSettings, TrustedKey
from clusterstacks.sources.stack_source import SourcePolicy, SourceRefused

OWN = SourceSettings(address=SourceAddress(kinds.OCI, "registry.example.org/kaas/stacks"), own=True)
OCI = {"oci": {"repository": "ghcr.io/team/stacks"}}
GITHUB = {"github": {"owner": "team", "repository": "stacks"}}
ENTERPRISE = {"github": {**GITHUB["github"], "url": "https://git.example.org/api/v3"}}
HTTP = {"http": {"url": "https://stacks.example.org/all/"}}
DIRECTORY = {"directory": {"path": "team"}}


def stack(source: dict[str, Any] | None, namespace: str = "team") -> ClusterStack:
    spec = {"provider": "openstack", "name": "scs", "kubernetesVersion": "1.35"}
    return ClusterStack.parse(
        {
            "kind": "ClusterStack",
            "metadata": {"name": "scs", "namespace": namespace},
            "spec": {**spec, **({"source": source} if source else {})},
        }
    )


def choice(allowed: str = "", trust: SignatureTrust | None = None) -> SourcePolicy:
    return SourcePolicy(default=OWN, allowed=AllowedHosts.parse(allowed), trust=trust)


def test_without_a_word_it_is_the_operators_own() -> None:
    assert choice().terms(stack(None)) is OWN
    assert choice().terms(None) is OWN


@pytest.mark.parametrize(
    ("source", "allowed", "shown"),
    [
        (OCI, "ghcr.io/team", "oci://ghcr.io/team/stacks"),
        (GITHUB, "github.com/team/*", "github://team/stacks"),
        (ENTERPRISE, "git.example.org/team", "github://team/stacks of https://git.example.org/api/v3"),
        (HTTP, "*.example.org", "https://stacks.example.org/all"),
    ],
)
def test_any_other_must_be_allowed_by_host_and_path(source: dict[str, Any], allowed: str, shown: str) -> None:
    assert str(choice(allowed).terms(stack(source)).address) == shown
    for wrong in ("", "other.example", f"{allowed.split('/', maxsplit=1)[0]}/other"):
        with pytest.raises(SourceRefused, match="--allowed-sources") as refused:
            choice(wrong).terms(stack(source))
        assert shown in refused.value.message
        assert "ClusterStack team/scs" in refused.value.message


def test_the_operators_own_place_needs_no_mention_and_gives_nobody_its_credentials() -> None:
    terms = choice().terms(stack({"oci": {"repository": OWN.address.place}}))

    assert terms.address == OWN.address
    assert not terms.own


def test_a_place_like_the_operators_own_is_another_without_tls() -> None:
    with pytest.raises(SourceRefused):
        choice().terms(stack({"oci": {"repository": OWN.address.place, "plainHTTP": True}}))


def test_directories_are_below_the_operators_own_and_need_no_mention() -> None:
    assert choice().terms(stack(DIRECTORY)).address == SourceAddress(kinds.DIRECTORY, "team")


@pytest.mark.parametrize("path", ["..", "/etc", "team/../..", "team//x", ".hidden", "team/", "a/./b"])
def test_a_directory_elsewhere_is_refused_when_it_is_read(path: str) -> None:
    with pytest.raises(SpecError, match=r"spec\.source\.directory\.path"):
        stack({"directory": {"path": path}})


@pytest.mark.parametrize("source", [{"interval": "1m"}, {**OCI, **DIRECTORY}])
def test_none_and_two_are_refused(source: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="exactly one"):
        choice("*").terms(stack(source))


def test_stacks_of_all_namespaces_share_what_has_no_secret() -> None:
    chosen = choice("ghcr.io")
    assert chosen.terms(stack(OCI)) == chosen.terms(stack(OCI, "other"))
    private = {**OCI, "credentials": {"secretName": "login"}}
    assert chosen.terms(stack(private)) != chosen.terms(stack(private, "other"))


def test_the_interval_depends_on_the_kind() -> None:
    chosen = choice("ghcr.io")
    assert chosen.terms(stack(OCI)).interval == timedelta(minutes=1)
    assert chosen.terms(stack(DIRECTORY)).interval == timedelta(seconds=5)
    assert chosen.terms(stack({**OCI, "interval": "1h30m"})).interval == timedelta(minutes=90)


def test_keys_of_the_stack_take_the_place_of_the_operators() -> None:
    operators = SignatureTrust(keys=(TrustedKey("pem"),))
    chosen = choice("ghcr.io", operators)
    own = {"policy": "Warn", "keys": [{"secretName": "keys"}, {"publicKey": "other pem"}]}

    assert chosen.trusted(stack(None)) == chosen.trusted(stack(OCI)) == operators
    assert chosen.trusted(stack({**OCI, "verification": own})) == SignatureTrust(
        keys=(TrustedKey(secret="keys", key="cosign.pub"), TrustedKey("other pem")), required=False, namespace="team"
    )
