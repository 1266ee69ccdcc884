"""An authority of certificates for hosts as scripts write them, whose key is in memory alone."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

_DAYS = 7
"""For which a certificate is good; a sandbox does not last as long."""


class Authority:
    """
    An authority for some names alone.

    Args:
        names: Of hosts, or their addresses.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._inner = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "evalcell, for one sandbox")])
        allowed = x509.NameConstraints([_general_name(name, network=True) for name in dict.fromkeys(names)], None)
        usage = x509.KeyUsage(*(name in ("sign", "crl") for name in ("d", "c", "k", "e", "a", "sign", "crl", "o", "p")))
        made = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(allowed, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = made.public_bytes(serialization.Encoding.PEM)
        """As PEM."""

    def context(self, name: str) -> ssl.SSLContext:
        """Return what a server of this name needs."""
        leaf = (
            self._builder(x509.Name([]), self._inner.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_general_name(name)]), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        secret = self._inner.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        with os.fdopen(os.memfd_create("evalcell-leaf"), "wb") as file:  # the module reads keys from files alone
            file.write(leaf.public_bytes(serialization.Encoding.PEM) + secret)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return context

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=_DAYS))
        )


def _general_name(name: str, network: bool = False) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_network(name) if network else ipaddress.ip_address(name))
    return x509.DNSName(name)
