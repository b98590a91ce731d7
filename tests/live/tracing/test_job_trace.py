"""Where the time of a job went: without a gap, and the same whichever daemon tells it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from hashlib import sha256

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.store.views import job_view

from swell.live.tracing.job_trace import (
    BATCH,
    JOB,
    LAUNCH,
    REPAIR,
    RESIZE,
    STOP,
    SUSPEND,
    TRAIN,
    TRIAL,
    UNFINISHED,
    WAITING,
    JobTrace,
)
from swell.live.tracing.span import FinishedSpan
from swell.model.job import Phase
from swell.model.resize import Resize, Verdict
from swell.model.view import JobView, Story

STAGES = {WAITING, TRIAL, LAUNCH, TRAIN, REPAIR}
CHANGES = {RESIZE, BATCH, SUSPEND}
CODES = (
    *(
        "submitted",
        "profiling",
        "profiled",
        "trial_lost",
        "boosted",
        "decided",
        "started",
        "resized",
        "batch",
    ),
    *("resize_failed", "suspended", "suspend_failed", "stopped", "cancelling", "workers_lost", "requeued"),
    *("found", "warned", "held"),
)
BEGIN_S = 1_800_000_000.0
OPEN = job_view(submitted_s=BEGIN_S)


def told(*codes: str, begin_s: float = BEGIN_S) -> list[Story]:
    """A second apart."""
    return [Story(at_s=begin_s + place, code=code, text=f"{code}.") for place, code in enumerate(codes)]


def ended(finished_s: float, phase: Phase = Phase.SUCCEEDED, view: JobView = OPEN) -> JobView:
    return msgspec.structs.replace(view, phase=phase, finished_s=finished_s, reason="is over")


#: Any lines at all in any order, some of them at the same time.
STORIES = st.lists(st.tuples(st.sampled_from(CODES), st.sampled_from([0.0, 0.5, 3.0])), max_size=30).map(
    lambda drawn: [
        Story(at_s=at_s, code=code, text=code)
        for (code, _), at_s in zip(
            drawn, itertools.accumulate((after_s for _, after_s in drawn), initial=BEGIN_S), strict=False
        )
    ]
)


def check_whole(spans: Sequence[FinishedSpan], view: JobView) -> None:
    """From its submission to its end a job is in one stage after the other, and a change is inside them."""
    (root,) = [span for span in spans if span.name.startswith(JOB)]
    assert (root.parent_id is None) == (root.name == JOB)
    assert root.trace_id.to_bytes(16) == sha256(view.id.encode()).digest()[:16]
    assert (root.begin_s, root.end_s) == (view.submitted_s, view.finished_s or root.end_s)
    at_s = root.begin_s
    for span in spans:
        if span is not root:
            assert (span.trace_id, span.begin_s <= span.end_s) == (root.trace_id, True)
            assert root.begin_s <= span.begin_s and span.end_s <= root.end_s
        if span.name.removesuffix(f" {UNFINISHED}") in STAGES:
            assert span.begin_s == at_s, f"nothing is told of the time before {span.name}"
            at_s = span.end_s
    assert at_s == root.end_s


@given(STORIES, st.sampled_from([Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED]))
@example(told("workers_lost", "decided"), Phase.FAILED)  # what is decided for a repair is told with it
def test_no_time_of_a_job_is_untold_and_every_span_ends(stories: list[Story], phase: Phase) -> None:
    trace, end_s = JobTrace(OPEN), (stories[-1].at_s if stories else BEGIN_S) + 1.0
    spans, launched_s, is_stopping = list[FinishedSpan](), set[float](), False
    changed_s: float | None = (
        None  #: the first change, unless a repair or an order to stop has taken its place
    )
    for story in stories:
        is_stopping |= story.code in ("stopped", "cancelling")
        if story.code == "decided" and trace.stage == WAITING:
            launched_s.add(story.at_s)
        elif story.code == "decided" and trace.stage != REPAIR and not is_stopping and changed_s is None:
            changed_s = story.at_s
        spans += trace.hear(OPEN, [story])
    over = ended(end_s, phase)
    spans += trace.hear(over, [])
    check_whole(spans, over)
    assert {span.begin_s for span in spans if span.name == LAUNCH} == launched_s
    assert changed_s is None or changed_s in {span.begin_s for span in spans if span.name in CHANGES}


@given(STORIES)
def test_what_is_open_at_the_end_of_the_platform_is_told_as_unfinished(stories: list[Story]) -> None:
    trace, end_s = JobTrace(OPEN), (stories[-1].at_s if stories else BEGIN_S) + 1.0
    spans = [*trace.hear(OPEN, stories), *trace.unfinished(end_s)]
    check_whole(spans, OPEN)
    (root, *others) = [span for span in spans if span.name.endswith(UNFINISHED)][::-1]
    assert root.name == f"{JOB} {UNFINISHED}" and all(span.end_s == end_s for span in others)


@given(STORIES, st.integers(0, 30))
def test_a_daemon_that_is_killed_at_any_moment_leaves_a_trace_that_goes_on(
    stories: list[Story], place: int
) -> None:
    """What the first one has sent and what the next one sends is what one alone would have sent."""
    over = ended(stories[-1].at_s + 1.0 if stories else BEGIN_S)
    one, first, second = JobTrace(OPEN), JobTrace(OPEN), JobTrace(OPEN)
    expected = [*one.hear(OPEN, stories[:place]), *one.hear(over, stories[place:])]
    sent = first.hear(OPEN, stories[:place])
    second.hear(OPEN, stories[:place])  # of the store: what came of it is not sent again
    assert [*sent, *second.hear(over, stories[place:])] == expected


@given(STORIES)
def test_no_two_spans_have_an_id_in_common(stories: list[Story]) -> None:
    """If no time is twice; however often the platform is stopped and goes on meanwhile."""
    apart = [msgspec.structs.replace(story, at_s=BEGIN_S + place) for place, story in enumerate(stories, 1)]
    spans = list[FinishedSpan]()
    for place in range(len(apart) + 1):
        trace = JobTrace(OPEN)
        trace.hear(OPEN, apart[:place])
        spans += [*trace.hear(OPEN, apart[place : place + 1]), *trace.unfinished(BEGIN_S + place + 0.5)]
    trace = JobTrace(OPEN)
    trace.hear(OPEN, apart)
    spans += trace.hear(ended(BEGIN_S + 100.0), [])
    assert len({span.span_id for span in spans}) == len(spans)


# ---------------------------------------------------------------- what is said of each
def named(spans: Sequence[FinishedSpan], name: str) -> FinishedSpan:
    (span,) = [span for span in spans if span.name == name]
    return span


def test_a_job_that_waits_is_launched_and_suspended() -> None:
    codes = ("submitted", "profiling", "profiled", "waiting", "warned", "decided", "started", "decided")
    spans = JobTrace(OPEN).hear(ended(BEGIN_S + 10.0, Phase.CANCELLED), told(*codes, "suspended"))
    assert [(span.name, span.end_s - span.begin_s) for span in spans] == [
        (WAITING, 1.0),
        (TRIAL, 1.0),
        (WAITING, 3.0),
        (LAUNCH, 1.0),
        (SUSPEND, 1.0),
        (TRAIN, 2.0),
        (WAITING, 2.0),
        (JOB, 10.0),
    ]
    assert spans[2].attributes["swell.cause"] == "profiled." and not spans[2].error
    assert spans[2].attributes["swell.reason"] == "waiting."
    assert spans[3].attributes["swell.workers"] == OPEN.workers


def test_a_loss_is_an_error_with_its_cause_and_what_mends_it_is_told() -> None:
    lost = told("decided", "started", "decided", "workers_lost", "decided", "resized", "requeued")
    spans = JobTrace(OPEN).hear(OPEN, lost)
    assert [(span.name, span.error) for span in spans] == [
        (LAUNCH, ""),
        (BATCH, "workers_lost."),
        (TRAIN, "workers_lost."),
        (REPAIR, ""),
        (TRAIN, "requeued."),
    ]


def test_a_job_that_is_stopped_has_no_error_but_one_that_fails() -> None:
    stopped = JobTrace(OPEN).hear(
        ended(BEGIN_S + 4.0, Phase.CANCELLED), told("decided", "started", "cancelling")
    )
    assert [span.name for span in stopped] == [LAUNCH, STOP, TRAIN, JOB]
    failed = JobTrace(OPEN).hear(ended(BEGIN_S + 4.0, Phase.FAILED), told("decided", "started"))
    assert not any(span.error for span in stopped)
    assert [span.error for span in failed] == ["", "is over", "is over"]


def resize(at_s: float, cost_s: float | None, is_held: bool, gain_s: float | None = None) -> Resize:
    return Resize(
        at_s=at_s,
        before=1,
        after=2,
        verdict=Verdict.PAID,
        reason_code="boosted",
        reason="finishes sooner",
        expected_cost_s=0.2,
        expected_gain_s=7.0,
        wait_s=1.0,
        cost_s=cost_s,
        gain_s=gain_s,
        held_s=1.0,
        is_held=is_held,
        rate_before_per_s=None,
        rate_after_per_s=None,
    )


def test_why_a_wait_ends_is_no_reason_of_its_wait() -> None:
    """The plan that ends it gives its reason in the same turn."""
    at_once = Story(at_s=BEGIN_S + 3.0, code="boosted", text="is worth it")
    stories = [*told("profiling", "profiled", "waiting"), at_once, *told("decided", begin_s=BEGIN_S + 3.0)]
    for through in (lambda trace: trace.hear(OPEN, stories), lambda trace: one_by_one(trace, stories)):
        (*_, waiting) = through(JobTrace(OPEN))
        assert (waiting.name, waiting.attributes["swell.reason"]) == (WAITING, "waiting.")
    alone = JobTrace(OPEN).hear(OPEN, [at_once, *told("decided", begin_s=BEGIN_S + 3.0)])
    assert alone[0].attributes["swell.reason"] is None


def one_by_one(trace: JobTrace, stories: Sequence[Story]) -> list[FinishedSpan]:
    return [span for story in stories for span in trace.hear(OPEN, [story])]


STOPPING = msgspec.structs.replace(OPEN, phase=Phase.STOPPING)
RUNNING = msgspec.structs.replace(OPEN, phase=Phase.RUNNING)


@pytest.mark.parametrize("answer", ["workers_lost", "requeued", "resize_failed", "stopped", ""])
@pytest.mark.parametrize("kind", [RESIZE, BATCH, SUSPEND])
def test_a_change_that_is_overtaken_is_what_it_was_decided_as(kind: str, answer: str) -> None:
    trace, decided_s = JobTrace(OPEN), BEGIN_S + 2.0
    resizing = msgspec.structs.replace(RUNNING, resize_history=(resize(decided_s, None, is_held=False),))
    decided = {RESIZE: resizing, BATCH: RUNNING, SUSPEND: STOPPING}[kind]
    trace.hear(RUNNING, told("decided", "started"))
    assert trace.hear(decided, told("decided", begin_s=decided_s)) == []
    if answer:
        spans = trace.hear(OPEN, told(answer, begin_s=decided_s + 1.0))
    else:
        spans = trace.hear(ended(decided_s + 1.0), [])
    assert (spans[0].name, spans[0].begin_s, spans[0].end_s) == (kind, decided_s, decided_s + 1.0)


def test_what_was_told_to_stop_is_no_loss() -> None:
    """It was to be suspended, and took too long."""
    trace = JobTrace(OPEN)
    trace.hear(RUNNING, told("decided", "started"))
    spans = trace.hear(STOPPING, told("decided", begin_s=BEGIN_S + 2.0))
    spans += trace.hear(STOPPING, told("stopped", "requeued", begin_s=BEGIN_S + 3.0))
    assert [(span.name, span.error) for span in spans] == [(SUSPEND, "stopped."), (STOP, ""), (TRAIN, "")]


def test_a_resize_is_told_with_its_pause_and_the_size_that_it_led_to_with_its_gain() -> None:
    decided_s, trace = BEGIN_S + 2.0, JobTrace(OPEN)
    held = msgspec.structs.replace(OPEN, resize_history=(resize(decided_s, None, is_held=True),))
    assert named(trace.hear(held, told("decided", "started", "decided", "resized")), TRAIN)
    paused = msgspec.structs.replace(OPEN, resize_history=(resize(decided_s, 0.3, is_held=True),))
    (span,) = trace.hear(paused, [])
    assert (span.name, span.begin_s, span.end_s) == (RESIZE, decided_s, decided_s + 1.0)
    assert span.attributes["swell.resize.cost_s"] == 0.3
    assert (span.attributes["swell.resize.before"], span.attributes["swell.resize.after"]) == (1, 2)
    assert span.attributes["swell.resize.expected_gain_s"] == 7.0
    assert span.attributes["swell.cause"] == "decided."
    over = msgspec.structs.replace(OPEN, resize_history=(resize(decided_s, 0.3, False, 5.0),))
    train = named(trace.hear(ended(BEGIN_S + 60.0, view=over), []), TRAIN)
    assert (train.attributes["swell.resize.gain_s"], train.attributes["swell.resize.verdict"]) == (
        5.0,
        "paid",
    )


def test_a_resize_whose_pause_is_never_reported_is_told_when_its_size_is_given_up() -> None:
    trace, codes = JobTrace(OPEN), ("decided", "started", "decided", "resized")
    history = (resize(BEGIN_S + 2.0, None, is_held=True),)
    spans = trace.hear(msgspec.structs.replace(OPEN, resize_history=history), told(*codes))
    assert RESIZE not in {span.name for span in spans}
    given_up = (resize(BEGIN_S + 2.0, None, is_held=False),)
    spans = trace.hear(msgspec.structs.replace(OPEN, resize_history=given_up), [])
    assert [span.name for span in spans] == [RESIZE]


def test_a_job_that_continues_another_one_follows_it() -> None:
    later = msgspec.structs.replace(OPEN, continues="digits-0")
    spans = JobTrace(later).hear(ended(BEGIN_S + 2.0, view=later), told("profiling"))
    assert [(span.name, span.follows) for span in spans] == [(TRIAL, ""), (JOB, "digits-0")]
