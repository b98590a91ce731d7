"""What the page of a job has put together of events is what a new one shows, and is read once for all."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.fake_control import FakeControl
from tests.examples import share_of_examples
from tests.live.test_platform import until
from tests.page.test_feed import events, heard
from tests.store.views import job_view

from swell.api.caller import OWNER, Caller, Role
from swell.api.logs import LogChunk, LogOwner
from swell.api.page.event_ring import EventReader, EventRing
from swell.api.page.event_stream import AFTER_FAILURE_MS, RETRY_MS
from swell.api.page.followed_log import LEFT_OUT, NEWS_BYTES
from swell.api.page.job_rows import job_row
from swell.api.page.job_streams import (
    JOB_FAILED_S,
    LEAST_PAUSE_S,
    LINGER_S,
    MOST_PAUSE_S,
    MOST_SHARE,
    JobStreams,
    pause_after,
)
from swell.api.page.job_watch import JobWatch
from swell.live.retention import PruneRequest
from swell.model.job import Phase
from swell.model.view import Story
from swell.store.curve import CurvePoint
from swell.tally import tally_of

from .conftest import Served

NOW_S = 1_800_000_050.0
COLUMNS = ("first_step", "last_step", "at_s", "not_finite", "mean", "min", "max")


class SilentReader(EventReader):
    """A page that asks by itself."""

    def __init__(self) -> None:
        pass

    def wake(self) -> None:
        pass


class TurnedStreams(JobStreams):
    """That look when a test tells them to, so long after the look before."""

    def __init__(self, control: FakeControl) -> None:
        self.passed_s = 0.0
        super().__init__(control, lambda: self.passed_s)

    def _started(self) -> threading.Thread:
        return threading.Thread()

    def look(self, after_s: float = 100.0) -> bool:
        self.passed_s += after_s
        return super().look()

    def joined(self, whose: LogOwner = LogOwner.LEADER, caller: Caller = OWNER) -> EventRing:
        return self.join("digits-1", whose, caller, SilentReader())


class ReadPage:
    """The page of a job, as its script puts it together."""

    lines: list[tuple[int | None, str]]

    def __init__(self, ring: EventRing) -> None:
        self._ring = ring
        self.id = ""
        self.num_whole = self.num_events = 0
        self.is_gone = False
        self.hear()

    def hear(self) -> None:
        content, self.id = self._ring.since(self.id)
        for kind, told in events(content.decode()):
            self.num_events += 1
            if kind == "state":
                self.num_whole += 1
                self.row, self.parts, self.curves = dict[str, Any](), dict[str, str](), dict[str, Any]()
            self.row |= told.get("row", {})
            self.parts |= told.get("parts", {})
            self.sizes = told.get("sizes", getattr(self, "sizes", None))
            self.is_gone |= told.get("is_gone", False)
            for one in told.get("metrics", ()):
                self._add_points(one)
            if "log" in told:
                self._add_lines(told["log"])

    def _add_points(self, told: dict[str, Any]) -> None:
        known = self.curves.setdefault(told["name"], {name: [] for name in COLUMNS})
        for name in COLUMNS:
            known[name] = told[name] if told["is_whole"] else known[name] + told[name]

    def _add_lines(self, told: dict[str, Any]) -> None:
        before = [] if told["is_whole"] else self.lines
        self.lines = before + [(worker, line) for worker, text in told["pieces"] for line in text.split("\n")]
        self.is_over = told["is_over"]

    @property
    def shown(self) -> tuple[Any, ...]:
        """But for what is told by stories."""
        row = {name: value for name, value in self.row.items() if name != "spark"}
        parts = {name: html for name, html in self.parts.items() if name != "story"}
        return row, parts, self.sizes, self.curves, self.lines, self.is_over


def a_point(step: int) -> CurvePoint:
    tally = tally_of([(step, 1.0 / step)], num_workers=2)
    assert tally is not None
    return CurvePoint(NOW_S + step, 1, step, tally)


def write(control: FakeControl, text: str, name: str = "worker-0") -> None:
    folder = control.log_dir("digits-1")
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.log").open("a") as log:
        log.write(text)


@pytest.fixture
def control(tmp_path: Path) -> FakeControl:
    found = FakeControl(tmp_path)
    found.put(job_view())
    return found


@pytest.fixture
def streams(control: FakeControl) -> Iterator[TurnedStreams]:
    made = TurnedStreams(control)
    yield made
    made.stop()


STEPS = st.lists(
    st.tuples(st.sampled_from(["view", "size", "log", "point", "again", "end", "look"]), st.booleans()),
    max_size=15,
)


@settings(max_examples=share_of_examples(0.3))
@given(STEPS)
def test_a_page_that_hears_now_and_then_shows_what_a_new_one_shows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bool]]
) -> None:
    control = FakeControl(tmp_path_factory.mktemp("jobs"))
    control.put(job_view())
    streams = TurnedStreams(control)
    page = None
    for number, (what, is_heard) in enumerate(steps, 1):
        view = control.job("digits-1")
        if what == "view":
            control.put(msgspec.structs.replace(view, steps=340 + number, reason=f"reason {number}"))
        elif what == "size":
            control.put(msgspec.structs.replace(view, workers=number, sizes=(*view.sizes, (NOW_S, number))))
        elif what == "log":
            write(control, f"line {number}\nand a" * (number % 3))
        elif what == "point":
            control.curves["loss"] = [*control.curves.get("loss", ()), a_point(number)]
        elif what == "again":
            control.curves["loss"] = [a_point(number)]
        elif what == "end" and not view.phase.is_end:
            control.put(msgspec.structs.replace(view, phase=Phase.FAILED, finished_s=NOW_S, message="oh"))
        else:
            streams.look()
        if page is None:
            page = ReadPage(streams.joined())
        elif is_heard:
            page.hear()
    for _ in range(3):  # what a log lacks at its end is told when nothing more comes
        streams.look()
    if page is not None:
        page.hear()
        fresh = TurnedStreams(control)
        new = ReadPage(fresh.joined())
        fresh.look()
        fresh.look()
        new.hear()
        assert page.shown == new.shown
        assert page.row == {**page.row, "steps": control.job("digits-1").steps}


def noted(asked: list[str], name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """The same, that says when it is called."""

    def call(*args: Any) -> Any:
        asked.append(name)
        return plain(*args)

    return call


def test_events_are_the_same_for_all_pages_and_nothing_is_read_without_news(
    control: FakeControl, streams: TurnedStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(control, "first\n")
    pages = [ReadPage(streams.joined()) for _ in range(3)]
    assert len({id(streams.joined()) for _ in range(3)}) == 1
    streams.look()
    streams.look()
    asked = list[str]()
    for name in ("job", "metrics"):
        monkeypatch.setattr(control, name, noted(asked, name, getattr(control, name)))
    before = pages[0].id
    streams.look(after_s=1.0)
    assert asked == []
    control.put(job_view(steps=341))
    control.curves["accuracy"] = [a_point(1)]
    streams.look(after_s=1.0)
    assert asked == ["job", "metrics", "job"], "the fake one looks for the job by itself, too"
    for page in pages:
        page.hear()
    assert {page.id for page in pages} != {before}
    assert len({page.id for page in pages}) == 1
    assert [page.row["steps"] for page in pages] == [341] * 3


def test_of_a_log_that_is_written_fast_the_last_lines_come(
    control: FakeControl, streams: TurnedStreams
) -> None:
    page = ReadPage(streams.joined())
    for number in range(3):
        write(control, "".join(f"{number} {line:050}\n" for line in range(40_000)))
        streams.look()
        content, _ = streams.joined().since(page.id)
        assert len(content) < 3 * NEWS_BYTES
        page.hear()
        assert page.lines[-1] == (None, f"{number} {39_999:050}")
        assert (None, LEFT_OUT) in page.lines
    fresh = ReadPage(streams.joined())
    assert fresh.lines[-1] == page.lines[-1]


def test_a_page_that_lacks_too_much_gets_the_whole_state(
    control: FakeControl, streams: TurnedStreams
) -> None:
    page, slow = ReadPage(streams.joined()), ReadPage(streams.joined())
    for number in range(9):
        write(control, f"{'x' * 60_000}{number}\n")
        streams.look()
        page.hear()
    slow.hear()
    assert (page.num_whole, slow.num_whole) == (1, 2)
    assert slow.lines[-1] == page.lines[-1]


def test_each_log_has_its_own_pages(control: FakeControl, streams: TurnedStreams) -> None:
    leader, workers = (ReadPage(streams.joined(whose)) for whose in (LogOwner.LEADER, LogOwner.WORKERS))
    for number in range(2):
        write(control, f"of {number}\n", f"worker-{number}")
    write(control, "of the trial\n", "trial-0")
    streams.look()
    leader.hear()
    workers.hear()
    assert leader.lines == [(None, "of 0")]
    assert sorted(workers.lines) == [(0, "of 0"), (1, "of 1")]


def test_a_log_that_no_page_shows_any_more_is_not_read(
    control: FakeControl, streams: TurnedStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, read = SilentReader(), list[LogOwner]()
    ring = streams.join("digits-1", LogOwner.WORKERS, OWNER, reader)
    ReadPage(ring), ReadPage(streams.joined())

    def note(*asked: object, whose: LogOwner, **also: object) -> list[LogChunk]:
        read.append(whose)
        return []

    monkeypatch.setattr("swell.api.page.followed_log.read_chunks", note)
    streams.look()
    assert set(read) == {LogOwner.LEADER, LogOwner.TRIAL, LogOwner.WORKERS}
    ring.leave(reader)
    streams.look()
    read.clear()
    streams.look()
    assert set(read) == {LogOwner.LEADER, LogOwner.TRIAL}


def test_the_trial_run_is_shown_until_workers_print(control: FakeControl, streams: TurnedStreams) -> None:
    write(control, "trying\n", "trial-0")
    page = ReadPage(streams.joined())
    write(control, "training\n")
    streams.look()
    write(control, "trying again\n", "trial-0")
    streams.look()
    page.hear()
    assert page.lines == [(None, "trying"), (None, "training")]


def test_the_last_line_of_an_ended_job_needs_no_end(control: FakeControl, streams: TurnedStreams) -> None:
    page = ReadPage(streams.joined())
    write(control, "almost\nlast words")
    streams.look()
    page.hear()
    assert (page.lines, page.is_over) == ([(None, "almost")], False)
    control.put(job_view(phase=Phase.SUCCEEDED, finished_s=NOW_S))
    streams.look()
    streams.look()
    page.hear()
    assert (page.lines, page.is_over) == ([(None, "almost"), (None, "last words")], True)


def test_a_job_that_is_pruned_is_said_to_be_gone(control: FakeControl, streams: TurnedStreams) -> None:
    control.put(job_view(phase=Phase.SUCCEEDED, finished_s=NOW_S))
    page = ReadPage(streams.joined())
    control.prune(PruneRequest(job_ids=("digits-1",)))
    streams.look()
    page.hear()
    assert page.is_gone


def cannot_read(*asked: object, **also: object) -> NoReturn:
    raise OSError("the disk cannot be read")


def test_a_look_that_fails_loses_nothing(
    control: FakeControl, streams: TurnedStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ReadPage(streams.joined())
    control.put(job_view(steps=341))
    with monkeypatch.context() as broken:
        broken.setattr(control, "job", cannot_read)
        streams.look()
    page.hear()
    assert (page.num_whole, page.row["steps"]) == (2, 341)
    control.put(job_view(steps=342, reason="another"))
    streams.look(after_s=JOB_FAILED_S / 2)  # the job is left alone
    streams.look(after_s=JOB_FAILED_S)
    page.hear()
    assert page.row["steps"] == 342
    assert "another" in page.parts["why"]


def test_a_job_whose_log_cannot_be_read_is_told_of_all_the_same(
    control: FakeControl, streams: TurnedStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swell.api.page.followed_log.read_chunks", cannot_read)
    page = ReadPage(streams.joined())
    assert any("the log cannot be read" in line for _, line in page.lines)
    control.put(job_view(steps=341))
    streams.look()
    page.hear()
    assert (page.num_whole, page.row["steps"]) == (1, 341)


def test_after_a_failure_of_the_whole_look_pages_begin_again(
    control: FakeControl, streams: TurnedStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ReadPage(streams.joined())
    control.put(job_view(steps=341))
    with monkeypatch.context() as broken:
        broken.setattr(control, "metric_news", cannot_read)
        assert streams._try_to_look() == JOB_FAILED_S
    page.hear()
    assert (page.num_whole, page.row["steps"]) == (2, 341)
    control.put(job_view(steps=342))
    assert streams._try_to_look() == LEAST_PAUSE_S
    page.hear()
    assert page.row["steps"] == 342


def test_a_thread_that_ends_takes_no_news_from_the_next_one(
    control: FakeControl, streams: TurnedStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page comes when the last look has found none, and before it is over."""
    reader = SilentReader()
    streams.join("digits-1", LogOwner.LEADER, OWNER, reader).leave(reader)
    streams.look(after_s=LINGER_S)
    plain, pages = streams._watched, list[ReadPage]()

    def watched() -> dict[str, JobWatch]:
        found = plain()
        pages.append(ReadPage(streams.joined()))
        control.put(job_view(steps=341))
        return found

    with monkeypatch.context() as slow:
        slow.setattr(streams, "_watched", watched)
        assert not streams.look(after_s=2 * LINGER_S)
    streams.look()
    (page,) = pages
    page.hear()
    assert page.row["steps"] == 341


