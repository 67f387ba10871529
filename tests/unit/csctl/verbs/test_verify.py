"""Wheels and other files with attestations beside them."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.shared.attested_artifacts import image_reference
from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.kinds.clusterstackrelease import FAILED, PASSED
from clusterstacks.release.contents import read_contents
from clusterstacks.release.signing.attestation import PROVENANCE, SBOM, write_statement
from clusterstacks.release.signing.envelope import Envelope
from clusterstacks.release.signing.stage_evidence import StageFacts, StageStatement
from clusterstacks.release.sources.signature_store import attest_beside
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.builders.signatures import ecdsa_key, ed25519_key, public_pem
from tests.support.running.csctl import csctl_run

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.release.signing.keys import PrivateKey

WHEEL = b"a wheel"
PREDICATES: dict[str, tuple[str, object]] = {
    "sbom": (SBOM, {"bomFormat": "CycloneDX"}),
    "provenance": (
        PROVENANCE,
        {
            "buildDefinition": {"resolvedDependencies": [{"uri": "git+https://example.org/x@abc"}]},
            "runDetails": {"builder": {"id": "https://example.org/builder"}},
        },
    ),
}


def attested(folder: Path, key: PrivateKey, *, about: bytes = WHEEL, leave_out: str = "") -> Path:
    wheel = folder / "x-1-py3-none-any.whl"
    wheel.write_bytes(WHEEL)
    for what, (kind, predicate) in PREDICATES.items():
        statement = write_statement(
            kind, [("other", sha256_digest(b"")), (wheel.name, sha256_digest(about))], predicate
        )
        if what != leave_out:
            (folder / f"{wheel.name}.{what}.dsse.json").write_bytes(Envelope(statement).signed(key).text())
    return wheel


def verify(wheel: Path, key: PrivateKey) -> tuple[int, dict[str, object]]:
    public = wheel.with_name("key.pub")
    public.write_bytes(public_pem(key))
    done = csctl_run("verify", wheel, "--key", public, "-o", "json", environ={"PATH": os.environ["PATH"]})
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("key", [ecdsa_key(), ed25519_key()], ids=["ecdsa", "ed25519"])
def test_a_file_with_both_attestations_is_verified(tmp_path: Path, key: PrivateKey) -> None:
    code, said = verify(attested(tmp_path, key), key)

    assert code == 0
    assert said == {
        "name": f"{tmp_path}/x-1-py3-none-any.whl",
        "digest": sha256_digest(WHEEL),
        "verified": True,
        "signedBy": [f"{tmp_path}/key.pub"],
        "source": "git+https://example.org/x@abc",
        "builder": "https://example.org/builder",
        "missing": [],
        "problems": [],
    }


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    key = ecdsa_key()
    wheel = attested(tmp_path, key)
    wheel.write_bytes(WHEEL + b"!")

    code, said = verify(wheel, key)

    assert (code, said["verified"]) == (3, False)
    assert said["missing"] == ["SLSA provenance", "SBOM (CycloneDX)"]


def test_attestations_of_another_file_or_key_prove_nothing(tmp_path: Path) -> None:
    key = ecdsa_key()

    assert verify(attested(tmp_path, key, about=b"another wheel"), key)[0] == 3
    code, said = verify(attested(tmp_path, ecdsa_key("other")), key)
    assert (code, said["signedBy"], said["source"], said["builder"]) == (3, [], "", "")


@pytest.mark.parametrize(("what", "name"), [("sbom", "SBOM (CycloneDX)"), ("provenance", "SLSA provenance")])
def test_each_of_the_attestations_is_required(tmp_path: Path, what: str, name: str) -> None:
    key = ecdsa_key()

    code, said = verify(attested(tmp_path, key, leave_out=what), key)

    assert (code, said["missing"]) == (3, [name])


def test_a_statement_of_another_format_or_a_damaged_envelope_proves_nothing(tmp_path: Path) -> None:
    key = ecdsa_key()
    wheel = attested(tmp_path, key)
    path = wheel.with_name(f"{wheel.name}.sbom.dsse.json")
    statement = write_statement(SBOM, [("x", sha256_digest(WHEEL))], {}).replace(b"Statement/v1", b"Statement/v9")
    for text in (Envelope(statement).signed(key).text(), b"{", path.read_bytes().replace(b"payloadType", b"type")):
        path.write_bytes(text)
        assert verify(wheel, key)[1]["missing"] == ["SBOM (CycloneDX)"]


@pytest.mark.parametrize(
    ("text", "is_image"),
    [
        ("registry.example.org/team/cluster-stack-operator:0.1.0", True),
        (f"registry.example.org/team/cluster-stack-operator@sha256:{'0a' * 32}", True),
        (f"registry.example.org/team/cluster-stack-operator:0.1.0@sha256:{'0a' * 32}", True),
        ("registry.example.org/kaas/stacks:local-shop-1-35-v1", False),
        (f"registry.example.org/kaas/stacks:local-shop-1-35-v1@sha256:{'0a' * 32}", False),
        ("registry.example.org/kaas/stacks", False),
        ("github://example-org/cluster-stacks:local-shop-1-35-v1", False),
        ("https://releases.example.org/stacks:local-shop-1-35-v1", False),
    ],
)
def test_a_reference_is_an_image_unless_it_names_a_release(text: str, is_image: bool) -> None:  # noqa: FBT001
    assert (image_reference(text) is not None) is is_image


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_release(tmp_path / "releases" / STAGED.release, staged_release())


def state(release: Path, key: PrivateKey, verdict: str, minute: int) -> None:
    contents = read_contents(STAGED, release)
    statement = StageStatement(
        release=STAGED,
        place=STAGED.release,
        stage="staging",
        verdict=verdict,
        verified=datetime(2026, 11, 27, 12, minute, tzinfo=UTC),
        facts=StageFacts(clusters={"v1.35.4": 3}, since="2026-11-24T10:00:00Z"),
    )
    asyncio.run(attest_beside(contents, statement.envelope(contents.files).signed(key)))


def told(*arguments: object) -> tuple[int, str]:
    done = csctl_run(*arguments, environ={"PATH": os.environ["PATH"]})
    return done.returncode, done.stdout + done.stderr


def test_evidence_of_a_stage_is_verified_and_listed_by_its_key_alone(release: Path, tmp_path: Path) -> None:
    key, public, other = ecdsa_key(), tmp_path / "stage.pub", tmp_path / "other.pub"
    public.write_bytes(public_pem(key))
    other.write_bytes(public_pem(ed25519_key()))
    verify = ("verify", release, "--evidence", "--key", public)
    assert told(*verify) == (3, f"Warning: no given key states anything about {STAGED}\n")

    state(release, key, PASSED, minute=1)
    line = f"2026-11-27T12:01:00Z  staging passed, 74 h on 3 clusters, signed by {public}\n"
    code, text = told(*verify)
    assert (code, text.endswith(line)) == (0, True)
    code, text = told("verify", release, "--evidence", "--key", other)
    assert code == 3
    assert "not by a trusted key" in text
    assert "staging passed, 74 h on 3 clusters" in told("list", release.parent, "--evidence", "--key", public)[1]
    listed = json.loads(told("list", release.parent, "--evidence", "--key", other, "-o", "json")[1])
    assert [(one["release"], one["evidence"]) for one in listed] == [(STAGED.release, [])]

    state(release, key, FAILED, minute=2)
    assert told(*verify)[0] == 3
    code, text = told(*verify, "-o", "json")
    assert (code, [one["verdict"] for one in json.loads(text)["evidence"]]) == (3, [FAILED, PASSED])
    assert "staging failed" in told("list", release.parent, "--evidence", "--key", public)[1]
    assert told("list", release.parent, "--evidence")[0] == 2
