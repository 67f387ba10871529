"""Issues keys and certificates for the webhooks and for the local environment.

All keys are ECDSA P-256: a whole set takes milliseconds, RSA takes seconds. An authority is trusted only by clients
that receive its certificate.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

LIFETIME = timedelta(days=3650)
"""Default lifetime, for certificates that are never renewed, as in a local environment."""

CLOCK_SKEW = timedelta(minutes=5)
"""Time before the issue at which a certificate becomes valid (arbitrary), for clocks that are slow."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (or a public key) and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:  # no private key in tracebacks and logs
        return "KeyPair(...)"


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that issues certificates for one purpose."""

    pair: KeyPair

    @classmethod
    def create(cls, name: str, lifetime: timedelta = LIFETIME) -> Authority:
        """Create a self-signed authority with the common name ``name``."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        builder = _builder(subject, subject, key.public_key(), lifetime)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
        # Python 3.13 and newer refuse certificates without key identifiers.
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(KeyPair(_pem(builder.sign(key, hashes.SHA256())), _private_pem(key)))

    @property
    def certificate(self) -> bytes:
        """CA certificate (PEM) for clients."""
        return self.pair.certificate

    def issue(
        self,
        name: str,
        *,
        organizations: Sequence[str] = (),
        addresses: Sequence[str] = (),
        hosts: Sequence[str] = (),
        lifetime: timedelta = LIFETIME,
    ) -> KeyPair:
        """Issue a certificate for servers and clients; Kubernetes reads user name and groups from its subject."""
        key = ec.generate_private_key(ec.SECP256R1())
        authority = x509.load_pem_x509_certificate(self.pair.certificate)
        signer = serialization.load_pem_private_key(self.pair.key, password=None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise TypeError("the key of the authority is not an ECDSA key")
        builder = _builder(_subject(name, organizations), authority.subject, key.public_key(), lifetime)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(purposes, critical=False)
        names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        names += [x509.DNSName(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return KeyPair(_pem(builder.sign(signer, hashes.SHA256())), _private_pem(key))


def signing_keys() -> KeyPair:
    """Create a key pair for signing service account tokens; ``certificate`` is the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(public, _private_pem(key))


@dataclass(frozen=True, slots=True)
class Validity:
    """Validity period of a certificate."""

    since: datetime
    until: datetime


def validity(certificate: bytes) -> Validity:
    """Return the validity period of a PEM certificate (the first of a chain); raise ValueError if it is none."""
    parsed = x509.load_pem_x509_certificate(certificate)
    return Validity(parsed.not_valid_before_utc, parsed.not_valid_after_utc)


def answers_to(certificate: bytes, names: Sequence[str]) -> bool:
    """Return whether a certificate is valid for all of these hosts and addresses; raise ValueError if not PEM."""
    parsed = x509.load_pem_x509_certificate(certificate)
    try:
        alternatives = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return not names
    hosts = alternatives.get_values_for_type(x509.DNSName)
    addresses = map(str, alternatives.get_values_for_type(x509.IPAddress))
    return set(names) <= {*hosts, *addresses}


def single_certificates(bundle: bytes) -> list[bytes]:
    """Split a PEM bundle into its certificates; raise ValueError if there are none."""
    return [_pem(certificate) for certificate in x509.load_pem_x509_certificates(bundle)]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _subject(name: str, organizations: Sequence[str] = ()) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