def test_a_job_is_followed_a_while_after_its_last_page_was_left(
    control: FakeControl, streams: TurnedStreams
) -> None:
    reader = SilentReader()
    ring = streams.join("digits-1", LogOwner.LEADER, OWNER, reader)
    page = ReadPage(ring)
    assert streams.look()
    ring.leave(reader)
    assert streams.look()
    control.put(job_view(steps=341))
    assert streams.look(after_s=LINGER_S)
    assert streams.joined() is ring
    page.hear()
    assert (page.num_whole, page.row["steps"]) == (1, 341)


def test_without_a_page_no_job_is_looked_at(control: FakeControl, streams: TurnedStreams) -> None:
    reader = SilentReader()
    streams.join("digits-1", LogOwner.LEADER, OWNER, reader).leave(reader)
    assert [streams.look(), streams.look()] == [True, False]


def test_environment_and_buttons_are_for_those_who_may_change_the_job(
    control: FakeControl, streams: TurnedStreams
) -> None:
    eve = Caller(name="eve", role=Role.VIEW)
    ours, hers = ReadPage(streams.joined()), ReadPage(streams.joined(caller=eve))
    for page in (ours, hers):
        control.put(job_view(workers=3, steps=340 + len(page.lines)))
    streams.look()
    ours.hear()
    hers.hear()
    assert "data-opens" in ours.parts["actions"]
    assert "data-opens" not in hers.parts["actions"]
    assert ours.parts["why"] == hers.parts["why"]


