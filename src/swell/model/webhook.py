"""Addresses that are told of jobs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

MAX_URL_LENGTH = 2000


class WebhookEvent(StrEnum):
    """What an address may be told."""

    FINISHED = "finished"  #: the job ended, in whichever way
    AT_RISK = "at_risk"  #: it is expected to end after its deadline
    MISSED = "missed"  #: its deadline is over, or it failed
    STALLED = "stalled"  #: it runs, and makes no steps


class Webhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address, which may hold secrets, and what it is told."""

    url: str
    on: Annotated[tuple[WebhookEvent, ...], Meta(min_length=1)] = tuple(WebhookEvent)


def fault_of(url: str) -> str:
    """Why nothing can be sent there, in a sentence that does not show the address; empty: it can."""
    if len(url) > MAX_URL_LENGTH:
        return f"an address has at most {MAX_URL_LENGTH} characters"
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        return "an address has no spaces, no control characters and only ASCII: encode others as %XX"
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return "its host or its port is none"
    if parts.scheme not in ("http", "https") or not has_host:
        return "write http://HOST/PATH or https://HOST/PATH"
    return ""


def place_of(url: str) -> str:
    """Scheme, host and port: what may be shown of it."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
