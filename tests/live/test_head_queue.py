from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.live.parts import PROFILE, spec

from swell.live.clock import HeadClock, LocalClock
from swell.live.head_queue import RESULTS_WAIT_S, HeadQueue, fold_reports
from swell.model.event import AnyEvent, GangResized, JobProfiled, JobSubmitted, StepsReported, Woke
from swell.model.usage import GangUsage
from swell.script_facts import BetweenSteps
from swell.tally import Tally


def report(job: str, generation: int, steps: int, **changes: object) -> StepsReported:
    known = {"at_s": float(steps), "num_workers": generation, "metrics": {}}
    return StepsReported(job_id=job, generation=generation, steps=steps, **(known | changes))  # type: ignore[arg-type]


def resized(job: str, generation: int) -> GangResized:
    return GangResized(at_s=0.0, job_id=job, generation=generation, steps=0, pids=())


EVENTS = st.lists(
    st.one_of(
        st.builds(
            report,
            st.sampled_from("ab"),
            st.integers(1, 2),
            st.integers(0, 50),
            pause_s=st.none() | st.just(0.5),
        ),
        st.builds(resized, st.sampled_from("ab"), st.integers(1, 2)),
        st.just(Woke(at_s=0.0)),
    ),
    max_size=30,
)


#: Every field of a report that may be absent: what only the first of two reports says of it is kept.
SAID = {
    "step_s": 0.5,
    "sample_s": {"n0/0": 0.125},
    "loss": 2.0,
    "metrics": {"accuracy": 0.5},
    "pause_s": 0.25,
    "between": BetweenSteps(time_s=1.0, num_steps=5),
    "noise_scale": 7.0,
    "save_s": 0.125,
    "found_steps": 2,
    "usage": GangUsage(cpu_s=1.0),
    "curves": {"loss": Tally(1, 1, 2, 1, 0, 1.0, 1.0, 1.0, 1.0)},
    "mark": 3,
}


def test_what_only_the_first_report_says_is_kept_whatever_it_is() -> None:
    whose = {"job_id", "at_s", "generation", "steps", "num_workers", "global_batch"}
    assert SAID.keys() == set(StepsReported.__struct_fields__) - whose, "each field that a fold may lose"
    for name, value in SAID.items():
        [folded] = fold_reports([report("a", 1, 4, **{name: value}), report("a", 1, 8)])
        assert isinstance(folded, StepsReported) and folded.steps == 8
        assert getattr(folded, name) == value, name


@given(EVENTS)
def test_folding_keeps_the_sum_of_pauses_and_the_last_word_of_each_job(events: list[AnyEvent]) -> None:
    folded = fold_reports(events)

    def reports(of: list[AnyEvent], job: str) -> list[StepsReported]:
        return [event for event in of if isinstance(event, StepsReported) and event.job_id == job]

    for job in "ab":
        before, after = reports(events, job), reports(folded, job)
        assert sum(r.pause_s or 0.0 for r in before) == sum(r.pause_s or 0.0 for r in after)
        assert [r.steps for r in before[-1:]] == [r.steps for r in after[-1:]]


def test_what_was_measured_without_a_step_is_told_with_the_steps_before_or_after_it() -> None:
    steps = report("a", 1, 5, at_s=5.0, step_s=0.1, metrics={"accuracy": 0.8})
    measured = report("a", 1, 5, at_s=6.0, num_workers=0, metrics={"accuracy": 0.9})
    (merged,) = fold_reports([steps, measured])
    assert isinstance(merged, StepsReported) and merged.brings_steps
    assert (merged.at_s, merged.step_s, merged.metrics) == (5.0, 0.1, {"accuracy": 0.9})
    (merged,) = fold_reports([measured, report("a", 1, 9, at_s=7.0, step_s=0.1)])
    assert isinstance(merged, StepsReported) and merged.brings_steps
    assert (merged.at_s, merged.steps, merged.metrics) == (7.0, 9, {"accuracy": 0.9})
    assert len(fold_reports([steps, report("a", 2, 5, num_workers=0)])) == 2


def test_reports_of_different_batches_stay_apart() -> None:
    first, second = report("a", 1, 5), report("a", 1, 9, global_batch=128)
    assert fold_reports([first, second]) == [first, second]


def stopped(at_s: float = 0.0) -> HeadClock:
    return HeadClock(LocalClock(boot_s=lambda: at_s, wall_s=lambda: at_s, boot_id="boot"))


def test_the_batch_comes_in_order_of_time() -> None:
    inbox = HeadQueue(HeadClock())
    for at_s in (3.0, 1.0, 2.0):
        inbox.put_event(Woke(at_s=at_s))
    assert [event.at_s for event in inbox.take_batch(None)] == [1.0, 2.0, 3.0]


def test_progress_alone_waits_for_company_and_anything_else_brings_it_along() -> None:
    inbox = HeadQueue(stopped())
    inbox.put_event(report("a", 1, 5))
    assert inbox.take_batch(until_s=0.0) == [report("a", 1, 5)]  # a due timer takes along what is there
    inbox.put_event(report("a", 1, 6))
    inbox.put_event(Woke(at_s=0.0))
    assert len(inbox.take_batch(until_s=None)) == 2


def test_the_first_step_of_a_gang_is_told_at_once() -> None:
    first = report("a", 1, 1, loss=2.3)
    inbox = HeadQueue(stopped())
    inbox.put_event(first)
    assert inbox.take_batch(until_s=None) == [first], "or its loss would be folded with the next one"


class Ticking(HeadClock):
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def now_s(self) -> float:
        return self.passed_s


def profiled(job: str) -> JobProfiled:
    return JobProfiled(at_s=0.0, job_id=job, profile=PROFILE, attempt=1)


def test_results_of_trial_runs_wait_for_each_other_and_hold_no_submission_up() -> None:
    clock = Ticking()
    inbox = HeadQueue(clock)
    submitted = JobSubmitted(at_s=0.0, job_id="b", spec=spec())
    inbox.put_event(profiled("a"))
    inbox.put_event(submitted)
    assert inbox.take_batch(None) == [submitted]
    inbox.put_event(profiled("b"))
    clock.passed_s += RESULTS_WAIT_S
    assert inbox.take_batch(None) == [profiled("a"), profiled("b")]