# ---------------------------------------------------------------- over HTTP
def test_a_stream_of_a_job_goes_on_where_the_page_was(served: Served) -> None:
    served.control.put(job_view())
    with served.opened() as client:
        with client.stream("GET", "/page/events", params={"job": "digits-1"}) as stream:
            lines = stream.iter_lines()
            ((kind, shown),) = heard(lines, 1)
            served.control.put(job_view(workers=4))
            ((_, delta),) = heard(lines, 1)
        again = {"Last-Event-ID": shown["id"]}
        with client.stream("GET", "/page/events", params={"job": "digits-1"}, headers=again) as stream:
            ((kind_again, delta_again),) = heard(stream.iter_lines(), 1)
    assert (kind, shown["row"]["size"], shown["log"]["is_whole"]) == ("state", 2, True)
    assert (kind_again, delta_again) == ("delta", delta)
    assert delta["row"]["size"] == 4
    assert "4 now" in delta["parts"]["facts"]


def test_a_job_must_be_known_and_so_must_the_log(served: Served) -> None:
    served.control.put(job_view())
    with served.opened() as client:
        assert client.get("/page/events", params={"job": "nothing"}).status_code == 404
        refused = client.get("/page/events", params={"job": "digits-1", "log": "x"})
        assert refused.status_code == 422
        assert "leader" in refused.json()["error"]
    assert httpx.get(f"{served.url}/page/events?job=digits-1", trust_env=False).status_code == 401


