"""From a platform to a collector: real OTLP over HTTP, and nothing that holds a turn up."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.live.machine import DrivenPlatform
from tests.live.parts import spec
from tests.live.test_platform import until
from tests.live.tracing.collector import Collector, collecting
from tests.live.turns import turn
from tests.store.views import job_view

from swell.live.tracing import choice, otlp
from swell.live.tracing.otlp import OtelSink, open_sink
from swell.live.tracing.span import FinishedSpan, root_id_of, trace_id_of
from swell.live.tracing.tracer import Tracer
from swell.model.calendar import Calendar
from swell.model.job import EndCondition, Phase
from swell.model.view import Story

NEVER_S = 1e9


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as one:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", one.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        yield one


def finished(name: str = "train", number: int = 1, **changes: object) -> FinishedSpan:
    known: dict[str, object] = {
        "trace_id": trace_id_of("job"),
        "span_id": number,
        "parent_id": root_id_of("job"),
        "name": name,
        "begin_s": 1_800_000_000.5,
        "end_s": 1_800_000_002.0,
        "attributes": {"whole": 3, "text": "x", "nothing": None, "list": ["a", "b"]},
    }
    return FinishedSpan(**(known | changes))  # type: ignore[arg-type]


# ---------------------------------------------------------------- the SDK
def test_a_span_has_the_ids_and_the_times_that_it_was_given() -> None:
    exporter = InMemorySpanExporter()
    sink = OtelSink(exporter, SimpleSpanProcessor)
    sink.put(finished(error="lost"))
    sink.put(finished("job", parent_id=None, follows="before"))
    sink.close()
    child, root = exporter.get_finished_spans()
    assert child.context is not None and root.context is not None and child.parent is not None
    assert (child.context.trace_id, child.context.span_id) == (trace_id_of("job"), 1)
    assert (child.parent.span_id, root.parent) == (root_id_of("job"), None)
    assert (child.start_time, child.end_time) == (1_800_000_000_500_000_000, 1_800_000_002_000_000_000)
    assert dict(child.attributes or {}) == {"whole": 3, "text": "x", "list": ("a", "b")}
    assert (child.status.status_code, child.status.description) == (StatusCode.ERROR, "lost")
    assert root.status.status_code is StatusCode.UNSET
    (link,) = root.links
    assert (link.context.trace_id, link.context.span_id) == (trace_id_of("before"), root_id_of("before"))


def test_a_platform_says_what_it_is_or_what_the_environment_calls_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resource() -> dict[str, object]:
        exporter = InMemorySpanExporter()
        OtelSink(exporter, SimpleSpanProcessor).put(finished())
        return dict(exporter.get_finished_spans()[0].resource.attributes)

    assert resource()["service.name"] == "swell"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "swell-west")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    assert resource()["service.name"] == "swell-west"
    assert resource()["deployment.environment.name"] == "test"


# ---------------------------------------------------------------- turns
def traced() -> tuple[Tracer, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    return Tracer(OtelSink(exporter, SimpleSpanProcessor), slow_turn_s=0.004), exporter


def test_a_slow_turn_is_a_trace_of_its_parts_and_a_quick_one_is_none() -> None:
    tracer, exporter = traced()
    tracer.hear(turn(now_s=100.0, seq=7))
    root, commit, decide = exporter.get_finished_spans()
    assert [span.name for span in (root, commit, decide)] == ["turn", "commit", "decide"]
    assert (root.start_time, root.end_time) == (100_000_000_000, 100_004_000_000)
    assert (commit.start_time, commit.end_time) == (100_000_000_000, 100_001_000_000)
    assert (decide.start_time, decide.end_time) == (100_001_000_000, 100_003_000_000)
    assert root.attributes is not None and root.attributes["swell.turn.seq"] == 7
    exporter.clear()
    quick = Tracer(OtelSink(exporter, SimpleSpanProcessor), slow_turn_s=0.0041)
    quick.hear(turn(now_s=100.0))
    assert exporter.get_finished_spans() == ()


def test_times_are_those_of_the_calendar() -> None:
    """Also of what began before the machine's clock was set: a span is as long as it was."""
    tracer, exporter = traced()
    view, ahead = job_view(id="a", submitted_s=100.0), Calendar(offsets=((0.0, 5000.0),))
    tracer.begin(view, [Story(at_s=100.0, code="decided", text="")], 100.0, Calendar())
    started = ("a", Story(at_s=103.0, code="started", text=""))
    tracer.hear(turn(view, now_s=103.0, stories=[started], calendar=ahead))
    launch = next(span for span in exporter.get_finished_spans() if span.name == "launch")
    assert (launch.start_time, launch.end_time) == (5_100_000_000_000, 5_103_000_000_000)


