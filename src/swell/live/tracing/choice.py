"""Whether traces are sent: said by the standard environment variables of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
PACKAGE = "opentelemetry-exporter-otlp-proto-http"


def is_asked_for(environ: Mapping[str, str]) -> bool:
    """An endpoint is named, and neither the SDK nor traces are switched off."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    is_elsewhere = environ.get("OTEL_TRACES_EXPORTER", "").strip() not in ("", "otlp")
    return any(environ.get(name) for name in ENDPOINTS) and not (is_off or is_elsewhere)


def lack(environ: Mapping[str, str]) -> str:
    """Why no traces are sent that are asked for, and the remedy; empty: nothing is lacking."""
    if not is_asked_for(environ):
        return ""
    endpoint = next(name for name in ENDPOINTS if environ.get(name))
    protocol = next((name for name in PROTOCOLS if environ.get(name, PROTOCOL) != PROTOCOL), "")
    if protocol:
        return (
            f"no traces are sent: {protocol} is {environ[protocol]}, and Swell sends {PROTOCOL} only; unset "
            f"it, and have {endpoint} name the collector's port for HTTP, by default 4318"
        )
    try:
        version(PACKAGE)
    except PackageNotFoundError:
        return (
            f"no traces are sent: {endpoint} is set, and {PACKAGE} is not installed; "
            "`pip install 'swell[otel]'`, or unset the variable"
        )
    return ""