@given(st.floats(0.0, 10.0))
def test_looks_take_a_hundredth_of_a_core_unless_they_would_be_late(cost_s: float) -> None:
    pause_s = pause_after(cost_s)
    assert LEAST_PAUSE_S <= pause_s <= MOST_PAUSE_S
    assert pause_s == MOST_PAUSE_S or cost_s <= MOST_SHARE * pause_s * (1.0 + 1e-9)


def test_a_page_whose_state_cannot_be_read_comes_back_later(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.control.put(job_view())
    monkeypatch.setattr("swell.api.page.job_watch.JobWatch.shown", cannot_read)
    with (
        served.opened() as client,
        client.stream("GET", "/page/events", params={"job": "digits-1"}) as stream,
    ):
        told = [line for line in stream.iter_lines() if line]
    assert told == [f"retry: {RETRY_MS}", f"retry: {AFTER_FAILURE_MS}"]


def test_streams_of_jobs_end_with_the_platform_and_their_thread_with_the_streams(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swell.api.page.job_streams.LINGER_S", 0.0)
    monkeypatch.setattr("swell.api.page.job_streams.LEAST_PAUSE_S", 0.01)
    monkeypatch.setattr("swell.api.page.job_streams.MOST_PAUSE_S", 0.01)
    monkeypatch.setattr("swell.api.page.job_streams.NO_TURN_S", 0.01)
    served.control.put(job_view())

    def is_looking() -> bool:
        return any(thread.name == "swell-job-pages" for thread in threading.enumerate())

    with served.opened() as client:
        with client.stream("GET", "/page/events", params={"job": "digits-1"}) as stream:
            heard(stream.iter_lines(), 1)
            assert is_looking()
        until(lambda: not is_looking())
        with client.stream("GET", "/page/events", params={"job": "digits-1"}) as stream:
            lines = stream.iter_lines()
            heard(lines, 1)
            served.page.stop()
            with pytest.raises(StopIteration):
                while True:
                    next(lines)


def test_parts_of_events_are_those_of_the_page(served: Served) -> None:
    served.control.put(job_view(warnings={"speed": "one worker is slow"}))
    with served.opened() as client:
        html = client.get("/jobs/digits-1").text
        with client.stream("GET", "/page/events", params={"job": "digits-1"}) as stream:
            ((_, shown),) = heard(stream.iter_lines(), 1)
    plain = re.sub(r"\s+", " ", html)
    assert set(shown["parts"]) == set(re.findall(r'<div id="([a-z]+)"[^>]* data-live>', html))
    for name, text in shown["parts"].items():
        assert re.sub(r"\s+", " ", text).strip() in plain, name


def test_a_stale_deadline_is_told_without_a_turn(
    control: FakeControl, streams: TurnedStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_s = NOW_S
    monkeypatch.setattr(control, "now_s", lambda: at_s)
    page = ReadPage(streams.joined())
    assert page.row["standing"] == job_row(job_view(), at_s).standing == "on-track"
    at_s += 1000.0
    streams.look()
    page.hear()
    assert page.row["standing"] == "overdue"


def test_a_story_is_told(control: FakeControl, streams: TurnedStreams) -> None:
    page = ReadPage(streams.joined())
    control.tell("digits-1", Story(at_s=NOW_S, code="boosted", text="has 3 workers: <b>why</b>"))
    streams.look()
    page.hear()
    assert "has 3 workers: &lt;b&gt;why&lt;/b&gt;" in page.parts["story"]
