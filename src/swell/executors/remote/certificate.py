"""The certificate of a controller: signed by itself, and known to hosts by its fingerprint."""

from __future__ import annotations

import hashlib
import ssl
from datetime import UTC, datetime
from pathlib import Path

from swell.executors.local.agent.door import DoorError
from swell.wire.whole_files import write_whole

#: Key and certificate in one file: they are there together or not at all.
CERTIFICATE_FILE = "listen.pem"


def make_certificate(folder: Path) -> Path:
    """Its file in `folder`, which is made unless it is there: the tokens given out name its fingerprint."""
    path = folder / CERTIFICATE_FILE
    if not path.exists():
        write_whole(path, _self_signed(), mode=0o600, is_synced=True)
    return path


def fingerprint_of(path: Path) -> bytes:
    """SHA-256 of the certificate, 32 bytes. Raises DoorError."""
    try:
        text = path.read_text("ascii")
        der = ssl.PEM_cert_to_DER_cert(text[text.index(ssl.PEM_HEADER) :])
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from error
    return hashlib.sha256(der).digest()


def controller_context(path: Path) -> ssl.SSLContext:
    """Return the TLS context of the side that listens. Raises DoorError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # hosts resume no sessions
    try:
        context.load_cert_chain(path)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(path, error) from error
    return context


def _self_signed() -> bytes:
    # Hosts, which are to start soon, make none.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name.from_rfc4514_string("CN=swell")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))  # hosts compare the fingerprint, and no date
        .not_valid_after(datetime(2200, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def _unusable(path: Path, error: Exception) -> DoorError:
    return DoorError(
        f"{path} is no certificate with its key ({error}); it must be the file that Swell wrote: restore it, "
        "or remove it and give every host a new join token"
    )
