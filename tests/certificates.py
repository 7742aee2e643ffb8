"""A certificate that signs itself, for a TLS server of a test on loopback."""

import datetime
import ipaddress
from pathlib import Path

import pytest


def make_certificate(file: Path, host: str) -> Path:
    """Write a certificate of `host`, a name or an address, and its key into one file."""
    x509 = pytest.importorskip(
        "cryptography.x509", reason="needs cryptography, to make a certificate of its own"
    )
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    is_address = host.replace(".", "").isdigit()
    place = x509.IPAddress(ipaddress.ip_address(host)) if is_address else x509.DNSName(host)
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([place]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(built.public_bytes(serialization.Encoding.PEM) + private)
    return file
