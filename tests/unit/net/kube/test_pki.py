from __future__ import annotations

import ipaddress
import stat
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from clusterstacks.dev.private_files import key_files, server_keys, write_private
from clusterstacks.net.kube.pki import Authority, signing_keys

if TYPE_CHECKING:
    from pathlib import Path


ADDRESSES = ("127.0.0.1", "10.0.0.1")


def loaded(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_a_serving_certificate_is_trusted_for_its_address_only() -> None:
    authority = Authority.create("test-ca")
    server = loaded(authority.issue("server", addresses=("127.0.0.1",)).certificate)
    builder = PolicyBuilder().store(Store([loaded(authority.certificate)]))

    builder.build_server_verifier(x509.IPAddress(ipaddress.ip_address("127.0.0.1"))).verify(server, [])
    with pytest.raises(VerificationError):
        builder.build_server_verifier(x509.IPAddress(ipaddress.ip_address("127.0.0.2"))).verify(server, [])


def test_a_certificate_of_another_authority_of_that_name_is_not_trusted() -> None:
    theirs = loaded(Authority.create("test-ca").issue("server", addresses=("127.0.0.1",)).certificate)
    builder = PolicyBuilder().store(Store([loaded(Authority.create("test-ca").certificate)]))

    with pytest.raises(VerificationError):
        builder.build_server_verifier(x509.IPAddress(ipaddress.ip_address("127.0.0.1"))).verify(theirs, [])


def test_organizations_are_groups_for_kubernetes() -> None:
    certificate = loaded(Authority.create("ca").issue("admin", organizations=("system:masters",)).certificate)

    assert certificate.subject.rfc4514_string() == "CN=admin,O=system:masters"
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)


def test_a_private_key_is_never_printed() -> None:
    for pair in (signing_keys(), Authority.create("ca").pair):
        assert "PRIVATE" not in repr(pair)


def test_keys_are_made_once_and_private(tmp_path: Path) -> None:
    first = server_keys(tmp_path / "keys", ADDRESSES)
    before = {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()}

    assert server_keys(tmp_path / "keys", ADDRESSES) == first
    assert {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()} == before
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


def test_a_pair_of_which_one_half_is_missing_is_made_anew(tmp_path: Path) -> None:
    files = key_files(tmp_path, "sa", signing_keys)
    before = files.read()
    files.certificate.unlink()

    assert key_files(tmp_path, "sa", signing_keys).read().key != before.key


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    write_private(tmp_path / "file", b"old")
    with pytest.raises(TypeError):
        write_private(tmp_path / "file", "no bytes")  # type: ignore[arg-type]  # the failure wanted here

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]
