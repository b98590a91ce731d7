"""Addresses that are told of jobs: webhooks, which programs read, and services that people read."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

MAX_URL_LENGTH = 2000
#: Addresses of services that a job or a user may name.
MAX_SERVICES = 10
_SERVICE = re.compile(r"([a-z][a-z0-9+.-]{0,39})://.+", re.IGNORECASE)


class WebhookEvent(StrEnum):
    """What an address may be told."""

    FINISHED = "finished"  #: the job ended, in whichever way
    AT_RISK = "at_risk"  #: it is expected to end after its deadline
    MISSED = "missed"  #: its deadline is over, or it failed
    STALLED = "stalled"  #: it runs, and makes no steps
    IDLE = "idle"  #: it holds devices that it does not use
    STARTED = "started"  #: it has begun to train, or its command to run
    FAILED = "failed"  #: it ended by an error, or at its limit of time
    SESSION_ENDING = "session_ending"  #: the time of the session is nearly over
    NODE_LOST = "node_lost"  #: the platform lost a node; told to addresses of the platform alone
    NODE_ILL = "node_ill"  #: a node was drained because it is faulty; likewise
    NODE_SLOW = "node_slow"  #: a device of a node is slower than others of its kind; likewise


OF_NODES = (WebhookEvent.NODE_LOST, WebhookEvent.NODE_ILL, WebhookEvent.NODE_SLOW)


class Webhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address, which may hold secrets, and what it is told."""

    url: str
    on: Annotated[tuple[WebhookEvent, ...], Meta(min_length=1)] = tuple(WebhookEvent)
    is_service: bool = False  #: Apprise delivers a short text for people there; else it gets signed JSON


def fault_of(url: str, is_service: bool = False) -> str:
    """Why nothing can be sent there, in a sentence that does not show the address; empty: it can."""
    if len(url) > MAX_URL_LENGTH:
        return f"an address has at most {MAX_URL_LENGTH} characters"
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        return "an address has no spaces, no control characters and only ASCII: encode others as %XX"
    if is_service:
        rule = "write an address as Apprise has it, such as slack://TOKEN or mailto://USER:PASSWORD@HOST"
        return "" if _SERVICE.fullmatch(url) else rule
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return "its host or its port is none"
    if parts.scheme not in ("http", "https") or not has_host:
        return "write http://HOST/PATH or https://HOST/PATH"
    return ""


def place_of(url: str, is_service: bool = False) -> str:
    """What may be shown of it: scheme, host and port; of a service the scheme, for a host may be a token."""
    if is_service:
        return url.partition(":")[0]
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
