"""Create and read certificates and their keys: ECDSA on P-256, PEM, each key PKCS #8."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

T = TypeVar("T", bound=x509.ExtensionType)

AUTHORITY_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=90)

SKEW = timedelta(minutes=5)
"""A certificate is valid a little before its creation: clocks differ."""

UNREADABLE = (ValueError, TypeError, x509.ExtensionNotFound, x509.DuplicateExtension)


class PairError(Exception):
    """A certificate or its key cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The holder of a certificate. `names` are host names and IP addresses."""

    common_name: str
    names: tuple[str, ...] = ()
    server: bool = False
    client: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its key. `read`, `new_authority` and `issue` return one."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """Return the certificate as PEM."""
        return pem(self.certificate)

    @property
    def key_pem(self) -> bytes:
        """Return the key as PEM."""
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(encoding, form, serialization.NoEncryption())

    @property
    def begins(self) -> datetime:
        """Return the start of its validity."""
        return self.certificate.not_valid_before_utc

    @property
    def ends(self) -> datetime:
        """Return the end of its validity."""
        return self.certificate.not_valid_after_utc

    def due(self, now: datetime) -> bool:
        """Return whether less than a third of its life is left."""
        return self.ends - now < (self.ends - self.begins) / 3

    def signed(self, certificate: x509.Certificate) -> bool:
        """Return whether this authority signed a certificate."""
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def read(certificate: bytes, key: bytes) -> Pair:
    """Read a pair. Raises PairError if one is missing or broken, or they do not fit."""
    if not certificate.strip() or not key.strip():
        raise PairError(
            "the pair is incomplete: missing " + ("the certificate" if not certificate.strip() else "the key")
        )
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except UNREADABLE as error:
        raise PairError(f"the certificate cannot be read: {error}") from error
    try:
        secret = serialization.load_pem_private_key(key, password=None)
    except UNREADABLE as error:
        raise PairError(f"the key cannot be read: {error}") from error
    if not isinstance(secret, ec.EllipticCurvePrivateKey):
        raise PairError("the key is not an elliptic curve key")
    if found.public_key() != secret.public_key():
        raise PairError("the key is not that of the certificate")
    return Pair(found, secret)


def bundle(text: bytes) -> list[x509.Certificate]:
    """Return the certificates of a bundle; [] if it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(text)
    except UNREADABLE:
        return []


def new_authority(now: datetime) -> Pair:
    """Create an authority that signs leaves, and no other authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    # The date makes the names of two authorities differ: OpenSSL finds an issuer by its name first.
    name = _name(f"slurm-extender-ca {now:%Y-%m-%dT%H:%M:%SZ}")
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(own, critical=False)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def issue(authority: Pair, subject: Subject, now: datetime) -> Pair:
    """Create a certificate for `subject`; it does not outlive its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH] * subject.server + [ExtendedKeyUsageOID.CLIENT_AUTH] * subject.client
    issuer_key_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        x509.CertificateBuilder(
            issuer.subject, _name(subject.common_name), key.public_key(), x509.random_serial_number()
        )
        .not_valid_before(now - SKEW)
        .not_valid_after(min(now + LEAF_LIFE, authority.ends))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key_id), critical=False)
    )
    if subject.names:
        builder = builder.add_extension(x509.SubjectAlternativeName(_general(subject.names)), critical=False)
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def subject_of(certificate: x509.Certificate) -> Subject:
    """Return the holder of a certificate. Raises PairError if the certificate does not name it readably."""
    try:
        common_names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        extension = _extension(certificate, x509.SubjectAlternativeName)
        names = [str(one.value) for one in extension.value] if extension is not None else []
        uses = _extension(certificate, x509.ExtendedKeyUsage)
        purposes = set(uses.value) if uses is not None else set()
    except UNREADABLE as error:
        raise PairError(f"the certificate cannot be read: {error}") from error
    return Subject(
        str(common_names[0].value) if common_names else "",
        tuple(names),
        ExtendedKeyUsageOID.SERVER_AUTH in purposes,
        ExtendedKeyUsageOID.CLIENT_AUTH in purposes,
    )


def is_authority(certificate: x509.Certificate) -> bool:
    """Return whether it may sign other certificates."""
    try:
        extension = _extension(certificate, x509.BasicConstraints)
    except UNREADABLE:
        return False
    return extension is not None and extension.value.ca


def _extension(certificate: x509.Certificate, kind: type[T]) -> x509.Extension[T] | None:
    try:
        return certificate.extensions.get_extension_for_class(kind)
    except x509.ExtensionNotFound:
        return None


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general(names: Iterable[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
