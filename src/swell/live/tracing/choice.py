"""Whether traces are sent: said by the standard environment variables of OpenTelemetry.

An empty variable is an unset one. Values are not shown where they may hold a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
FILES = tuple(
    (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}")
    for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
)
QUEUE = ("OTEL_BSP_MAX_QUEUE_SIZE",)
EXPORTERS, EXPORTER = "OTEL_TRACES_EXPORTER", "otlp"
PROTOCOL = "http/protobuf"
PACKAGE = "opentelemetry-exporter-otlp-proto-http"
#: A header whose value may be encoded as in a URL, and may have spaces.
_HEADER = re.compile(r"""[!#-'*+.^-z|~0-9A-Z-]+[ \t]*=[\x20!#-+\--:<-\[\]-~]*""")


def is_asked_for(environ: Mapping[str, str]) -> bool:
    """An endpoint is named, and neither the SDK nor traces are switched off."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return bool(_first(environ, ENDPOINTS)) and not is_off and "none" not in _exporters(environ)


def lack(environ: Mapping[str, str]) -> str:
    """Why no traces are sent that are asked for, and the remedy; empty: nothing is lacking."""
    if not is_asked_for(environ):
        return ""
    endpoint, protocol = _first(environ, ENDPOINTS), _first(environ, PROTOCOLS)
    if EXPORTER not in _exporters(environ):
        return (
            f"no traces are sent: {EXPORTERS} is {environ[EXPORTERS]}, and Swell knows {EXPORTER} only; "
            "unset it, or set it to `none`"
        )
    if protocol and environ[protocol] != PROTOCOL:
        return (
            f"no traces are sent: {protocol} is {environ[protocol]}, and Swell sends {PROTOCOL} only; unset "
            f"it, and have {endpoint} name the collector's port for HTTP, by default 4318"
        )
    from importlib.metadata import PackageNotFoundError, version  # fifty modules

    try:
        version(PACKAGE)
    except PackageNotFoundError:
        return (
            f"no traces are sent: {endpoint} is set, and {PACKAGE} is not installed; "
            "`pip install 'swell[otel]'`, or unset the variable"
        )
    return ""


def note(environ: Mapping[str, str]) -> str:
    """Note for the operator: why no traces are sent, or which exporters are ignored; empty: nothing."""
    others = [name for name in _exporters(environ) if name != EXPORTER]
    if not is_asked_for(environ) or lack(environ) or not others:
        return lack(environ)
    return (
        f"traces are sent to the collector only: Swell does not know {', '.join(others)} of {EXPORTERS}; "
        f"set it to `{EXPORTER}`"
    )


def fault(environ: Mapping[str, str]) -> str:
    """Why the traces that are to be sent never could be; empty: nothing is known."""
    if not is_asked_for(environ) or lack(environ):
        return ""
    faults = [_fault_of_endpoint(environ), _fault_of_headers(environ), _fault_of_queue(environ)]
    faults += [_fault_of_file(environ, names) for names in FILES]
    return next(filter(None, faults), "")


def _fault_of_endpoint(environ: Mapping[str, str]) -> str:
    name = _first(environ, ENDPOINTS)
    try:
        parts = urlsplit(environ[name])
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
        is_sound = parts.scheme in ("http", "https") and bool(host) and port != 0
    except ValueError:  # a port that is none, brackets that do not match, an empty label
        is_sound = False
    if is_sound and environ[name].isprintable() and " " not in environ[name]:
        return ""
    return (
        f"{name} is no address of a collector: it begins with http:// or https:// and has a host, and a port "
        "from 1 to 65535, such as http://127.0.0.1:4318"
    )


def _fault_of_headers(environ: Mapping[str, str]) -> str:
    name = _first(environ, HEADERS)
    headers = [header.strip() for header in environ.get(name, "").split(",")]
    if all(_is_header(header) for header in headers if header):
        return ""
    return (
        f"{name} is no list of headers: NAME=VALUE, with a comma between two, and values encoded as in a URL"
    )


def _is_header(header: str) -> bool:
    value = unquote(header.partition("=")[2])
    is_latin = all(character.isprintable() and ord(character) < 256 for character in value)
    return _HEADER.fullmatch(header) is not None and is_latin


def _fault_of_file(environ: Mapping[str, str], names: Sequence[str]) -> str:
    name = _first(environ, names)
    if not name or os.access(environ[name], os.R_OK):
        return ""
    return f"{name} names {environ[name]}, which is not there or cannot be read"


def _fault_of_queue(environ: Mapping[str, str]) -> str:
    name = _first(environ, QUEUE)
    is_number = not name or re.fullmatch(r"[+-]?[0-9]{1,9}", environ[name].strip())
    return "" if is_number else f"{name} is {environ[name]}, which is no whole number of spans"


def _first(environ: Mapping[str, str], names: Sequence[str]) -> str:
    """The name that counts; empty: none is set."""
    return next((name for name in names if environ.get(name)), "")


def _exporters(environ: Mapping[str, str]) -> list[str]:
    names = [name.strip() for name in environ.get(EXPORTERS, "").split(",")]
    return [name for name in names if name] or [EXPORTER]
