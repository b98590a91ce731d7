"""Signatures by which a receiver tells our messages from others', as standardwebhooks.com has them."""

from __future__ import annotations

import base64
import hmac
from hashlib import sha256

#: Before a secret, so that it is known for one.
PREFIX = "whsec_"
NUM_SECRET_BYTES = 32


def key_of(secret: str) -> bytes:
    """What a secret stands for. Raises ValueError."""
    key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    if not secret.startswith(PREFIX) or len(key) < NUM_SECRET_BYTES:
        raise ValueError(f"a secret is {PREFIX} and {NUM_SECRET_BYTES} bytes or more in base64")
    return key


def check_secret(content: bytes) -> None:
    """Raises ValueError: a file of this content holds no secret. An empty one is replaced, so it is none."""
    if text := content.decode("ascii", "replace").strip():
        key_of(text)


def signature(key: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """HMAC-SHA256 over `ID.TIMESTAMP.BODY`, in base64, with the number of this scheme."""
    signed = b".".join((message_id.encode(), str(timestamp_s).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, sha256)).decode()
