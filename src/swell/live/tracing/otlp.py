"""Sends spans to an OpenTelemetry collector. The only module that imports the SDK, of the extra `otel`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

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
from swell.live.tracing.span import FinishedSpan, root_id_of, trace_id_of

#: At the end the last spans have so long. After that they are lost.
CLOSE_WITHIN_S = 1.0

log = logging.getLogger("swell.traces")


class OtelSink:
    """Makes spans of the SDK, which sends them from a queue of limited length in a thread of its own."""

    def __init__(
        self,
        exporter: SpanExporter,
        through: Callable[[SpanExporter], SpanProcessor] = BatchSpanProcessor,
    ) -> None:
        self._exporter, self._ids = exporter, _GivenIds()
        named = {"service.name": "swell", "service.version": __version__}
        resource = Resource.create({**named, **OTELResourceDetector().detect().attributes})
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False, id_generator=self._ids
        )
        self._provider.add_span_processor(through(exporter))
        self._tracer = self._provider.get_tracer("swell", __version__)

    def put(self, span: FinishedSpan) -> None:
        """See `SpanSink`."""
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


def open_sink() -> OtelSink:
    """As the standard environment variables say. Raises ValueError if one of them has no sense."""
    collector = _Collector(OTLPSpanExporter())
    loggers = logging.getLogger("opentelemetry")
    loggers.propagate, loggers.handlers = False, [collector.heard]
    return OtelSink(collector)


class _GivenIds(IdGenerator):
    """Those that the next span is to have."""

    trace_id = span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class _Collector(SpanExporter):
    """Tells once that spans are lost, and when they are taken again. The SDK tells it for each batch."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._num_lost = 0
        self.heard = _Heard()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            if not self._num_lost:
                log.warning("spans are lost until the collector takes them: %s", self.heard.first)
            self._num_lost += len(spans)
        elif self._num_lost:
            log.warning("the collector takes spans again; %d were lost", self._num_lost)
            self._num_lost, self.heard.first = 0, ""
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _Heard(logging.Handler):
    """What the SDK says of the exporter is kept: the first since it worked. The rest is told once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("opentelemetry.exporter."):
            self.first = self.first or record.getMessage()
        elif record.msg not in self._told:
            self._told.add(record.msg)
            log.warning("OpenTelemetry: %s (told once)", record.getMessage())


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
