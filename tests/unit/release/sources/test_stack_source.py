"""The source of a ClusterStack and its permission."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.release.signing.stage_requirement import StageRequirement
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.spec import SignatureTrust, SourceAddress, SourceSettings, TrustedKey
from clusterstacks.release.sources.stack_source import SourcePolicy

OWN = SourceSettings(address=SourceAddress(source_kinds.OCI, "registry.example.org/kaas/stacks"), own=True)
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


def test_stack_without_a_source_uses_the_source_of_the_operator() -> None:
    assert choice().settings(stack(None)) is OWN
    assert choice().settings(None) is OWN


@pytest.mark.parametrize(
    ("source", "allowed", "shown"),
    [
        (OCI, "ghcr.io/team", "oci://ghcr.io/team/stacks"),
        (GITHUB, "github.com/team/*", "github://team/stacks"),
        (ENTERPRISE, "git.example.org/team", "github://team/stacks of https://git.example.org/api/v3"),
        (HTTP, "*.example.org", "https://stacks.example.org/all"),
    ],
)
def test_other_source_must_be_allowed_by_host_and_path(source: dict[str, Any], allowed: str, shown: str) -> None:
    assert str(choice(allowed).settings(stack(source)).address) == shown
    for wrong in ("", "other.example", f"{allowed.split('/', maxsplit=1)[0]}/other"):
        with pytest.raises(SpecError, match="--allowed-sources") as refused:
            choice(wrong).settings(stack(source))
        assert shown in refused.value.message
        assert "ClusterStack team/scs" in refused.value.message


def test_location_of_the_operator_is_allowed_without_its_credentials() -> None:
    settings = choice().settings(stack({"oci": {"repository": OWN.address.place}}))

    assert settings.address == OWN.address
    assert not settings.own


def test_location_of_the_operator_without_tls_is_not_allowed() -> None:
    with pytest.raises(SpecError):
        choice().settings(stack({"oci": {"repository": OWN.address.place, "plainHTTP": True}}))


def test_directories_below_the_one_of_the_operator_are_allowed() -> None:
    assert choice().settings(stack(DIRECTORY)).address == SourceAddress(source_kinds.DIRECTORY, "team")


@pytest.mark.parametrize("path", ["..", "/etc", "team/../..", "team//x", ".hidden", "team/", "a/./b"])
def test_directory_outside_the_one_of_the_operator_is_rejected(path: str) -> None:
    with pytest.raises(SpecError, match=r"spec\.source\.directory\.path"):
        stack({"directory": {"path": path}})


@pytest.mark.parametrize("source", [{"interval": "1m"}, {**OCI, **DIRECTORY}])
def test_exactly_one_source_kind_is_required(source: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="exactly one"):
        choice("*").settings(stack(source))


def test_sources_without_a_secret_are_shared_between_namespaces() -> None:
    chosen = choice("ghcr.io")
    assert chosen.settings(stack(OCI)) == chosen.settings(stack(OCI, "other"))
    private = {**OCI, "credentials": {"secretName": "login"}}
    assert chosen.settings(stack(private)) != chosen.settings(stack(private, "other"))


def test_default_interval_depends_on_the_kind() -> None:
    chosen = choice("ghcr.io")
    assert chosen.settings(stack(OCI)).interval == timedelta(minutes=1)
    assert chosen.settings(stack(DIRECTORY)).interval == timedelta(seconds=5)
    assert chosen.settings(stack({**OCI, "interval": "1h30m"})).interval == timedelta(minutes=90)


OPERATORS_KEY, STACKS_KEY = (TrustedKey("pem"),), (TrustedKey("other pem"),)
REQUIRED, WARNED = SignatureTrust(keys=OPERATORS_KEY), SignatureTrust(keys=OPERATORS_KEY, required=False)
STACKS = SignatureTrust(keys=STACKS_KEY)


@pytest.mark.regression("SEC-26")
@pytest.mark.parametrize(
    ("source", "policy", "operators", "trusted"),
    [
        (OCI, "Warn", None, replace(STACKS, required=False)),
        (OCI, "Warn", WARNED, replace(STACKS, required=False)),
        (OCI, "Require", WARNED, STACKS),
        (OCI, "Warn", REQUIRED, STACKS),
        (OCI, "Require", REQUIRED, STACKS),
        (DIRECTORY, "Warn", WARNED, replace(STACKS, required=False)),
        (DIRECTORY, "Warn", REQUIRED, REQUIRED),
        (DIRECTORY, "Require", REQUIRED, replace(STACKS, operators=REQUIRED)),
        ({"oci": {"repository": OWN.address.place}}, "Warn", REQUIRED, REQUIRED),
        ({"oci": {"repository": OWN.address.place}}, "Require", REQUIRED, replace(STACKS, operators=REQUIRED)),
    ],
)
def test_stricter_of_the_policies_of_stack_and_operator(
    source: dict[str, Any], policy: str, operators: SignatureTrust | None, trusted: SignatureTrust
) -> None:
    own = {"policy": policy, "keys": [{"publicKey": "other pem"}]}
    chosen = choice("ghcr.io", operators)

    assert chosen.trusted(stack({**source, "verification": own})) == trusted
    assert chosen.trusted(stack(None)) == chosen.trusted(stack(source)) == operators


def test_key_in_a_secret_is_in_the_namespace_of_the_stack() -> None:
    own = {"keys": [{"secretName": "keys"}, {"publicKey": "other pem"}]}

    assert choice("ghcr.io").trusted(stack({**OCI, "verification": own})) == SignatureTrust(
        keys=(TrustedKey(secret="keys", key="cosign.pub"), TrustedKey("other pem")), namespace="team"
    )


STAGE = {"stage": "staging", "keys": [{"secretName": "stage"}], "soak": "72h", "clusters": 3, "upgradesFrom": ["v6"]}


@pytest.mark.parametrize("version", ["v6", "v0-beta.1", "local-demo-1-35-v6", "openstack-hosted-control-plane-1-35-v6"])
def test_upgrade_is_from_a_version_or_a_release(version: str) -> None:
    (stage,) = choice("ghcr.io", None).stages(
        stack({**OCI, "verification": {"evidence": [{**STAGE, "upgradesFrom": [version]}]}})
    )
    assert stage.required.upgrades_from == (version,)


def test_stages_have_keys_of_their_own_and_leave_signatures_to_the_operator() -> None:
    own = {**OCI, "verification": {"evidence": [STAGE, {**STAGE, "stage": "perf", "soak": ""}]}}
    chosen = choice("ghcr.io", REQUIRED)

    first, second = chosen.stages(stack(own))

    assert chosen.trusted(stack(own)) == REQUIRED
    assert chosen.stages(stack(OCI)) == chosen.stages(None) == ()
    assert first.required == StageRequirement(
        stage="staging", soak=timedelta(hours=72), clusters=3, upgrades_from=("v6",)
    )
    assert (second.required.stage, second.required.soak) == ("perf", timedelta())
    assert first.keys == SignatureTrust(
        keys=(TrustedKey(secret="stage", key="cosign.pub"),),
        namespace="team",
        setting="spec.source.verification.evidence[0].keys",
    )


@pytest.mark.parametrize("version", ["six", "v", "1.35-v6", "local-demo-v6"])
def test_invalid_version_of_an_upgrade_is_refused(version: str) -> None:
    with pytest.raises(SpecError, match="upgradesFrom"):
        stack({**OCI, "verification": {"evidence": [{**STAGE, "upgradesFrom": [version]}]}})
