"""Sends spans to an OpenTelemetry collector. The only module that imports the SDK, of the extra `otel`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from swell import __version__
from swell.live.tracing import choice
from swell.live.tracing.losses import SpanLosses
from swell.live.tracing.span import FinishedSpan, root_id_of, trace_id_of
from swell.model.webhook import place_of

#: Spans.
DEFAULT_QUEUE = 2048
#: At the end the last spans have so long. After that they are lost.
CLOSE_WITHIN_S = 1.0

log = logging.getLogger("swell.traces")


class OtelSink:
    """Makes spans of the SDK, which sends them from a queue of limited length in a thread of its own."""

    def __init__(
        self,
        exporter: SpanExporter,
        through: Callable[[SpanExporter], SpanProcessor],
        losses: SpanLosses,
    ) -> None:
        self._exporter, self._losses, self._ids = exporter, losses, _GivenIds()
        named = {"service.name": "swell", "service.version": __version__}
        resource = Resource.create({**named, **OTELResourceDetector().detect().attributes})
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False, id_generator=self._ids
        )
        self._provider.add_span_processor(through(exporter))
        self._tracer = self._provider.get_tracer("swell", __version__)

    def put(self, span: FinishedSpan) -> None:
        """See `SpanSink`."""
        if not self._losses.has_room():
            return
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        within = Context()
        if span.parent_id is not None:
            parent = NonRecordingSpan(_context(span.trace_id, span.parent_id))
            within = set_span_in_context(parent, within)
        told = self._tracer.start_span(span.name, within, start_time=round(span.begin_s * 1e9))
        told.set_attributes(
            {name: value for name, value in span.attributes.items() if value not in (None, "")}
        )
        if span.follows:
            told.add_link(_context(trace_id_of(span.follows), root_id_of(span.follows)))
        if span.error:
            told.set_status(StatusCode.ERROR, span.error)
        told.end(round(span.end_s * 1e9))

    def close(self) -> None:
        """See `SpanSink`. A collector that does not answer is not waited for longer."""
        closing = threading.Thread(target=self._provider.shutdown, name="swell-traces-end", daemon=True)
        closing.start()
        closing.join(CLOSE_WITHIN_S)
        if closing.is_alive():
            self._exporter.shutdown()  # no request is tried again
        self._losses.end()


def open_sink() -> OtelSink:
    """Open the sink that the standard environment variables describe. Raises ValueError if one is invalid."""
    loggers = logging.getLogger("opentelemetry")
    loggers.propagate, loggers.handlers = False, [_Heard()]
    if fault := choice.fault(os.environ):
        raise ValueError(fault)
    most_waiting = int(os.environ.get(choice.QUEUE[0]) or DEFAULT_QUEUE)
    session, losses = _Session(), SpanLosses(most_waiting)
    collector = _Collector(OTLPSpanExporter(session=session), session, losses)
    return OtelSink(collector, lambda it: BatchSpanProcessor(it, max_queue_size=most_waiting), losses)


class _GivenIds(IdGenerator):
    """Those that the next span is to have."""

    trace_id = span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class _Session(requests.Session):
    """What became of the first request that failed since the SDK succeeded with one.

    The SDK's own words hold addresses and what the collector says, and so secrets.
    """

    fault = ""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response = super().send(request, **options)
        except Exception as error:
            self._note(request, type(error).__name__)
            raise
        if not response.ok:
            self._note(request, f"answered {response.status_code}")
        return response

    def _note(self, request: requests.PreparedRequest, what: str) -> None:
        self.fault = self.fault or f"{place_of(request.url or '')}: {what}"


class _Collector(SpanExporter):
    """Counts what it takes."""

    def __init__(self, exporter: SpanExporter, session: _Session, losses: SpanLosses) -> None:
        self._exporter, self._session, self._losses = exporter, session, losses

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._losses.send(len(spans))
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._losses.succeed(len(spans))
            self._session.fault = ""
        else:
            self._losses.fail(len(spans), self._session.fault or "no request could be made")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _Heard(logging.Handler):
    """Tells once from where in the SDK something is said, not what. Of requests the session tells."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: set[tuple[str, int]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        place = record.name, record.lineno
        if not record.name.startswith("opentelemetry.exporter.") and place not in self._told:
            self._told.add(place)
            error = record.exc_info[0] if record.exc_info else None
            what = record.levelname.lower() if error is None else error.__name__
            log.warning("OpenTelemetry: %s in %s, line %d (told once)", what, *place)


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