# ---------------------------------------------------------------- a platform and a collector
def test_a_collector_gets_one_trace_of_a_job_although_the_daemon_is_killed(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stage = DrivenPlatform(monkeypatch, tmp_path, 300)
    sinks = []
    stage.submit("a", spec("a", end=EndCondition(steps=300)))
    stage.after(8.0, lambda: stage.submit("b", spec("b", end=EndCondition(steps=300))))
    stage.after(9.0, lambda: stage.executor.lose("a"))
    for until_s in (12.0, 120.0):
        sinks.append(open_sink())
        stage.platform.trace(Tracer(sinks[-1], NEVER_S))
        stage.run_until(until_s)
        sinks[-1].close()  # what was in its queue goes; what was open is not told
        stage.restart()
    views = {name: stage.job(name) for name in "ab"}
    assert {view.phase for view in views.values()} == {Phase.SUCCEEDED}
    assert collector.services == {"swell"}
    ids = [(span.trace_id, span.span_id) for span in collector.spans]
    assert len(set(ids)) == len(ids), "nothing is told twice"
    for name, view in views.items():
        mine = [span for span in collector.spans if span.trace_id == trace_id_of(name).to_bytes(16)]
        (root,) = [span for span in mine if not span.parent_span_id]
        assert root.name == "job" and {span.parent_span_id for span in mine} == {b"", root.span_id}
        stages = [span for span in mine if span.name in ("waiting", "trial run", "launch", "train")]
        assert view.finished_s is not None
        seconds = sum(span.end_time_unix_nano - span.start_time_unix_nano for span in stages) / 1e9
        assert seconds == pytest.approx(view.finished_s - view.submitted_s, abs=1e-3)
    lost = [span for span in collector.spans if span.status.code == Status.STATUS_CODE_ERROR]
    assert [span.name for span in lost] == ["train"] and "lost all its workers" in lost[0].status.message
    assert "resize" in collector.names


def test_the_standard_variables_count(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20sesame")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    sink = open_sink()
    sink.put(finished())
    sink.close()
    assert (collector.names, collector.headers["authorization"]) == ({"train"}, "Bearer sesame")


def test_that_spans_are_lost_is_told_once_and_that_they_are_taken_again(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.statuses = [400, 400, 401]
    sink = open_sink()
    with caplog.at_level(logging.WARNING):
        for number in range(1, 5):
            sink.put(finished(f"span {number}", number))
            until(lambda number=number: len(collector.statuses) == max(0, 3 - number))  # type: ignore[misc]
        until(lambda: collector.names == {"span 4"})
        sink.close()
    lost, again = [record.getMessage() for record in caplog.records]
    assert lost.startswith("spans are lost until the collector takes them: ") and "400" in lost
    assert again == "the collector takes spans again; 3 were lost"


def test_a_collector_that_hangs_holds_nothing_up(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the thread that hears of turns nor the end of the platform; the queue has a limit."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    monkeypatch.setattr(otlp, "CLOSE_WITHIN_S", 0.05)
    collector.is_answering.clear()
    sink = open_sink()
    begun_s = time.monotonic()
    for number in range(1, 201):
        sink.put(finished(number=number))
    sink.close()
    assert time.monotonic() - begun_s < 2.0, "a request waits for 10 s"
    full = [record.getMessage() for record in caplog.records if "Queue full" in record.getMessage()]
    assert len(full) == 1


# ---------------------------------------------------------------- whether
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environ", "is_asked_for"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_an_endpoint_asks_for_traces(environ: dict[str, str], is_asked_for: bool) -> None:
    assert choice.is_asked_for(environ) is is_asked_for
    assert choice.lack(environ) == ""


def test_what_is_lacking_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    lack = choice.lack(ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is grpc" in lack and "http/protobuf" in lack and "\n" not in lack
    monkeypatch.setattr(choice, "PACKAGE", "no-such-package")
    lack = choice.lack(ENDPOINT)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set" in lack and "pip install 'swell[otel]'" in lack
    assert choice.lack({}) == ""
