"""From a platform to a collector: real OTLP over HTTP, and nothing that holds a turn up."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from opentelemetry.util.re import parse_env_headers
from tests.live.machine import DrivenPlatform
from tests.live.parts import spec
from tests.live.test_platform import until
from tests.live.tracing.collector import Collector, collecting
from tests.live.turns import turn
from tests.store.views import job_view

from swell.live.tracing import choice, otlp
from swell.live.tracing import tracer as tracing_tracer
from swell.live.tracing.losses import SpanLosses
from swell.live.tracing.otlp import OtelSink, open_sink
from swell.live.tracing.span import FinishedSpan, root_id_of, trace_id_of
from swell.live.tracing.tracer import Tracer
from swell.model.calendar import Calendar
from swell.model.command import AnyCommand, SuspendGang
from swell.model.event import DrainRequested
from swell.model.job import EndCondition, Phase
from swell.model.view import Story

NEVER_S = 1e9


def in_memory(exporter: InMemorySpanExporter) -> OtelSink:
    return OtelSink(exporter, SimpleSpanProcessor, SpanLosses(most_waiting=10**9))


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
    sink = in_memory(exporter)
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
        in_memory(exporter).put(finished())
        return dict(exporter.get_finished_spans()[0].resource.attributes)

    assert resource()["service.name"] == "swell"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "swell-west")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    assert resource()["service.name"] == "swell-west"
    assert resource()["deployment.environment.name"] == "test"


# ---------------------------------------------------------------- turns
def traced() -> tuple[Tracer, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    return Tracer(in_memory(exporter), slow_turn_s=0.004), exporter


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
    quick = Tracer(in_memory(exporter), slow_turn_s=0.0041)
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


def test_a_suspend_whose_gang_is_lost_meanwhile_is_one_still(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The head's view says what was decided at the moment at which it is told."""
    stage, kept = DrivenPlatform(monkeypatch, tmp_path, 300), _Kept()
    perform = stage.executor.perform

    def lose_instead(command: AnyCommand) -> None:
        if isinstance(command, SuspendGang):
            stage.executor.at(stage.machine.boot_s + 0.5, lambda: stage.executor.lose("a"))
        else:
            perform(command)

    monkeypatch.setattr(stage.executor, "perform", lose_instead)
    stage.submit("a", spec("a", end=EndCondition(steps=300)))
    drain = DrainRequested(at_s=0.0)
    stage.after(8.0, lambda: stage.executor.say(drain))
    stage.platform.trace(Tracer(kept, NEVER_S))
    stage.run_until(12.0)
    (suspend,) = [span for span in kept.spans if span.name in ("suspend", "resize", "batch change")]
    assert suspend.name == "suspend" and suspend.error


def test_the_standard_variables_count(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20sesame")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    sink = open_sink()
    sink.put(finished())
    sink.close()
    assert (collector.names, collector.headers["authorization"]) == ({"train"}, "Bearer sesame")


def send(sink: OtelSink, collector: Collector, *statuses: int) -> None:
    """A span for each, which the collector answers so; and a last one, which it takes."""
    collector.statuses = list(statuses)
    for number in range(1, len(statuses) + 2):
        sink.put(finished(f"span {number}", number))
        left = max(0, len(statuses) - number)
        until(lambda left=left: len(collector.statuses) == left)  # type: ignore[misc]
    until(lambda: f"span {len(statuses) + 1}" in collector.names)
    sink.close()


def test_that_spans_are_lost_is_told_once_and_that_they_are_taken_again(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        send(open_sink(), collector, 400, 400, 401)
    assert [record.getMessage() for record in caplog.records] == [
        f"spans are lost until the collector takes them: {collector.url}: answered 400",
        "the collector takes spans again; 3 were lost",
    ]


def test_an_error_that_was_mended_is_not_that_of_a_later_loss(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    """503 is tried again, with success."""
    sink = open_sink()
    collector.statuses, collector.retry_after = [503], "0"
    sink.put(finished("first", 1))
    until(lambda: "first" in collector.names)
    send(sink, collector, 401)
    assert "answered 401" in caplog.records[0].getMessage()


SECRET = "sesame"


def test_no_secret_is_told(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Addresses, headers and what a collector answers may hold one."""
    address = collector.url.replace("//", f"//user:{SECRET}@")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{address}/{SECRET}?key={SECRET}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"key={SECRET}")
    collector.reason = SECRET
    sink = open_sink()
    collector.statuses = [403]
    sink.put(finished())
    until(lambda: bool(caplog.records))
    collector.is_answering.set()
    sink.close()
    logging.getLogger("opentelemetry.sdk.trace").warning("the value is %s", SECRET)
    told = caplog.text
    assert f"{collector.url}: answered 403" in told and "warning in opentelemetry.sdk.trace" in told
    assert SECRET not in told


def test_a_collector_that_is_away_is_told_by_its_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:1/{SECRET}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    sink = open_sink()
    sink.put(finished())
    until(lambda: bool(caplog.records))
    sink.close()
    first, last = [record.getMessage() for record in caplog.records]
    assert first.endswith("until the collector takes them: http://127.0.0.1:1: ConnectionError")
    assert last == "the platform ends; spans that were lost: 1"


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
    assert caplog.records[-1].getMessage() == "the platform ends; spans that were lost: 200"


@given(st.lists(st.sampled_from(["offer", "take", "lose"]), max_size=60), st.integers(1, 4))
def test_every_span_that_is_lost_is_in_the_numbers_that_are_told(acts: list[str], most_waiting: int) -> None:
    """Those of losses that are over, and that of the end."""
    losses, heard, waiting, delivered = SpanLosses(most_waiting), _Numbers(), 0, 0
    logging.getLogger("swell.traces").addHandler(heard)
    try:
        for act in acts:
            if act == "offer":
                is_taken = losses.has_room()
                assert is_taken is (waiting < most_waiting)
                waiting += is_taken
            elif waiting:
                losses.send(waiting)
                if act == "take":
                    losses.succeed(waiting)
                    delivered += waiting
                else:
                    losses.fail(waiting, "answered 400")
                waiting = 0
        losses.end()
    finally:
        logging.getLogger("swell.traces").removeHandler(heard)
    assert sum(heard.numbers) == acts.count("offer") - delivered


class _Numbers(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple):
            self.numbers += [one for one in record.args if isinstance(one, int)]


def test_a_full_queue_is_told_and_how_many_it_has_cost(caplog: pytest.LogCaptureFixture) -> None:
    losses = SpanLosses(2)
    assert [losses.has_room() for _ in range(5)] == [True, True, False, False, False]
    for num_spans in (2, 0):
        losses.send(num_spans)
        losses.succeed(num_spans)
    first, again = [record.getMessage() for record in caplog.records]
    assert "OTEL_BSP_MAX_QUEUE_SIZE" in first
    assert again == "the collector takes spans again; 3 were lost"


# ---------------------------------------------------------------- very many jobs
class _Kept:
    """A `SpanSink`."""

    def __init__(self) -> None:
        self.spans: list[FinishedSpan] = []

    def put(self, span: FinishedSpan) -> None:
        self.spans.append(span)

    def close(self) -> None: ...


def test_of_very_many_open_jobs_those_that_train_are_told_of_at_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing_tracer, "MOST_UNFINISHED", 20)
    kept = _Kept()
    tracer = Tracer(kept, NEVER_S)
    launched = [Story(at_s=1.0, code=code, text="") for code in ("decided", "started")]
    for number in range(30):
        stories = launched if number >= 27 else []
        tracer.begin(job_view(id=f"job-{number}", submitted_s=0.0), stories, 2.0, Calendar())
    tracer.stop()
    names = [span.name for span in kept.spans]
    assert (len(names), names.count("train (unfinished)")) == (20, 3)
    assert "unfinished spans of 20 open jobs are left out" in caplog.text


# ---------------------------------------------------------------- whether
GRPC = "OTEL_EXPORTER_OTLP_PROTOCOL"
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
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": " , "}, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "console, otlp"}, True),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": ""}, True),
        (ENDPOINT | {GRPC: "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, True),
        (ENDPOINT | {GRPC: "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": ""}, True),
    ],
)
def test_an_endpoint_asks_for_traces(environ: dict[str, str], is_asked_for: bool) -> None:
    assert choice.is_asked_for(environ) is is_asked_for
    assert (choice.lack(environ), choice.fault(environ)) == ("", "")


def test_exporters_that_are_not_known_are_told() -> None:
    told = choice.note(ENDPOINT | {"OTEL_TRACES_EXPORTER": "otlp,console"})
    assert "does not know console" in told and "\n" not in told
    told = choice.note(ENDPOINT | {"OTEL_TRACES_EXPORTER": "zipkin"})
    assert told.startswith("no traces are sent: OTEL_TRACES_EXPORTER is zipkin")
    assert choice.note(ENDPOINT) == choice.note({"OTEL_TRACES_EXPORTER": "console"}) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("OTEL_EXPORTER_OTLP_ENDPOINT", value)
            for value in (
                f"127.0.0.1:14318/{SECRET}",
                f"http://127.0.0.1:99999/{SECRET}",
                f"http://127.0.0.1:0/{SECRET}",
                f"http://a collector:4318/{SECRET}",
                f"http://:4318/{SECRET}",
                f"grpc://127.0.0.1:4317/{SECRET}",
                f"http://[::1:4318/{SECRET}",
                f"http://a..b/{SECRET}",
                f"https://user:{SECRET}@/",
            )
        ),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"collector/{SECRET}"),
        ("OTEL_EXPORTER_OTLP_HEADERS", SECRET),
        ("OTEL_EXPORTER_OTLP_HEADERS", f"a=b,{SECRET}"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", f"authorization: {SECRET}=="),
        ("OTEL_EXPORTER_OTLP_HEADERS", f"a={SECRET}%0a"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/nowhere/key.pem"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
    ],
)
def test_what_can_never_work_is_named_and_no_secret(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = ENDPOINT | {name: value}
    told = choice.fault(environ)
    assert told.startswith(f"{name} ") and SECRET not in told and "\n" not in told
    assert choice.fault(environ | {"OTEL_SDK_DISABLED": "true"}) == ""
    for one, text in environ.items():
        monkeypatch.setenv(one, text)
    with pytest.raises(ValueError, match=name):
        open_sink()


@pytest.mark.parametrize(
    "headers", ["a=b", "api-key=x%20y, authorization=Bearer sesame==,", "x=", "Authorization=Basic%20a%3D"]
)
def test_headers_that_the_sdk_takes_are_taken(headers: str) -> None:
    environ = ENDPOINT | {"OTEL_EXPORTER_OTLP_HEADERS": headers}
    assert choice.fault(environ) == ""
    num_headers = len([one for one in headers.split(",") if one.strip()])
    assert len(parse_env_headers(headers, liberal=True)) == num_headers


def test_what_is_lacking_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    lack = choice.lack(ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is grpc" in lack and "http/protobuf" in lack and "\n" not in lack
    monkeypatch.setattr(choice, "PACKAGE", "no-such-package")
    lack = choice.lack(ENDPOINT)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set" in lack and "pip install 'swell[otel]'" in lack
    assert choice.lack({}) == ""
